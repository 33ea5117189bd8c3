"""Event sourcing in Spark: recovery, replay, and what is wrong with a manifest."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from lab.paths import REPOSITORY
from laptop.commands import kappa
from laptop.example_data import build_house

EXAMPLE = REPOSITORY / "pipelines" / "examples" / "auction-commands"


@pytest.fixture
def manifest(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The example, with all that comes of a command in one sink, snapshots too."""
    monkeypatch.syspath_prepend(EXAMPLE)
    documents = yaml.load_all((EXAMPLE / "pipeline.yaml").read_text(), yaml.CSafeLoader)
    found: dict[str, Any] = next(document for document in documents if document["kind"] == "Pipeline")
    found["metadata"]["namespace"] = "test"
    found["spec"]["views"] = found["spec"]["views"][:1]
    found["spec"]["views"][0]["eventSourced"]["snapshotEvery"] = 3
    found["spec"]["sinks"] = [
        {"name": "all", "from": "decided", "kafka": {"topic": "all", "key": ["auction"]}}
    ]
    return found


def start(manifest: dict[str, Any], folder: Path) -> LocalRun:
    revision = build_local_revision(manifest)
    return LocalRun(start_spark(revision), revision, folder)


def encode(commands: Sequence[dict[str, Any]]) -> dict[str, list[Record]]:
    return {"commands": [Record(json.dumps(command).encode()) for command in commands]}


def by_auction(run: LocalRun) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for output in run.outputs("all"):
        found.setdefault(output.key, []).append(output.value or "")
    return found


@pytest.mark.chaos  # ten seconds; `make test` has random ones without Spark
def test_a_recovery_and_a_replay_without_the_checkpoint_give_the_same_bytes_in_the_same_order(
    spark: SparkSession, manifest: dict[str, Any], tmp_path: Path
) -> None:
    commands = build_house(seed=5, count=300)["commands"]
    recovered = start(manifest, tmp_path / "recovered")
    recovered.feed(encode(commands[:120]))
    recovered.process()
    recovered.feed(encode(commands[120:]))
    assert recovered.crash(), "the driver was to die in the midst of a batch"
    recovered.process()
    replayed = start(manifest, tmp_path / "replayed")
    replayed.feed(encode(commands))
    replayed.process()
    rows = by_auction(recovered)
    assert rows == by_auction(replayed)
    kinds = {json.loads(value)["kind"] for values in rows.values() for value in values}
    assert kinds == {"event", "rejection", "duplicate", "snapshot"}
    for values in rows.values():
        events = [row["sequence"] for row in map(json.loads, values) if row["kind"] == "event"]
        assert events == list(range(1, len(events) + 1))


WRONG: dict[str, dict[str, Any]] = {
    "eventSourced.order names column 'log_offset', which 'commands' does not have": {"order": ["log_offset"]},
    "eventSourced.key names column 'house'": {"key": ["house"]},
    "eventSourced.id names column 'nr'": {"id": "nr"},
    "eventSourced.order must be a number, text or time, and column 'flag' of 'commands' is BOOLEAN": {
        "order": ["flag"]
    },
    "eventSourced carries column 'type', which its own rows have": {"carry": ["type"]},
    "module auction_laws is neither": {"decide": "auction_laws:decide"},
    "auction_rules has no function judge; it has": {"decide": "auction_rules:judge"},
    "auction_rules:_close must take state and event": {"evolve": "auction_rules:_close"},
}


def build_wrong(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spec = manifest["spec"]
    source = {
        **spec["sources"][0],
        "format": {"json": {"schema": "auction BIGINT, id STRING, flag BOOLEAN, type STRING"}},
    }
    del source["recordColumns"]
    good = {**spec["views"][0]["eventSourced"], "order": ["auction"]}
    for number, fields in enumerate(WRONG.values()):
        views = [{"name": "decided", "eventSourced": {**good, **fields}}]
        yield {
            **manifest,
            "metadata": {"name": f"wrong-{number}"},
            "spec": {**spec, "sources": [source], "views": views},
        }


def test_an_error_names_its_view_and_field(
    spark: SparkSession, manifest: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump_all(build_wrong(manifest)))
    assert kappa("validate", ["-f", str(tmp_path / "wrong.yaml")]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("pipeline/")]
    for line, said in zip(lines, WRONG, strict=True):
        assert f"view 'decided': {said}" in line


def test_the_state_of_aggregates_is_explained(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    assert kappa("explain", ["-f", str(EXAMPLE / "pipeline.yaml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "view decided ← commands" in lines
    assert (
        "    keeps the state of each aggregate by auction without bound: it grows with the number of keys"
        in lines
    )


@pytest.mark.chaos
def test_the_cases_of_the_example_pass(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    files = [EXAMPLE / "pipeline.yaml", EXAMPLE / "tests" / "rules.kappatest"]
    assert kappa("test", [f"-f{file}" for file in files]) == 0, capsys.readouterr().out
