"""Tables that the module in Java keeps (ADR 83): joins and lookups write the rows of the steps in Python."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kappa_crds import API_VERSION
from kappa_crds.revision import Revision
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.analysis.catalyst import get_plan
from kappa_pipelines.laptop.explanation import explain
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import Compiled, compile_revision
from kappa_pipelines.plan.fingerprint import build_fingerprints
from kappa_pipelines.revision.settings import NATIVE_TABLES
from kappa_pipelines.upgrade.compare import compare_pipelines, judge
from laptop.formers import FORMER, check_former
from laptop.two_plans import check_same, run_both

LEFT: dict[str, Any] = {"from": "a", "order": "version", "deleted": "deleted"}
RIGHT: dict[str, Any] = {"from": "b", "order": "version", "deleted": "deleted"}
JOIN: dict[str, Any] = {
    "left": LEFT,
    "key": ["id"],
    "right": RIGHT,
    "foreignKey": {"to": "id"},
    "columns": {"text": "note", "many": "to"},
}
PAIRS = {**JOIN, "foreignKey": {"to": "to"}, "rightKey": ["id"], "columns": {"other": "id", "text": "note"}, "unmatched": "drop"}  # fmt: skip
LOOKUP: dict[str, Any] = {"from": "a", "table": RIGHT, "key": {"to": "id"}, "columns": {"text": "note"}}
VIEWS: dict[str, dict[str, Any]] = {
    "join": {"tableJoin": JOIN},
    "inner join": {"tableJoin": {**JOIN, "unmatched": "drop"}},
    "pairs": {"tableJoin": PAIRS},
    "lookup": {"lookup": LOOKUP},
}
COLUMNS = "id INT, to INT, note STRING, x DOUBLE, list ARRAY<STRING>"
UNAVAILABLE = "__debezium_unavailable_value"


@pytest.fixture(autouse=True)
def restore(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(NATIVE_TABLES)


def build(view: dict[str, Any], *, numbers: bool = False, mode: str = "append") -> Revision:
    """Return a revision whose tables are change events, or rows with a number as their version."""
    sources: list[dict[str, Any]] = []
    for name in ("a", "b"):
        source: dict[str, Any] = {"name": name, "topic": name}
        if numbers:
            described = ", version BIGINT, deleted BOOLEAN"
            sources.append({**source, "format": {"json": {"schema": COLUMNS + described}}})
        else:
            columns = {"version": "version", "deleted": "deleted", "truncated": "truncated"}
            envelope = {"debezium": {"columns": columns}}
            sources.append({**source, "format": {"json": {"schema": COLUMNS}}, "envelope": envelope})
    spec = {
        "sources": sources,
        "views": [{"name": "answer", **view}],
        "sinks": [
            {"name": "answer", "from": "answer", "kafka": {"topic": "answer", "key": ["id"]}, "mode": mode}
        ],
    }
    metadata = {"name": "tables", "namespace": "test"}
    return build_local_revision({"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec})  # fmt: skip


def is_native(compiled: Compiled) -> bool:
    plan = get_plan(compiled.sinks[0].rows).toString()
    return "TransformWithState" in plan and "TransformWithStateInPySpark" not in plan


def make_changes(seed: int, *, numbers: bool) -> list[dict[str, list[Record]]]:
    """Return batches of changes: written again, in the wrong order, from snapshots and another server, and without values."""
    rng = random.Random(seed)
    position, batches = 0, []
    for _ in range(6):
        fed: dict[str, list[Record]] = {"a": [], "b": []}
        for name in "aababa" * rng.choice([1, 3, 6]):
            position += 1
            row = {
                "id": rng.randrange(6),
                "to": rng.choice([None, *range(4), *range(4)]),
                "note": rng.choice(["größe \" \\ , }", "", "[1]", None, "x"]),
                "x": rng.choice([0.1, -0.0, 1e300, None]),
                "list": rng.choice([[], ["a,b", None], None]),
            }  # fmt: skip
            place = position - rng.choice([0, 0, 0, 5, 20])
            fed[name].append(_write_row(rng, row, place) if numbers else _write_event(rng, row, place))
        batches.append(fed)
    return batches


def _write_row(rng: random.Random, row: dict[str, Any], place: int) -> Record:
    # Some numbers are equal: of two such rows the one with the greater columns is the last.
    return Record(json.dumps({**row, "version": place, "deleted": rng.random() < 0.2}).encode())


def _write_event(rng: random.Random, row: dict[str, Any], place: int) -> Record:
    kind = rng.choice(["u"] * 6 + ["d", "tombstone", "r", "incremental", "large", "large"])
    key = json.dumps({"id": row["id"]}).encode()
    if kind == "tombstone":
        return Record(None, key=key)
    source = {"lsn": place, "server_id": rng.choice([1, 1, 1, 2]), "ts_ms": place}
    after = {**row, "list": None if row["list"] is None else json.dumps(row["list"])}
    after |= {"note": UNAVAILABLE} if kind == "large" else {}
    value = {"op": kind if kind in "dr" else "u", "before": after, "after": after, "source": source}
    if kind == "incremental":
        value |= {"op": "r", "source": {**source, "snapshot": "incremental"}}
    return Record(json.dumps(value).encode(), key=key)


@pytest.mark.chaos  # a minute for each on a busy machine; `make test` has the events of `test_change_events.py`
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("numbers", [False, True])
def test_the_rows_are_those_of_the_steps_in_python(
    view: str, seed: int, numbers: bool, spark: SparkSession, tmp_path: Path
) -> None:
    revision, changes = build(VIEWS[view], numbers=numbers), make_changes(seed, numbers=numbers)
    own, other = run_both(revision, NATIVE_TABLES, tmp_path, changes)
    assert (is_native(own.compiled), is_native(other.compiled)) == (True, False)
    check_same(own, other)
    assert len(own.rows) > 5


@pytest.mark.chaos  # as long as one of those above
def test_a_query_in_mode_update_has_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    revision = build(VIEWS["join"], mode="update")
    own, other = run_both(revision, NATIVE_TABLES, tmp_path, make_changes(5, numbers=False))
    assert is_native(own.compiled)
    check_same(own, other)


def compile_view(spark: SparkSession, revision: Revision, native: str = "true", **options: Any) -> Compiled:
    start_spark(revision).conf.set(NATIVE_TABLES, native)
    return compile_revision(spark, revision, **options)


@pytest.mark.parametrize(
    ("view", "native", "line"),
    [
        (VIEWS["join"], "true", "by Kappa in the JVM"),
        (VIEWS["lookup"], "true", "by Kappa in the JVM"),
        (VIEWS["join"], "false", f"in Python, more slowly: {NATIVE_TABLES} is false"),
        ({"tableJoin": {**JOIN, "right": {**RIGHT, "truncated": "truncated"}}}, "true", "in Python, more slowly: b declares truncations"),
    ],
)  # fmt: skip
def test_explain_shows_where_tables_are_kept(
    view: dict[str, Any], native: str, line: str, spark: SparkSession
) -> None:
    revision = build(view)
    compiled = compile_view(spark, revision, native)
    assert is_native(compiled) == ("JVM" in line)
    lines = list(explain("tables", spark, revision, compiled))
    assert [each for each in lines if each.startswith(f"    tables are kept {line}")], lines
    assert lines.count("    change events are read by Kappa") == len(revision.spec.sources)


def test_state_in_python_stays_there(spark: SparkSession, tmp_path: Path) -> None:
    revision = build(VIEWS["join"])
    old = build_fingerprints(revision, compile_view(spark, revision, former=FORMER))
    new = build_fingerprints(revision, compile_view(spark, revision))
    assert [each.operator for each in old["answer"].operators] == ["state in Python"] * 2
    check_former(tmp_path, revision.spec, old, new, "instead of a state")


def test_another_definition_does_not_fit_the_state_and_another_column_of_a_source_does(
    spark: SparkSession,
) -> None:
    def read(view: dict[str, Any], **changes: Any) -> Any:
        revision = build(view, **changes)
        return build_fingerprints(revision, compile_view(spark, revision))

    present = read(VIEWS["join"])
    verdict = judge(compare_pipelines(present, read(VIEWS["inner join"])))
    assert verdict.kind is VerdictKind.REPROCESS
    assert "tableJoin.unmatched" in verdict.reasons[0]
    assert judge(compare_pipelines(present, read(VIEWS["join"]))).reasons == ()
