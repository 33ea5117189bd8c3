"""`kappa validate` of what the API server refuses, and of what needs no Spark."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from integration.manifests import read_smallest
from kappa_pipelines.laptop.console import FAILED
from kappa_pipelines.laptop.validate import main


def write(folder: Path, *manifests: dict[str, object]) -> list[str]:
    file = folder / "resources.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return ["-f", str(file)]


def test_resources_of_every_kind_are_checked_each_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, store = read_smallest("Topic"), read_smallest("StateStore")
    bad = {**topic, "metadata": {"name": "bad"}, "spec": {"partitions": "four", "partition": 4}}
    assert main(write(tmp_path, bad, topic, store)) == FAILED
    assert capsys.readouterr().out.splitlines() == [
        "topic/bad: InvalidSpec: unknown field \"spec.partition\"; did you mean 'partitions'?;"
        " spec.partitions: must be of type integer, not string",
        f"topic/{topic['metadata']['name']}: valid",
        f"statestore/{store['metadata']['name']}: valid",
    ]


def test_a_pipeline_that_the_api_server_refuses_is_refused_without_loading_spark(tmp_path: Path) -> None:
    pipeline = read_smallest("Pipeline")
    pipeline["spec"]["snks"] = pipeline["spec"].pop("sinks")
    program = "import sys; from kappa_pipelines.laptop.validate import main; print(main(sys.argv[1:]), 'pyspark' in sys.modules)"
    command = [sys.executable, "-c", program, *write(tmp_path, pipeline)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        f"pipeline/{pipeline['metadata']['name']}: InvalidSpec: spec.sinks: Required value;"
        " unknown field \"spec.snks\"; did you mean 'sinks'?",
        "1 False",
    ]
