"""Protobuf on a laptop: rows of cases are objects, and become messages of the schema that a topic would have."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from lab.registry import RegistryDouble
from laptop.commands import kappa

SCHEMA = """syntax = "proto3"; package plant; import "google/protobuf/timestamp.proto";
message Reading { string sensor = 1; google.protobuf.Timestamp at = 2; optional uint64 n = 3; }"""


def _document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kappa-platform.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _pipeline(name: str, **formats: dict[str, Any]) -> dict[str, Any]:
    sources = [
        {"name": source, "topic": source, "format": {"protobuf": each}} for source, each in formats.items()
    ]
    union = " UNION ALL ".join(f"TABLE {source}" for source in formats)
    sinks = [{"name": "out", "from": "all_of_them", "kafka": {"topic": "out"}}]
    return _document(
        "Pipeline",
        name,
        {"sources": sources, "views": [{"name": "all_of_them", "sql": union}], "sinks": sinks},
    )


def _write(folder: Path, *documents: dict[str, Any]) -> list[str]:
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
    return ["-f", str(folder / "all.yaml")]


@pytest.mark.chaos  # `make test` has the same story in Avro
def test_objects_become_messages_and_other_text_none(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"sensor": "a", "at": "2026-01-02T03:04:05.000006Z", "n": 18446744073709551615}
    empty = {"sensor": "", "at": None, "n": None}
    inputs = [
        {"source": source, "value": value} for source in ("framed", "bare") for value in (good, "???", {})
    ]
    letters = [
        {
            "source": "bare",
            "error": "the 3 bytes are no plant.Reading: wire format was corrupt",
        },
        {"source": "framed", "error": "value has 3 bytes, and the schema id"},
    ]
    expect: dict[str, Any] = {"sinks": [{"name": "out", "rows": [good, empty] * 2}], "deadLetters": letters}
    misfit: dict[str, Any] = {
        "pipeline": "readings",
        "input": [{"source": "bare", "value": {"sensor": 1}}],
        "expect": {},
    }
    with RegistryDouble() as registry:
        id_ = registry.register("framed-value", SCHEMA + "message Last {}", kind="PROTOBUF")
        registered: dict[str, Any] = {"registry": {"url": registry.url}, "message": "plant.Reading"}
        pipeline = _pipeline(
            "readings", framed=registered, bare={"schema": SCHEMA, "message": "plant.Reading"}
        )
        case = _document("PipelineTest", "case", {"pipeline": "readings", "input": inputs, "expect": expect})
        arguments = _write(tmp_path, pipeline, case, _document("PipelineTest", "misfit", misfit))
        assert kappa("test", arguments) == 1
        out = capsys.readouterr().out
        assert "✓ readings: case" in out, out
        assert (
            f"the row {json.dumps(misfit['input'][0]['value'])} does not fit the schema: Failed to parse sensor"
            in out
        )
        assert kappa("explain", arguments) == 0
        out = capsys.readouterr().out
    assert "runs Python for each batch of records" in out
    assert f"columns of subject framed-value version 1; reads records of versions 1 (id {id_})" in out


def test_an_error_of_a_schema_names_source_and_line_and_real_time_is_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = _pipeline(
        "broken", readings={"schema": 'syntax = "proto3";\nmessage A { strin x = 1; }', "message": "A"}
    )
    fast = _pipeline("fast", readings={"schema": SCHEMA, "message": "plant.Reading"})
    fast["spec"] = {**fast["spec"], "trigger": {"realTime": {}}}
    assert kappa("validate", _write(tmp_path, broken, fast)) == 1
    printed = capsys.readouterr()
    out = printed.out + printed.err
    assert (
        "source 'readings': the Protobuf schema cannot be used: line 2, column 13: \"strin\" is not defined"
        in out
    )
    assert "source readings has the format protobuf" in out
