"""The promise of Kappa: a stream over the whole log gives the rows that a batch computation over the same data gives.

A story is a pipeline's views with the same question asked in DuckDB. The stream sees its records in another order,
shuffled as far as the watermark allows, cut into batches, and with a driver that dies in the midst of one of them.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from kappa_crds import API_VERSION
from kappa_crds.quantities import parse_duration
from kappa_pipelines.laptop.compare import compare_rows, read_rows
from kappa_pipelines.laptop.console import start_spark
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row]]


@dataclass(frozen=True)
class Table:
    """A source: its columns, its event time, and how far out of order it may come."""

    schema: str
    time: str = "ts"
    watermark: str = "10m"


@dataclass(frozen=True)
class Story:
    """One sink's rows, said twice."""

    tables: Mapping[str, Table]
    views: Sequence[Row]
    batch: str
    mode: str = "append"
    key: Sequence[str] = ()
    sink: str = field(default="answer")

    def spec(self) -> Row:
        """Return the pipeline; its last view is the answer."""
        sink: Row = {"name": self.sink, "from": self.views[-1]["name"], "topic": "answer", "mode": self.mode}
        return {
            "sources": [self._source(name, table) for name, table in self.tables.items()],
            "views": list(self.views),
            "sinks": [sink | ({"key": list(self.key)} if self.key else {})],
        }

    def _source(self, name: str, table: Table) -> Row:
        time = {"column": table.time, "watermark": table.watermark}
        return {
            "name": name,
            "topic": name,
            "format": {"json": {"schema": table.schema}},
            "eventTime": time,
        }


def answer_by_stream(
    story: Story,
    rows: Tables,
    folder: Path,
    *,
    batches: int,
    seed: int,
    crash: bool = True,
) -> list[Row]:
    """Return the rows of the sink after the whole input."""
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "Pipeline",
        "metadata": {"name": "story", "namespace": "test"},
        "spec": story.spec(),
    }
    revision = build_local_revision(manifest)
    run = LocalRun(start_spark(revision), revision, folder)
    parts = {name: _cut(_shuffle(story.tables[name], rows[name], seed), batches) for name in story.tables}
    for number in range(batches):
        run.feed({name: [_record(row) for row in cut[number]] for name, cut in parts.items()})
        if crash and number == batches // 2:
            run.crash()
    run.end()
    run.process()
    assert run.late == 0, "the shuffle went beyond the watermark"
    return read_rows(run.outputs(story.sink), revision.spec.sinks[0].mode)


def _shuffle(table: Table, rows: Sequence[Row], seed: int) -> list[Row]:
    """Return the rows in an order in which none is too late."""
    rng = random.Random(seed)
    slack = 0.9 * parse_duration(table.watermark)
    return sorted(rows, key=lambda row: row[table.time].timestamp() + slack * rng.random())


def _cut(rows: Sequence[Row], parts: int) -> list[Sequence[Row]]:
    size = -(-len(rows) // parts)
    return [rows[at * size : (at + 1) * size] for at in range(parts)]


def _record(row: Row) -> Record:
    return Record(json.dumps(row, default=lambda time: time.isoformat()).encode())


def answer_by_duckdb(story: Story, rows: Tables) -> list[Row]:
    """Return the rows of the batch computation."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, table in story.tables.items():
        columns = [part.strip().split() for part in table.schema.split(",")]
        types = ", ".join(f"{column} {_TYPES[kind]}" for column, kind in columns)
        connection.execute(f"CREATE TABLE {name} ({types})")
        marks = ", ".join("?" for _ in columns)
        connection.executemany(
            f"INSERT INTO {name} VALUES ({marks})",  # noqa: S608 - names of our own
            [[row.get(column) for column, _ in columns] for row in rows[name]],
        )
    found = connection.execute(story.batch)
    names = [column[0] for column in found.description or []]
    return [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in found.fetchall()]


_TYPES = {"STRING": "VARCHAR", "BIGINT": "BIGINT", "DOUBLE": "DOUBLE", "TIMESTAMP": "TIMESTAMPTZ"}


def _plain(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def check(
    story: Story,
    rows: Tables,
    folder: Path,
    *,
    batches: int,
    seed: int,
    crash: bool = True,
) -> None:
    """Compare both, row by row."""
    expected = answer_by_duckdb(story, rows)
    found = answer_by_stream(story, rows, folder, batches=batches, seed=seed, crash=crash)
    assert expected, "the story has no rows, so nothing was compared"
    differences = compare_rows(expected, found)
    assert not differences, "\n".join(differences[:12])
