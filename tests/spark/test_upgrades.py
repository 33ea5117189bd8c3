"""What a change of a pipeline means for its state: every kind of change, really made, on a checkpoint that Spark made."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.upgrade import UpgradeVerdict, VerdictKind
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.driver.prepare import create_idle_folder
from kappa_pipelines.driver.session import create_session
from kappa_pipelines.errors import DriverError
from kappa_pipelines.revision.settings import NATIVE_JOINS, NATIVE_TABLES, ONE_SIDED
from kappa_pipelines.sinks.targets import Targets
from kappa_pipelines.upgrade.dry_run import DryRun
from kappa_pipelines.upgrade.fingerprints import read_fingerprints
from spark.bases import BASES, COUNT, JOIN, TAPS, Bases

Spec = dict[str, Any]
RESUME, REPARTITION, REPROCESS = VerdictKind.RESUME, VerdictKind.REPARTITION, VerdictKind.REPROCESS


def sql(text: str) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        spec["views"][0]["sql"] = text

    return change


def setting(*path: str | int, to: Any) -> Callable[[Spec], None]:
    """Set one field of the spec, or take it out where the value is None."""

    def change(spec: Any) -> None:
        for step in path[:-1]:
            spec = spec[step] if isinstance(step, int) else spec.setdefault(step, {})
        if to is None:
            del spec[path[-1]]
        else:
            spec[path[-1]] = to

    return change


def both(*changes: Callable[[Spec], None]) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        for each in changes:
            each(spec)

    return change


def add_sink(spec: Spec) -> None:
    spec["sinks"].append({"name": "more", "from": "result", "kafka": {"topic": "more", "key": ["k"]}})


def rename_sink(spec: Spec) -> None:
    spec["sinks"][0]["name"] = "other"


def add_source(spec: Spec) -> None:
    spec["sources"].append(copy.deepcopy(TAPS))
    spec["views"][0]["sql"] = "SELECT k, v FROM clicks WHERE v > 1 UNION ALL SELECT k, v FROM taps"


def reverse_sources(spec: Spec) -> None:
    spec["sources"].reverse()


@dataclass(frozen=True)
class Change:
    """A kind of change, what is expected of it, and words of the reason; none where there is nothing to say."""

    base: str
    what: str
    make: Callable[[Spec], None]
    verdict: VerdictKind
    said: str = ""


PATTERN = ("views", 0, "pattern")
SLIDING = ("views", 0, "sliding")
CHANGES = (
    Change("sliding", "nothing", lambda spec: None, RESUME),
    Change("sliding", "another aggregate", setting(*SLIDING, "aggregates", to={"n": "max(w)"}), RESUME),
    Change("sliding", "another length", setting(*SLIDING, "length", to="1m"), REPROCESS, "length of the sliding window"),
    Change("as of", "another age", setting("views", 0, "asOf", "maxAge", to="2m"), REPROCESS, "maximum age of the as-of join"),
    Change("plain", "nothing", lambda spec: None, RESUME),
    Change("plain", "another filter", sql("SELECT k, v FROM clicks WHERE v > 2"), RESUME),
    Change("plain", "another column", sql("SELECT k, v, w FROM clicks WHERE v > 1"), RESUME),
    Change("plain", "a first aggregation", sql(COUNT), REPROCESS, "a new aggregation without state"),
    Change("plain", "a source more", add_source, RESUME, "source 'taps' is new"),
    Change("plain", "another topic to read", setting("sources", 0, "topic", to="taps"), REPROCESS, "reads taps"),
    Change("plain", "another topic to write", setting("sinks", 0, "kafka", "topic", to="more"), RESUME, "earlier rows are in out"),
    Change("plain", "a sink more", add_sink, RESUME, "sink 'more' is new"),
    Change("plain", "another name of a sink", rename_sink, RESUME, "sink 'out' was removed"),
    Change("plain", "a column of the source more", setting("sources", 0, "format", "json", "schema", to="k BIGINT, v INT, w INT, x STRING, ts TIMESTAMP"), RESUME),
    Change("plain", "smaller batches", setting("trigger", "maxRecords", to=10), RESUME),
    Change("plain", "another start of a source", setting("sources", 0, "startingOffsets", to="latest"), RESUME),
    Change("count", "nothing", lambda spec: None, RESUME),
    Change("count", "another name of a result", sql(COUNT.replace("AS n", "AS number")), RESUME, "view 'result' has changed"),
    Change("count", "something computed of results", sql(COUNT.replace("sum(v) AS total", "sum(v) * 2 AS total")), RESUME),
    Change("count", "another filter before", sql(COUNT.replace("FROM clicks", "FROM clicks WHERE v > 3")), RESUME, "was computed by the previous one"),
    Change("count", "an aggregate more", sql(COUNT.replace("sum(v) AS total", "sum(v) AS total, max(v) AS most")), REPROCESS, "new aggregates without state: max("),
    Change("count", "an aggregate less", sql(COUNT.replace(", sum(v) AS total", "")), REPROCESS, "removed aggregates that are in the state: sum("),
    Change("count", "another aggregate of the same type", sql(COUNT.replace("sum(v)", "sum(w)")), REPROCESS, "new aggregates"),
    Change("count", "aggregates in another order", sql(COUNT.replace("count(*) AS n, sum(v) AS total", "sum(v) AS total, count(*) AS n")), REPROCESS, "another order"),
    Change("count", "a key more", sql(COUNT.replace("GROUP BY k,", "GROUP BY k, w,")), REPROCESS, "the keys of the aggregation are"),
    Change("count", "another key of the same type", sql(COUNT.replace("SELECT k,", "SELECT v AS k,").replace("GROUP BY k,", "GROUP BY v,")), REPROCESS, "the keys of the aggregation are"),
    Change("count", "a longer window", sql(COUNT.replace("1 minute", "2 minutes")), REPROCESS, "the keys of the aggregation are"),
    Change("count", "a key that is computed otherwise", sql(COUNT.replace("FROM clicks", "FROM (SELECT k + 1 AS k, v, ts FROM clicks)")), REPROCESS, "the keys of the aggregation are"),
    Change("count", "a longer watermark", setting("sources", 0, "eventTime", "watermark", to="2m"), RESUME),
    Change("count", "another mode", setting("sinks", 0, "mode", to="update"), RESUME, "its mode is update instead of append"),
    Change("count", "all groups at each batch", both(setting("sinks", 0, "mode", to="complete"), setting("views", 0, "allowUnboundedState", to=True)), REPROCESS, "its mode is complete"),
    Change("count", "a filter after", sql(COUNT + " HAVING count(*) > 1"), RESUME),
    Change("count", "no aggregation", sql("SELECT k, v FROM clicks"), REPROCESS, "the aggregation was removed"),
    Change("count", "distinct rows before", sql(COUNT.replace("FROM clicks", "FROM (SELECT DISTINCT * FROM clicks)")), REPROCESS, "a set of distinct rows instead of an aggregation"),
    Change("count", "state without changelogs", setting("state", "changelog", to=False), RESUME),
    Change("count", "snapshots more seldom", setting("state", "snapshotEvery", to=50), RESUME),
    Change("count", "tables packed otherwise", setting("state", "compression", to="zstd"), RESUME),
    Change("count", "less memory for state, and more batches kept", setting("state", to={"maxMemory": "64Mi", "retainBatches": 500, "maintenanceInterval": "10s"}), RESUME),
    Change("join", "nothing", lambda spec: None, RESUME),
    Change("join", "sources in another order", reverse_sources, RESUME),
    Change("join", "another range", sql(JOIN.replace("20 SECONDS", "60 SECONDS")), REPROCESS, "the condition of the join within an interval is"),
    Change("join", "rows without a partner", sql(JOIN.replace("JOIN taps", "LEFT JOIN taps")), REPROCESS, "a join instead of a join within an interval"),
    Change("join", "another column of one side", sql(JOIN.replace("t.v AS b", "t.w AS b")), REPROCESS, "the columns of the right side of the join within an interval are"),
    Change("join", "both sides swapped", sql(JOIN.replace("clicks c JOIN taps t", "taps t JOIN clicks c")), REPROCESS, "the left side of the join within an interval is taps instead of clicks"),
    Change("join", "state without changelogs", setting("state", "changelog", to=False), RESUME),
    Change("join", "a column of one side that is not read", setting("sources", 0, "format", "json", "schema", to="k BIGINT, v INT, w INT, x STRING, ts TIMESTAMP"), RESUME),
    Change("pattern", "nothing", lambda spec: None, RESUME),
    Change("pattern", "another step", setting(*PATTERN, "steps", to="A B B"), REPROCESS, "its definition has changed (pattern.steps)"),
    Change("pattern", "another condition", setting(*PATTERN, "define", "B", to="v < PREV(v)"), REPROCESS, "pattern.define.B"),
    Change("distinct", "nothing", lambda spec: None, RESUME),
    Change("distinct", "a column more", sql("SELECT DISTINCT k, v, ts FROM clicks"), REPROCESS, "the keys of the set of distinct rows are"),
)  # fmt: skip


SHORT = {
    "count": (
        "nothing",
        "an aggregate more",
        "a longer window",
        "state without changelogs",
        "a key that is computed otherwise",
        "another filter before",
    ),
    "join": ("another column of one side", "both sides swapped"),
}
"""One of each way in which a verdict is found; all are made by `make chaos`."""


def is_short(change: Change) -> bool:
    return change.what in SHORT.get(change.base, ())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(each, id=f"{each.base}: {each.what}", marks=() if is_short(each) else pytest.mark.chaos)
        for each in CHANGES
    ],
)
def test_each_kind_of_change_has_its_verdict(run: Any, bases: Bases, change: Change) -> None:
    old = bases.get(change.base, run)
    spec = copy.deepcopy(BASES[change.base])
    change.make(spec)
    verdict = hold(bases.build(spec, old.checkpoint))
    assert verdict.kind is change.verdict, verdict
    assert change.said in " · ".join(verdict.reasons)
    if change.what == "nothing":
        assert verdict.reasons == ()


def test_a_driver_that_starts_without_a_dry_run_refuses_state_of_another_plan_and_writes_nothing(
    run: Any, bases: Bases
) -> None:
    old = bases.get("count", run)
    plans = {path: path.read_bytes() for path in Path(old.checkpoint).glob("_plans/*")}
    spec = copy.deepcopy(BASES["count"])
    sql(COUNT.replace("sum(v)", "sum(w)"))(spec)
    before = list_files(old)
    error = run(bases.build(spec, old.checkpoint), 2).failure()
    assert (error.reason, error.retryable) == (Reason.STATE_INCOMPATIBLE, False)
    assert "view 'result': new aggregates without state: sum(clicks.w)" in error.message
    assert {path for path in set(list_files(old)) - set(before) if not path.startswith("_kappa/")} == set()
    assert {path: path.read_bytes() for path in Path(old.checkpoint).glob("_plans/*")} == plans
    again = run(old, 3)
    again.wait_until_running()
    assert again.stop().graceful


def test_a_change_that_fails_on_the_records_that_come_next_is_refused_before_anything_stops(
    run: Any, bases: Bases
) -> None:
    old = bases.get("plain", run)
    bases.write(20)
    spec = copy.deepcopy(BASES["plain"])
    sql("SELECT k, v FROM clicks WHERE 10 / (v - 3) > 0")(spec)
    with pytest.raises(DriverError, match=r"sink 'out'.*(?i:division by zero)") as refused:
        hold(bases.build(spec, old.checkpoint))
    assert not refused.value.retryable
    assert hold(bases.build(BASES["plain"], old.checkpoint)).reasons == ()


@pytest.mark.chaos  # two drivers for each; `test_one_sided.py` and its like in `tests/laptop` compare the plans
@pytest.mark.parametrize(
    ("base", "operators"),
    [
        ("join", ["join"]),
        ("sliding", ["join", "aggregation"]),
        ("as of", ["join", "aggregation"]),
        ("lookup", ["state in Python"]),
    ],
)
def test_the_state_of_an_earlier_release_continues_in_its_form(
    run: Any, bases: Bases, tmp_path: Path, base: str, operators: list[str]
) -> None:
    new = bases.build(BASES[base], tmp_path / "state")
    former = {ONE_SIDED: "false", NATIVE_TABLES: "false", NATIVE_JOINS: "false"}
    old = new.model_copy(update={"spark_conf": {**new.spark_conf, **former}})
    fill(run, bases, old, 1)
    verdict = hold(new)
    assert verdict.kind is RESUME
    assert verdict.reasons == ()
    fill(run, bases, new, 2)
    (shape,) = read_fingerprints(LocalFolder(new.checkpoint)).values()
    assert [each.operator for each in shape.operators] == operators

    kept = bases.get(base, run)
    verdict = hold(kept.model_copy(update={"spark_conf": old.spark_conf}))
    assert verdict.kind is REPROCESS
    assert f"a {operators[0]} instead of" in " · ".join(verdict.reasons)


def fill(run: Any, bases: Bases, revision: Revision, generation: int) -> None:
    """Run a driver until it has read more records."""
    bases.write(60)
    driver = run(revision, generation)
    driver.wait_for("no lag", lambda p: p.queries and p.lag == 0 and p.queries[0].batch_id >= generation)
    assert driver.stop().graceful


def hold(revision: Revision) -> UpgradeVerdict:
    before = list_files(revision)
    verdict = DryRun(create_session(revision), revision, 7, Targets(revision), create_idle_folder()).run()
    assert list_files(revision) == before, "a dry start leaves nothing behind"
    return verdict


def list_files(revision: Revision) -> list[str]:
    root = Path(revision.checkpoint.removeprefix("file://"))
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.name != "dry-run-7")
