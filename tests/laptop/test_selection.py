"""A run for some rows: which conditions are refused, how far Spark moves the filter down, and that it changes no other row."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kappa_crds import API_VERSION
from kappa_pipelines.analysis.catalyst import children_of, kind_of
from kappa_pipelines.compare.selection import Selection
from kappa_pipelines.errors import SpecError
from kappa_pipelines.laptop.compiled import describe_pipeline, describe_sinks
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import Compiled, compile_revision
from kappa_pipelines.plan.selection import apply_selection, build_selection
from laptop.equivalence import build_table, build_versions, optimize

START = datetime(2026, 1, 1, tzinfo=UTC)
CLICKS = build_table("clicks", "k STRING, v BIGINT, ts TIMESTAMP", "ts", "10m")
VIEWS = build_table("seen", "k STRING, page STRING, at TIMESTAMP", "at", "15m")
ITEMS = build_versions("items", "k STRING, name STRING, version BIGINT, gone BOOLEAN")
OWNERS = build_versions("owners", "name STRING, owner STRING, version BIGINT, gone BOOLEAN")
JOINED = {
    "left": {"from": "items", "order": "version", "deleted": "gone"},
    "key": ["k"],
    "right": {"from": "owners", "order": "version", "deleted": "gone"},
    "foreignKey": {"name": "name"},
    "columns": {"owner": "owner"},
}
RISES = {
    "from": "clicks",
    "key": ["k"],
    "steps": "A B",
    "define": {"B": "B.v > LAST(A.v)"},
    "measures": {"low": "A.v", "high": "B.v"},
    "within": "1h",
}
HOURLY = {"from": "clicks", "key": ["k"], "tumbling": "1h", "aggregates": {"n": "count(*)"}}
WINDOW_KEY = {"key": ["k", "window_start"]}
JOIN = "SELECT c.k, c.v, c.ts, s.page FROM clicks c {} JOIN seen s ON s.k = c.k AND s.at BETWEEN c.ts - INTERVAL 5 MINUTES AND c.ts + INTERVAL 5 MINUTES"
LOOKUP = {
    "from": "clicks",
    "key": {"k": "k"},
    "table": {"from": "items", "order": "version"},
    "columns": {"name": "name"},
}
AS_OF = {"from": "clicks", "table": "seen", "key": {"k": "k"}, "columns": {"page": "page"}}
A, NONE = "k = 'a'", "k = 'nobody'"
LATE = "window_start >= TIMESTAMP '2026-01-01T01:00:00Z'"
SQL = "SELECT k, window.start AS begins, count(*) AS n FROM clicks GROUP BY k, window(ts, '15 minutes')"
SESSIONS = {"window": {"from": "clicks", "key": ["k"], "session": "7m", "aggregates": {"n": "count(*)"}}}
DISTINCT = "SELECT DISTINCT k, ts FROM clicks"
CORRECTED = {"window": {**HOURLY, "lateRecords": {"correct": {"after": ["1h"]}}}}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "rows": ({"sql": "SELECT k, v * 2 AS v, ts FROM clicks WHERE v > 3"}, {}, (A, "v > 20 AND k <> 'b'", NONE)),
    "windows": ({"sql": SQL}, {}, (A, "n > 1", "begins >= '2026-01-01T01:00:00Z'")),
    "updated": ({"window": HOURLY}, {"mode": "update", **WINDOW_KEY}, (A, LATE)),
    "all_keys": ({"window": {**HOURLY, "key": []}}, {}, (LATE, "n > 30")),
    "hopping": ({"window": {**HOURLY, "tumbling": None, "hopping": {"length": "30m", "slide": "10m"}}}, {}, (A, LATE)),
    "sessions": (SESSIONS, {}, (A, LATE, "window_end < '2026-01-01T01:30:00Z'")),
    "corrected": (CORRECTED, {}, (A, "retraction", LATE)),
    "distinct": ({"sql": DISTINCT}, {}, (A, "ts >= '2026-01-01T01:00:00Z'")),
    "union": ({"sql": "SELECT k, v FROM clicks UNION ALL SELECT k, length(page) AS v FROM seen"}, {}, (A, "v = 5")),
    "limited": ({"sql": "SELECT k, v FROM clicks LIMIT 20"}, {}, (A,)),
    "totals": ({"sql": "SELECT k, sum(v) AS v FROM clicks GROUP BY k", "allowUnboundedState": True}, {"mode": "update", "key": ["k"]}, (A,)),
    "inner": ({"sql": JOIN.format("")}, {}, (A, "page = 'p1'", "v > 10 AND page <> 'p2'")),
    "outer": ({"sql": JOIN.format("LEFT")}, {}, (A, "page IS NULL", "page = 'p1'", "coalesce(page, k) = 'a'")),
    "sliding": ({"sliding": {"from": "clicks", "key": ["k"], "length": "12m", "aggregates": {"n": "count(*)"}}}, {}, (A, "n > 3")),
    "as_of": ({"asOf": AS_OF, "allowUnboundedState": True}, {}, (A, "page IS NULL")),
    "looked_up": ({"lookup": LOOKUP}, {"key": ["k", "v"]}, (A, "name = 'first'")),
    "joined": ({"tableJoin": JOINED}, {"key": ["k"], "tombstones": "deleted"}, (A,)),
    "rises": ({"pattern": RISES}, {}, (A, "high > 10")),
}  # fmt: skip
"""A view of each kind, its sink, and conditions over its rows."""


def build(names: tuple[str, ...]) -> Any:
    """The revision of a pipeline with these cases."""
    views, sinks, text = [], [], json.dumps([CASES[name][0] for name in names])
    for name in names:
        view, sink, _ = CASES[name]
        body = {
            kind: {k: v for k, v in each.items() if v is not None} if isinstance(each, dict) else each
            for kind, each in view.items()
        }
        views.append({"name": name, **body})
        kafka = {"topic": name, **{field: each for field, each in sink.items() if field != "mode"}}
        sinks.append({"name": name, "from": name, "mode": sink.get("mode", "append"), "kafka": kafka})
    others = {"seen": VIEWS, "items": ITEMS, "owners": OWNERS}
    sources = [CLICKS, *(other for source, other in others.items() if source in text)]
    spec = {"sources": sources, "views": views, "sinks": sinks}
    metadata = {"name": "some", "namespace": "test"}
    return build_local_revision(
        {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec}
    )


def compile_case(name: str, only: str | None = None) -> Compiled:
    revision = build((name,))
    return compile_revision(start_spark(revision), revision, only=only)


def select_case(name: str, only: str) -> tuple[DataFrame, Selection]:
    """The rows of a case as they are filtered, and the condition."""
    (sink,) = compile_case(name, only).sinks
    assert sink.selection is not None
    return apply_selection(sink.rows, sink.selection), sink.selection


def list_kinds(rows: DataFrame) -> list[str]:
    """The operators of the optimized plan from the sink on, along the first child; with the condition of each deterministic filter."""
    plan, found = optimize(rows), []
    while True:
        is_barrier = kind_of(plan) == "Filter" and not plan.condition().deterministic()
        found.append("barrier" if is_barrier else kind_of(plan))
        if not children_of(plan):
            return found
        plan = children_of(plan)[0]


@pytest.mark.parametrize(
    ("name", "only", "message"),
    [
        ("updated", "n > 1", "sink 'updated': reprocessing.only: column 'n' is not part of the key; rows of this output replace each other"),
        ("updated", "n > 1", "use columns of the key: k, window_start"),
        ("windows", "carrier = 'a'", "sink 'windows': reprocessing.only: [UNRESOLVED_COLUMN"),
        ("windows", "k =", "sink 'windows': reprocessing.only: [PARSE_SYNTAX_ERROR]"),
        ("windows", "k", "is not a boolean"),
        ("windows", "rand() > 0.5", "the result of rand"),
        ("windows", "k = 'a' AND begins > now()", "the result of Now may differ in both versions; write a value"),
        ("windows", "count(*) > 1", "INVALID_WHERE_CONDITION"),
        ("windows", "k IN (SELECT k FROM clicks)", "a subquery is refused; write the values"),
        ("windows", "EXISTS (SELECT 1)", "a subquery is refused"),
        ("windows", "java_method('java.lang.System', 'exit', 1) = 0", "the function java_method is refused"),
        ("windows", "1 = 1", "it names no column; name one of k, begins, n"),
        ("windows", "mystery(k)", "views have no function mystery"),
    ],
)  # fmt: skip
def test_a_condition_that_does_not_select_the_same_rows_of_both_versions_is_refused(
    name: str, only: str, message: str
) -> None:
    with pytest.raises(SpecError) as caught:
        compile_case(name, only)
    assert message in str(caught.value)


def test_a_column_is_used_only_where_records_have_its_exact_value() -> None:
    (sink,) = compile_case("windows").sinks
    rows = sink.rows.selectExpr("k", "n", "array(k) AS list", "CAST(begins AS TIMESTAMP_NTZ) AS local")

    def refuse(only: str, **target: Any) -> str:
        changed = sink.sink.replace(kafka=sink.sink.target.replace(**target))
        with pytest.raises(SpecError) as caught:
            build_selection(changed, rows, only)
        return str(caught.value)

    assert "column 'list' is ARRAY<STRING>; use columns of type STRING, BOOLEAN" in refuse("size(list) > 1")
    assert "column 'local' is TIMESTAMP_NTZ" in refuse("local > '2026-01-01'")
    written = refuse("n > 1", value=("k",), key=("K",))
    assert (
        "column 'n' is not written, so the records of the old version cannot be selected by it; use k"
        in written
    )


@pytest.mark.parametrize(
    ("name", "only", "operator"),
    [("windows", A, "Aggregate"), ("updated", LATE, "Aggregate"), ("distinct", A, "Aggregate"), ("sessions", A, "Aggregate"), ("inner", A, "Join"), ("outer", A, "Join")],
)  # fmt: skip
def test_the_filter_is_below_what_keeps_state_and_above_the_watermark(
    name: str, only: str, operator: str
) -> None:
    rows, _ = select_case(name, only)
    kinds = list_kinds(rows)
    state = kinds.index(operator)
    filters = [at for at, kind in enumerate(kinds) if kind == "Filter"]
    barrier = kinds.index("barrier", state)
    assert kinds[barrier + 1] == "EventTimeWatermark"
    assert any(state < at < barrier for at in filters), kinds
    assert not any(at < state for at in filters), kinds


@pytest.mark.parametrize(
    ("name", "only"), [("windows", "n > 1"), ("sessions", LATE), ("sliding", A), ("limited", A)]
)
def test_the_filter_stays_above_what_needs_all_rows(name: str, only: str) -> None:
    rows, _ = select_case(name, only)
    kinds = list_kinds(rows)
    state = next(kind for kind in kinds if kind in ("Aggregate", "TransformWithState", "GlobalLimit"))
    assert kinds.index("Filter") < kinds.index(state), kinds


def test_the_filter_stays_above_a_watermark_that_a_python_view_has_set() -> None:
    spark = start_spark(build(("rows",)))
    rows = (
        spark.readStream.format("rate")
        .name("rate")
        .load()
        .selectExpr("CAST(value AS STRING) AS k", "timestamp AS ts")
    )
    counted = rows.withWatermark("ts", "1 minute").groupBy("k", "ts").count()
    kinds = list_kinds(apply_selection(counted, Selection(A, "answer", ())))
    assert kinds[0] == "Filter" and "barrier" in kinds[:3], kinds
    assert kinds.index("barrier") < kinds.index("Aggregate") < kinds.index("EventTimeWatermark")


def test_validate_refuses_a_condition_that_does_not_fit() -> None:
    revision = build(("updated",))
    metadata = {"name": "some", "namespace": "test"}
    policy = {"only": "n > 1", "gates": {"cut": "Never"}}
    spec = {**revision.spec.to_manifest(), "upgrade": {"mode": "Shadow", "reprocessing": policy}}
    with pytest.raises(SpecError, match="column 'n' is not part of the key"):
        describe_pipeline(
            {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec},
            describe_sinks,
        )


class SelectedRun(LocalRun):
    """A run of which the sinks write the selected rows alone."""

    def __init__(self, spark: SparkSession, revision: Any, folder: Path, only: str) -> None:
        self._only = only
        super().__init__(spark, revision, folder)

    def _compile(self) -> Compiled:
        return compile_revision(self._spark, self._revision, self._ends, self._subjects, only=self._only)


def make_batches() -> list[dict[str, list[Record]]]:
    """Three batches of three hours, and one with records that are an hour behind the watermark."""

    def click(number: int, minutes: float, key: str) -> Record:
        at = START + timedelta(minutes=minutes)
        return Record(json.dumps({"k": key, "v": number % 17, "ts": at.isoformat()}).encode())

    def see(number: int, minutes: float) -> Record:
        at = START + timedelta(minutes=minutes)
        page = f"p{number % 3}"
        return Record(json.dumps({"k": "abc"[number % 3], "page": page, "at": at.isoformat()}).encode())

    def name(number: int, text: str, *, gone: bool = False) -> Record:
        return Record(
            json.dumps({"k": "abc"[number % 3], "name": text, "version": number, "gone": gone}).encode()
        )

    # Half of them are after a pause of 40 minutes, so that each key has two sessions.
    def own(number: int, text: str) -> Record:
        body = {"name": text, "owner": f"o{number}", "version": number, "gone": False}
        return Record(json.dumps(body).encode())

    clicks = [click(number, number * 1.5 + number // 40 * 40, "abcb"[number % 4]) for number in range(80)]
    seen = [see(number, number * 4) for number in range(30)]
    late = [click(number, number, "ab"[number % 2]) for number in range(6)]
    return [
        {
            "clicks": clicks[:30],
            "seen": seen[:12],
            "items": [name(0, "first"), name(1, "second")],
            "owners": [own(0, "first"), own(1, "third")],
        },
        {"clicks": clicks[30:60], "seen": seen[12:20], "items": [name(3, "third"), name(7, "first")]},
        {
            "clicks": clicks[60:],
            "seen": seen[20:],
            "items": [name(6, "third", gone=True)],
            "owners": [own(2, "first")],
        },
        {"clicks": late},
    ]


def write_all(run: LocalRun) -> dict[str, list[tuple[str | None, str | None]]]:
    """The records that each sink of a run writes."""
    for batch in make_batches():
        run.feed(batch)
    run.end()
    run.process()
    names = [sink.name for sink in run.spec.sinks]
    return {name: sorted((o.key or "", o.value or "") for o in run.outputs(name)) for name in names}


CONDITIONS = sorted({only for _, _, conditions in CASES.values() for only in conditions})


PARTS = (tuple(CASES)[::2], tuple(CASES)[1::2])
"""A pipeline has sixteen sinks at most."""


@pytest.fixture(scope="module")
def every(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The records of all cases without a condition."""
    found: dict[str, Any] = {}
    for names in PARTS:
        revision = build(names)
        run = LocalRun(start_spark(revision), revision, tmp_path_factory.mktemp("every"))
        found |= write_all(run)
        assert run.late > 0, "no record was late"
    return found


@pytest.mark.chaos  # each compiles and runs several queries: some seconds
@pytest.mark.parametrize("only", CONDITIONS)
def test_the_rows_are_those_of_all_rows_for_which_the_condition_is_true(
    only: str, every: Any, spark: SparkSession, tmp_path: Path
) -> None:
    for number, part in enumerate(PARTS):
        names = tuple(name for name in part if only in CASES[name][2])
        if names:
            check_part(names, only, every, tmp_path / str(number))


def check_part(names: tuple[str, ...], only: str, every: Any, folder: Path) -> None:
    revision = build(names)
    spark = start_spark(revision)
    run = SelectedRun(spark, revision, folder, only)
    found = write_all(run)
    for compiled in run.compiled.sinks:
        name = compiled.sink.name
        assert compiled.selection is not None
        columns = "key STRING, value STRING, topic STRING, partition INT, offset BIGINT"
        rows = [(*each, name, 0, at) for at, each in enumerate(every[name])]
        records = spark.createDataFrame(rows, columns)
        expected = [(row.key, row.value) for row in compiled.selection.select(records).collect()]
        assert found[name] == sorted(expected), name
        if only == A:  # the condition over records is that over rows, here by Python
            assert expected == [
                (key, value)
                for key, value in every[name]
                if (json.loads(value)["k"] if value else key) == "a"
            ]
        assert len(expected) < len(rows), f"{name}: the condition selects all"
        assert expected or only == NONE, f"{name}: the condition selects none"
