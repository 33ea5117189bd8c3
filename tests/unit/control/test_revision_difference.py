"""What `kappa plan` says of a change before any driver has looked at it."""

from typing import Any

import pytest

from fakes.context import Operator
from kappa_crds.revision import REVISION_KEY, Revision
from kappa_crds.upgrade import Upgrade, UpgradeMode, UpgradeVerdict, VerdictKind
from kappa_operator.cli.change import describe_change
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.verdict.difference import compare_revisions, explain_mode
from unit.control.pipelines import SPEC, build, observed, pipeline, started

OLD = build(pipeline(shufflePartitions=1))
VIEW = {"name": "seen", "sql": "SELECT k FROM events"}
DOES_NOT_FIT = UpgradeVerdict(kind=VerdictKind.REPROCESS, reasons=("the keys are others",))


def changes(spec: dict[str, Any], before: dict[str, Any] | None = None) -> list[str]:
    old = build(pipeline(before or {}, shufflePartitions=1))
    return list(compare_revisions(old, build(pipeline(spec, shufflePartitions=1))))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, []),
        ({"suspend": True, "upgrade": {"mode": "Auto"}}, []),
        ({"views": [VIEW]}, ["view 'seen' is new"]),
        ({"sinks": [{**SPEC["sinks"][0], "name": "more"}]}, ["sink 'log' is gone", "sink 'more' is new"]),
        (
            {"sources": [{**SPEC["sources"][0], "startingOffsets": "latest"}]},
            ["source 'events' is changed (startingOffsets)"],
        ),
        ({"trigger": {"maxRecords": 10}}, ["spec.trigger is changed (maxRecords)"]),
        ({"restartNonce": "2"}, ["spec.restartNonce requests a new driver"]),
        (
            {"sparkConf": {"spark.sql.ansi.enabled": "false"}},
            ["setting spark.sql.ansi.enabled is false instead of not set"],
        ),
        ({"image": "mine:2"}, ["the image is mine:2 instead of kappa/pipelines:dev"]),
    ],
)
def test_each_change_is_one_line(spec: dict[str, Any], said: list[str]) -> None:
    assert changes(spec) == said


def test_a_view_that_is_changed_is_named_with_what_of_it() -> None:
    assert changes({"views": [{**VIEW, "sql": "SELECT 1"}]}, {"views": [VIEW]}) == [
        "view 'seen' is changed (sql)"
    ]


def test_what_a_verdict_leads_to_depends_on_the_mode() -> None:
    assert "refused" in explain_mode(Upgrade(), UpgradeMode.LAST_STATE, VerdictKind.REPROCESS)
    assert "refused" in explain_mode(Upgrade(), UpgradeMode.SAVEPOINT, VerdictKind.REPROCESS)
    assert "empty state at the first record" in explain_mode(
        Upgrade(), UpgradeMode.AUTO, VerdictKind.REPROCESS
    )
    assert "at the startingOffsets of its sources" in explain_mode(
        Upgrade(), UpgradeMode.STATELESS, VerdictKind.RESUME
    )
    assert "once a savepoint is taken" in explain_mode(Upgrade(), UpgradeMode.SAVEPOINT, VerdictKind.RESUME)


@pytest.mark.parametrize(
    ("policy", "scope"),
    [
        ({}, "the whole log again"),
        ({"from": "2026-01-01T00:00:00Z"}, "the log from 2026-01-01T00:00:00Z on again"),
        ({"only": "k = 'a'"}, "the whole log again, only rows where k = 'a'"),
    ],
)
def test_what_a_reprocessing_would_compute_is_named(policy: dict[str, Any], scope: str) -> None:
    reprocessing = {**policy, "gates": {"cut": "Never"}}
    upgrade = Upgrade.model_validate({"mode": "Shadow", "reprocessing": reprocessing})
    found = explain_mode(upgrade, UpgradeMode.SHADOW, VerdictKind.REPROCESS)
    assert found == f"spec.upgrade.mode is Shadow: beside it, a Reprocessing would compute {scope}"


async def describe(spec: dict[str, Any], verdict: UpgradeVerdict | RuntimeError | None = None) -> list[str]:
    """Return what is said of a pipeline that runs OLD; None has no runtime on this machine."""

    def judge(old: Revision, new: Revision) -> UpgradeVerdict:
        assert (old, new.name) == (OLD, build(pipeline(spec, shufflePartitions=1)).name)
        if isinstance(verdict, UpgradeVerdict):
            return verdict
        raise verdict or AssertionError("nobody asked")

    operator = Operator(KIND_TABLE)
    config = {"metadata": {"name": OLD.name, "namespace": "flights"}, "data": {REVISION_KEY: OLD.to_json()}}
    operator.cluster.put({"apiVersion": "v1", "kind": "ConfigMap", **config})
    resource = started(spec, revision=OLD.name, content=OLD.content)
    return await describe_change(operator.context, observed(resource), None if verdict is None else judge)


async def test_an_unchanged_pipeline_has_no_change() -> None:
    assert await describe({}) == []


async def test_without_the_runtime_the_plan_shows_the_changes_and_the_coming_dry_run() -> None:
    lines = await describe({"views": [VIEW]})
    assert lines[0] == "  ~ view 'seen' is new"
    assert "install the package kappa-pipelines" in lines[1]
    assert "a dry run on a copy of the last batch checks it" in lines[2]


async def test_without_the_runtime_the_texts_are_compared() -> None:
    counting = [{"name": "events_by_key", "sql": "SELECT k, count(*) AS n FROM events GROUP BY k"}]
    sinks = [{**SPEC["sinks"][0], "from": "events_by_key"}]
    lines = await describe({"views": counting, "sinks": sinks})
    assert (
        "  ? the state probably cannot be continued: view 'events_by_key' is new to the sink and has no state yet"
        in lines
    )


async def test_with_the_runtime_the_verdict_is_shown_with_reasons_and_effects() -> None:
    lines = await describe({"views": [VIEW], "upgrade": {"mode": "Reprocess"}}, DOES_NOT_FIT)
    assert lines[1:4] == [
        "  ? verdict of this machine: Reprocess",
        "    · the keys are others",
        "  ? spec.upgrade.mode is Reprocess: it would start with empty state at the first record of its sources, and write its"
        " output again",
    ]


async def test_what_cannot_be_compiled_here_is_left_to_the_dry_start() -> None:
    lines = await describe({"views": [VIEW]}, RuntimeError("the registry does not answer"))
    assert lines[1] == "  ? no verdict on this machine: the registry does not answer"


async def test_a_restart_is_not_judged() -> None:
    lines = await describe({"restartNonce": "2"}, RuntimeError("nobody asked"))
    assert lines[-1] == "  ? a new driver continues from the last batch"


async def test_a_lost_revision_is_reported() -> None:
    resource = started({"views": [VIEW]}, revision="delays-lost")
    lines = await describe_change(Operator(KIND_TABLE).context, observed(resource), None)
    assert lines == ["  ~ revision delays-lost cannot be read, so the change is unknown"]
