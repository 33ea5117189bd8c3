"""Executors: a real scheduler of Spark adds and removes them as a driver does that has replayed, and refused ones are no failures (ADR 100)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lab.paths import REPOSITORY


def run_program(*arguments: str, home: Path | None = None) -> tuple[dict[str, Any], str]:
    """Return what a program prints as JSON in its last line, and its log; it is a process of its own, as it needs another master."""
    ended = subprocess.run(
        [sys.executable, "-m", *arguments],
        env={
            **os.environ,
            **({} if home is None else {"SPARK_HOME": str(home)}),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(REPOSITORY / "tests"),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found, ended.stderr


@pytest.mark.chaos  # a JVM for the driver, and six for executors
def test_spark_removes_only_executors_without_a_task_and_replaces_none(tmp_path: Path) -> None:
    installed = Path(pyspark.__file__).parent
    for name in ("bin", "jars"):
        (tmp_path / name).symlink_to(installed / name)
    seen, _ = run_program("spark.scaling", str(tmp_path), home=tmp_path)
    assert seen == {
        "three start": True,
        "a job runs": True,
        "all are busy": True,
        "busy ones stay": True,
        "at rest": True,
        "one is left": True,
        "none is replaced": True,
        "sum": 499500,
        "three again": True,
    }


def test_executors_that_are_refused_from_the_start_do_not_end_a_session_and_are_no_failures(
    tmp_path: Path,
) -> None:
    seen, logged = run_program("spark.refused", str(tmp_path))
    assert seen == {
        "refused": True,
        "why": "the API server refuses executors: ResourceQuota 'small' has no room: requested pods=1, used pods=1, limited pods=1;"
        " raise it, or lower spec.resources",
        "old": "",
        "failed": 0,
        "stopped": False,
    }
    assert logged.count("ERROR ExecutorPods: Failed to create executor pod") == 1, "once in a minute"
