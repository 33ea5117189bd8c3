"""A real scheduler of Spark adds and removes executors as a driver does that has replayed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from lab.paths import REPOSITORY


@pytest.mark.chaos  # a JVM for the driver, and six for executors
def test_spark_removes_only_executors_without_a_task_and_replaces_none(tmp_path: Path) -> None:
    installed = Path(pyspark.__file__).parent
    for name in ("bin", "jars"):
        (tmp_path / name).symlink_to(installed / name)
    ended = subprocess.run(
        [sys.executable, "-m", "spark.scaling"],
        env={
            **os.environ,
            "SPARK_HOME": str(tmp_path),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(REPOSITORY / "tests"),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "three start": True,
        "a job runs": True,
        "busy ones stay": True,
        "at rest": True,
        "one is left": True,
        "none is replaced": True,
        "sum": 499500,
        "three again": True,
    }
