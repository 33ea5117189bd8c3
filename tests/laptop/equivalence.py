"""The promise of Kappa: a stream over the whole log gives the rows that a batch computation over the same data gives.

A story is a pipeline with one sink, and the same question asked in DuckDB. The stream sees its records in another order,
shuffled as far as the watermark allows, cut into batches, and with a driver that dies in the midst of one of them.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
from pyspark.sql import DataFrame

from kappa_crds import API_VERSION
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.quantities import parse_duration
from kappa_crds.source import Source
from kappa_pipelines.analysis.catalyst import get_plan
from kappa_pipelines.laptop.compare import compare_rows, read_rows
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]
"""Rows by topic, or by source."""

_TYPES = {
    "STRING": "VARCHAR",
    "BIGINT": "BIGINT",
    "INT": "INT",
    "DOUBLE": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "TIMESTAMP": "TIMESTAMPTZ",
}


@dataclass(frozen=True)
class Story:
    """One sink's rows, said twice: a Pipeline, and a query over tables named like its topics."""

    manifest: Row
    batch: str
    in_order: bool = False
    """Whether a source without event time is a log whose order counts; else it is shuffled."""


def build_story(
    sources: Sequence[Row],
    view: Row,
    batch: str,
    *,
    in_order: bool = False,
    mode: str = "append",
    **kafka: Any,
) -> Story:
    """Return the story of one view over some sources."""
    spec = {
        "sources": list(sources),
        "views": [{"name": "answer", **view}],
        "sinks": [{"name": "answer", "from": "answer", "mode": mode, "kafka": {"topic": "answer", **kafka}}],
    }
    parts = {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": {"name": "story"}, "spec": spec}
    manifest = json.loads(json.dumps(parts))  # a manifest has lists, not tuples
    return Story(manifest, batch, in_order=in_order)


def build_table(name: str, schema: str, time: str, watermark: str) -> Row:
    """Return a source of the topic of the same name."""
    event_time = {"column": time, "watermark": watermark}
    return {"name": name, "topic": name, "format": {"json": {"schema": schema}}, "eventTime": event_time}


def build_versions(name: str, schema: str) -> Row:
    """Return a source of the topic of the same name, without event time."""
    return {"name": name, "topic": name, "format": {"json": {"schema": schema}}}


def check(story: Story, rows: Rows, folder: Path, *, batches: int, seed: int) -> None:
    """Compare both, row by row."""
    revision = build_local_revision(
        {**story.manifest, "metadata": {"namespace": "test", **story.manifest["metadata"]}}
    )
    expected = answer_by_duckdb(revision.spec.sources, story.batch, rows)
    assert expected, "the story has no rows, so nothing would be compared"
    run = LocalRun(start_spark(revision), revision, folder)
    _feed(run, _arrange(story, revision.spec, rows, seed), batches)
    assert run.late == 0, "the shuffle went beyond the watermark"
    assert run.letters() == [], "a record could not be read"
    sink = revision.spec.sinks[0]
    differences = compare_rows(expected, read_rows(run.outputs(sink.name), sink))
    assert not differences, f"{len(differences)} differences\n" + "\n".join(differences[:12])


def _arrange(story: Story, spec: PipelineSpec, rows: Rows, seed: int) -> Rows:
    """Return the rows of each source in the order in which they come."""
    keys = {view.event_sourced.from_: view.event_sourced.key for view in spec.views if view.event_sourced}
    arranged: dict[str, Sequence[Row]] = {}
    for source in spec.sources:
        own = rows[source.topic_names[0]]
        if story.in_order and source.event_time is None:
            arranged[source.name] = own
        else:
            arranged[source.name] = _keep_order(_shuffle(source, own, seed), own, keys.get(source.name))
    return arranged


def _feed(run: LocalRun, rows: Rows, batches: int) -> None:
    """Give it all in batches; the driver dies in the middle one."""
    parts = {name: _cut(each, batches) for name, each in rows.items()}
    for number in range(batches):
        run.feed({s.name: [_encode(s, row) for row in parts[s.name][number]] for s in run.spec.sources})
        if number == batches // 2:
            assert run.crash(), "the driver was to die in the midst of a batch"
    run.end()
    run.process()


def _shuffle(source: Source, rows: Sequence[Row], seed: int) -> list[Row]:
    """Return the rows in an order in which none is too late."""
    rng = random.Random(seed)
    time = source.event_time
    if time is None:
        return rng.sample(list(rows), len(rows))
    slack = 0.9 * parse_duration(time.watermark)
    return sorted(rows, key=lambda row: row[time.column].timestamp() + slack * rng.random())


def _keep_order(shuffled: Sequence[Row], rows: Sequence[Row], key: Sequence[str] | None) -> list[Row]:
    """Return the rows shuffled, but those of a key in their own order, as they are in a partition of a topic."""
    if key is None:
        return list(shuffled)
    left: dict[tuple[Any, ...], list[Row]] = {}
    for row in reversed(rows):
        left.setdefault(tuple(row[name] for name in key), []).append(row)
    return [left[tuple(row[name] for name in key)].pop() for row in shuffled]


def _cut(rows: Sequence[Row], parts: int) -> list[Sequence[Row]]:
    size = -(-len(rows) // parts)
    return [rows[at * size : (at + 1) * size] for at in range(parts)]


def _encode(source: Source, row: Row) -> Record:
    if source.format.csv is not None:
        texts = [str(row[name]).replace('"', "") for name, _ in _columns(source)]
        return Record(",".join(f'"{text}"' for text in texts).encode())
    return Record(json.dumps(row, default=lambda time: time.isoformat()).encode())


def _columns(source: Source) -> list[tuple[str, str]]:
    values = source.format.json_ or source.format.csv
    assert values is not None
    pairs = [part.split() for part in values.schema_.split(",")]
    return [(name, kind) for name, kind in pairs]


def answer_by_duckdb(sources: Sequence[Source], batch: str, rows: Rows) -> list[Row]:
    """Return the rows of the batch computation."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for source in sources:
        columns = _columns(source)
        frame = pd.DataFrame(
            [[row.get(name) for name, _ in columns] for row in rows[source.topic_names[0]]],
            columns=[name for name, _ in columns],
            dtype=object,
        )
        connection.register("given", frame)
        typed = ", ".join(f"CAST({name} AS {_TYPES[kind]}) AS {name}" for name, kind in columns)
        connection.execute(f'CREATE OR REPLACE TABLE "{source.topic}" AS SELECT {typed} FROM given')  # noqa: S608
    found = connection.execute(batch)
    names = [column[0] for column in found.description or []]
    return [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in found.fetchall()]


def _plain(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def optimize(rows: DataFrame) -> Any:
    """Return the optimized plan of these rows, as a query has it."""
    spark, jvm = rows.sparkSession._jsparkSession, rows.sparkSession._jvm
    assert jvm is not None
    execution = jvm.org.apache.spark.sql.execution.QueryExecution
    normalized = execution.normalize(spark, get_plan(rows), jvm.scala.Option.empty())
    return spark.sessionState().optimizer().execute(normalized)
