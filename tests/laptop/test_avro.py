"""Avro on a laptop: rows of cases and files are objects, and become records of the schema that a topic would have."""

import json
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lab.registry import RegistryDouble
from laptop.commands import kappa

SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {
            "name": "value",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}],
        },
    ],
}


def _write(folder: Path, registry: RegistryDouble, values: list[object], **expect: object) -> list[str]:
    sources = [
        {"name": "framed", "topic": "readings", "format": {"avro": {"registry": {"url": registry.url}}}},
        {"name": "bare", "topic": "bare", "format": {"avro": {"schema": json.dumps(SCHEMA)}}},
    ]
    view = {"name": "both", "sql": "SELECT * FROM framed UNION ALL SELECT * FROM bare"}
    sinks = [{"name": "out", "from": "both", "kafka": {"topic": "out"}}]
    spec = {"sources": sources, "views": [view], "sinks": sinks}
    inputs = [{"source": source, "value": value} for source in ("framed", "bare") for value in values]
    case = {"pipeline": "avro", "input": inputs, "expect": expect}
    documents = [("Pipeline", "avro", spec), ("PipelineTest", "case", case)]
    (folder / "all.yaml").write_text(
        yaml.safe_dump_all(
            [
                {
                    "apiVersion": "kappa-platform.io/v1alpha1",
                    "kind": kind,
                    "metadata": {"name": name},
                    "spec": each,
                }
                for kind, name, each in documents
            ]
        )
    )
    return ["-f", str(folder / "all.yaml")]


def test_objects_become_avro_records_and_other_text_none(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"sensor": "a", "at": "2026-01-02T03:04:05.000006Z", "value": 1.25}
    empty = {"sensor": "b", "at": "2026-01-02T03:04:05Z", "value": None}
    letters = [
        {"source": "bare", "error": "the 3 bytes are no Avro record of the declared schema"},
        {"source": "framed", "error": "value has 3 bytes, and the schema id"},
    ]
    with RegistryDouble() as registry:
        id_ = registry.register("readings-value", SCHEMA)
        rows = [good, empty] * 2
        arguments = _write(
            tmp_path,
            registry,
            [good, "???", empty],
            sinks=[{"name": "out", "rows": rows}],
            deadLetters=letters,
        )
        assert kappa("test", arguments) == 0, capsys.readouterr().out
        assert kappa("explain", arguments) == 0
        assert (
            f"columns of subject readings-value version 1; reads records of versions 1 (id {id_})"
            in capsys.readouterr().out
        )

        for topic in ("readings", "bare"):
            (tmp_path / f"{topic}.jsonl").write_text(json.dumps(good) + "\n")
        assert kappa("run", [*arguments, "--local", "--data", str(tmp_path)]) == 0
        lines = [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()]
        assert lines == [good, good]


def test_an_object_that_is_no_record_of_the_schema_is_refused_with_what_is_missing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RegistryDouble() as registry:
        registry.register("readings-value", SCHEMA)
        assert kappa("test", _write(tmp_path, registry, [{"sensor": "a"}])) == 1
    out = capsys.readouterr().out
    assert """the row {"sensor": "a"} has no value for at""" in out
