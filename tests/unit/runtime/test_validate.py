"""`kappa validate` of what the API server refuses, and of what needs no Spark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from integration.manifests import read_smallest
from kappa_crds import API_VERSION
from kappa_crds.manifests import TEST_KIND
from kappa_pipelines.laptop.console import FAILED, UNUSABLE
from kappa_pipelines.laptop.screen import describe_batch
from laptop.commands import kappa


def write(folder: Path, *manifests: dict[str, object]) -> list[str]:
    file = folder / "resources.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return ["-f", str(file)]


def test_resources_of_every_kind_are_checked_separately(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, store = read_smallest("Topic"), read_smallest("StateStore")
    bad = {**topic, "metadata": {"name": "bad"}, "spec": {"partitions": "four", "partition": 4}}
    assert kappa("validate", write(tmp_path, bad, topic, store)) == FAILED
    assert capsys.readouterr().out.splitlines() == [
        "topic/bad: InvalidSpec: unknown field \"spec.partition\"; did you mean 'partitions'?;"
        " spec.partitions: must be of type integer, not string",
        f"topic/{topic['metadata']['name']}: valid",
        f"statestore/{store['metadata']['name']}: valid",
    ]


REFUSED = "unknown field \"spec.snks\"; did you mean 'sinks'?"


@pytest.mark.parametrize(
    ("command", "arguments", "code"),
    [
        ("validate", "lambda lines, _: print(*lines)", FAILED),
        ("explain", "lambda lines, _: print(*lines)", FAILED),
        ("test", "lambda lines, _: print(*lines)", UNUSABLE),
        ("run", "data='.'", FAILED),
    ],
)
def test_a_pipeline_that_the_api_server_refuses_is_refused_without_loading_spark(
    tmp_path: Path, command: str, arguments: str, code: int
) -> None:
    pipeline = read_smallest("Pipeline")
    pipeline["spec"]["snks"] = pipeline["spec"].pop("sinks")
    name = pipeline["metadata"]["name"]
    spec = {"pipeline": name, "input": [{"value": "x"}], "expect": {}}
    case: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": TEST_KIND,
        "metadata": {"name": "t"},
        "spec": spec,
    }
    program = (
        f"import sys; from kappa_pipelines.laptop.{command} import main;"
        f" print(main(sys.argv[1:], {arguments}), 'pyspark' in sys.modules)"
    )
    invoked = [sys.executable, "-c", program, write(tmp_path, pipeline, case)[-1]]
    done = subprocess.run(invoked, capture_output=True, text=True, check=True, timeout=60)
    assert f"pipeline/{name}: " in done.stdout + done.stderr
    assert REFUSED in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{code} False"


def test_progress_shows_records_a_rate_and_a_watermark_if_there_is_one() -> None:
    event = {
        "batchId": 3,
        "numInputRows": 12,
        "durationMs": {"addBatch": 400, "triggerExecution": 500},
        "observedMetrics": {"a": {"rows": 5, "malformed": 0}, "b": {"rows": 1, "malformed": 1}},
        "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
    }
    assert describe_batch(event) == "batch 3, 6 records, 12 per second, watermark none"
    assert describe_batch({"batchId": 4, "durationMs": {"latestOffset": 3}}) is None


def test_files_are_named_with_an_option_or_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, first = write(tmp_path, read_smallest("Topic"))
    second = tmp_path / "store.yaml"
    second.write_text(yaml.safe_dump(read_smallest("StateStore")))
    valid = [f"topic/{read_smallest('Topic')['metadata']['name']}: valid"]
    valid.append(f"statestore/{read_smallest('StateStore')['metadata']['name']}: valid")
    for arguments in ([first, str(second)], [first, "-f", str(second)], ["-f", first, str(second)]):
        assert kappa("validate", arguments) == 0
        assert sorted(capsys.readouterr().out.splitlines()) == sorted(valid)


@pytest.mark.parametrize("command", ["validate", "explain", "run", "test"])
def test_a_command_without_a_file_reports_the_missing_argument(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kappa(command, ["--data", "."] if command == "run" else []) == UNUSABLE
    assert "name a manifest: FILE or -f FILE" in capsys.readouterr().err


def test_a_run_needs_no_option_to_be_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert kappa("run", ["--data", ".", "/nowhere/pipeline.yaml"]) == UNUSABLE
    assert "/nowhere/pipeline.yaml" in capsys.readouterr().err


def test_results_are_printed_as_json_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = read_smallest("Topic")
    bad = {**topic, "metadata": {"name": "bad"}, "spec": {"partition": 4}}
    assert kappa("validate", [*write(tmp_path, topic, bad), "-o", "json"]) == FAILED
    assert json.loads(capsys.readouterr().out) == [
        {
            "resource": f"topic/{topic['metadata']['name']}",
            "valid": True,
            "lines": [f"topic/{topic['metadata']['name']}: valid"],
        },
        {
            "resource": "topic/bad",
            "valid": False,
            "reason": "InvalidSpec",
            "message": "unknown field \"spec.partition\"; did you mean 'partitions'?",
        },
    ]
