"""What is said of a Pipeline while it is applied."""

from dataclasses import replace
from typing import Any

import pytest

from kappa_crds.kinds import find_kind
from kappa_crds.pipeline_status import PipelineState
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_operator.engine.plan import Verdict
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.verdict.decide import LONGEST_WARNING, explain_applying
from unit.control.pipelines import DEPENDENCIES, build, observed, pipeline, started

COUNT = "SELECT k, count(*) AS n FROM events GROUP BY k"
VIEWS = {
    "views": [{"name": "counted", "sql": COUNT}],
    "sinks": [{"name": "log", "from": "counted", "kafka": {"topic": "out"}}],
}
MORE = {**VIEWS, "views": [{"name": "counted", "sql": COUNT.replace("AS n", "AS n, max(k) AS most")}]}
OLD: Revision = build(pipeline(VIEWS, shufflePartitions=1))


def apply(spec: dict[str, Any], **status: Any) -> PipelineObserved:
    """Return a pipeline that runs OLD, to which a spec is applied."""
    fields = {"revision": OLD.name, "content": OLD.content, "state": PipelineState.RUNNING, **status}
    return observed(started(spec, **fields))


def explain(spec: dict[str, Any], **status: Any) -> str:
    return "\n".join(explain_applying(apply(spec, **status), OLD))


def test_a_new_pipeline_with_all_dependencies_has_no_warning() -> None:
    assert explain_applying(observed(pipeline(VIEWS)), None) == ()


def test_fields_of_the_operator_are_no_change() -> None:
    assert explain({**VIEWS, "suspend": True, "upgrade": {"mode": "Auto"}}) == ""


def test_an_added_aggregate_cannot_continue_and_the_mode_decides() -> None:
    assert explain(MORE).split("\n") == [
        "delays: changed: view 'counted' is changed (sql)",
        "delays: the state probably cannot be continued: view 'counted': new aggregates, for which there is no state: max(k)",
        "delays: spec.upgrade.mode is LastState: the change would be refused, and the active driver would continue",
        "delays: to start with empty state and read the sources from the start instead, set spec.upgrade.mode to Reprocess",
        "delays: the change is warm: a driver with the new revision makes a dry run on a copy of the last batch while the active driver"
        " continues; only the dry run knows whether the state and the remaining log fit",
    ]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("Reprocess", "start with empty state at the first record of its sources"),
        (
            "Stateless",
            "the change is cold: the active driver ends its batch, and the new one starts with empty state",
        ),
        ("Savepoint", "set spec.upgrade.mode to Reprocess"),
    ],
)
def test_other_modes_lead_elsewhere(mode: str, said: str) -> None:
    assert said in explain({**MORE, "upgrade": {"mode": mode}})


def test_a_change_that_the_state_fits_is_warm_or_cold() -> None:
    small = {**VIEWS, "trigger": {"maxRecords": 5}}
    assert explain(small).split("\n")[0] == "delays: changed: spec.trigger is changed (maxRecords)"
    assert "the change is warm" in explain(small)
    assert "probably" not in explain(small)
    assert "the change is cold, because of spec.upgrade.handover" in explain(
        {**small, "upgrade": {"handover": "Cold"}}
    )
    assert "no driver runs, so there is no dry run" in explain(small, state=PipelineState.FAILED)
    assert "takes effect when spec.suspend is false" in explain({**small, "suspend": True})


def test_state_is_repartitioned_if_its_partitions_change() -> None:
    assert "is 3 and the state has 1 partitions: all state is repartitioned" in explain(
        {**VIEWS, "statePartitions": 3}
    )


def test_a_restart_keeps_the_state_and_needs_no_verdict() -> None:
    assert explain({**VIEWS, "restartNonce": "2"}).split("\n") == [
        "delays: changed: spec.restartNonce requests a new driver",
        "delays: a new driver continues from the last batch",
    ]


def test_a_change_that_was_taken_back_is_not_tried_again() -> None:
    wanted = build(pipeline(MORE, shufflePartitions=1))
    refused = {"phase": "Refused", "revision": wanted.name, "intent": wanted.intent, "message": "max is new"}
    assert "was rolled back and is not tried again: max is new" in explain(MORE, upgrade=refused)


def test_missing_references_are_reported_unless_they_are_created_automatically() -> None:
    missing = Verdict(
        "Pending", Reason.SAVEPOINT_NOT_READY, "Savepoint s of spec.restore is not there; create it"
    )
    waits = replace(apply(VIEWS), dependencies=missing)
    assert explain_applying(waits, OLD) == (
        "delays: the active driver continues, and the change waits until this is fixed: Savepoint s of spec.restore is not"
        " there; create it",
    )
    fresh = replace(observed(pipeline(VIEWS)), dependencies=missing)
    assert explain_applying(fresh, None)[0].startswith("delays: no driver starts until")
    soon = Verdict("Pending", Reason.TOPIC_NOT_READY, "Topic in is not ready: it was not looked at yet")
    assert explain_applying(replace(fresh, dependencies=soon), None) == ()


def test_a_savepoint_to_go_back_to_is_named() -> None:
    body = {
        "metadata": {"name": "before", "namespace": "flights"},
        "spec": {"pipelineRef": "delays"},
        "status": {"taken": "2026-01-01T00:00:00Z", "location": "file:///s"},
    }
    found = replace(DEPENDENCIES, savepoint=find_kind("Savepoint").parse(body))
    said = explain_applying(replace(apply(VIEWS), dependencies=found), OLD)
    assert "is restored from savepoint before" in said[0]


def test_an_unknown_name_is_reported_for_a_new_pipeline_too() -> None:
    spec = {**VIEWS, "views": [{"name": "counted", "sql": COUNT.replace("events", "event")}]}
    assert explain_applying(observed(pipeline(spec)), None) == (
        "delays: no driver can run this: view 'counted': there is no source or view 'event'; did you mean 'events'?",
    )


def test_a_lost_revision_is_reported() -> None:
    assert "is no longer readable" in explain_applying(apply(MORE), None)[0]


def test_warnings_are_as_short_and_as_few_as_the_api_server_passes_on() -> None:
    views = [{"name": f"v{n}", "sql": f"SELECT *\nFROM {'x' * 120}{n}"} for n in range(40)]
    said = explain_applying(observed(pipeline({"views": views})), None)
    assert len(said) == 12
    assert all(len(line) <= LONGEST_WARNING and line.isprintable() for line in said)
    assert said[-1] == "delays: and 29 more; see `kappa plan`"
