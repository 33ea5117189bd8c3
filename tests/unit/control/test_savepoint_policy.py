"""Savepoints by a schedule, and which of them are kept, one situation a test."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cronsim import CronSim

from kappa_crds.kinds import find_kind
from kappa_crds.savepoint_policy import CRON_PATTERN, SavepointPolicy
from kappa_operator.engine.actions import CreateObject, DeleteObject, EmitEvent, RecordStatus
from kappa_operator.engine.plan import Failure, Plan
from kappa_operator.errors import Refused
from kappa_operator.pipeline.decide import decide_pipeline
from kappa_operator.pipeline.savepoints import concerns_savepoint, find_expired
from kappa_operator.savepoint.objects import SavepointResource
from unit.control.pipelines import NOW, observed, pipeline, pod, revision_of, running, started

NIGHTLY = {"schedule": "0 3 * * *"}
TODAY_AT_THREE = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)


def savepoint(name: str, age: float = 0, cause: str = "Schedule", **status: Any) -> SavepointResource:
    taken = (NOW - timedelta(hours=age)).isoformat()
    return find_kind("Savepoint").parse(
        {
            "metadata": {"name": name, "namespace": "flights", "uid": f"uid-of-{name}"},
            "spec": {"pipelineRef": "delays", "cause": cause},
            "status": {"taken": taken, "state": "Ready", **status},
        }
    )


def decide(
    policy: dict[str, Any],
    *savepoints: SavepointResource,
    seen: datetime | None = NOW,
    now: datetime = NOW,
    **more: Any,
) -> Plan:
    status: dict[str, Any] = {"lastScheduled": seen.isoformat()} if seen else {}
    resource = started({"savepoints": policy, **more.pop("spec", {})}, **status)
    return decide_pipeline(observed(resource, pod(), progress=running(), savepoints=savepoints, **more), now)


def test_the_copies_of_the_policy_are_declared_in_each_savepoint() -> None:
    exports = [{"storeRef": "far", "deletionPolicy": "Delete", "request": ""}]
    yesterday = NOW - timedelta(days=1)
    (manifest,) = made(decide({**NIGHTLY, "exports": exports}, seen=yesterday))
    assert manifest["spec"]["exports"] == exports
    (manifest,) = made(decide(NIGHTLY, seen=yesterday))
    assert manifest["spec"]["exports"] == []


def made(plan: Plan) -> list[dict[str, Any]]:
    return [action.manifest for action in plan.actions if isinstance(action, CreateObject)]


def seen_until(plan: Plan) -> list[datetime | None]:
    recorded = (action.status for action in plan.actions if isinstance(action, RecordStatus))
    return [status.last_scheduled for status in recorded]  # type: ignore[attr-defined]


def deleted(plan: Plan) -> list[str]:
    return [action.ref.name for action in plan.actions if isinstance(action, DeleteObject)]


def test_a_policy_changes_nothing_about_the_revision() -> None:
    assert revision_of(pipeline({"savepoints": NIGHTLY})) == revision_of(pipeline())


def test_a_schedule_begins_when_it_is_first_seen() -> None:
    plan = decide(NIGHTLY, seen=None)
    assert (made(plan), seen_until(plan)) == ([], [NOW])


def test_a_moment_that_passed_makes_one_and_then_is_recorded() -> None:
    plan = decide(NIGHTLY, seen=TODAY_AT_THREE - timedelta(hours=1))
    assert [type(action) for action in plan.actions] == [CreateObject, RecordStatus]
    (manifest,) = made(plan)
    assert manifest["metadata"]["name"] == "delays-202601010300"
    assert manifest["spec"] == {
        "pipelineRef": "delays",
        "exports": [],
        "cause": "Schedule",
        "deletionPolicy": "Delete",
    }
    assert manifest["metadata"]["labels"].items() >= {
        "kappa-platform.io/pipeline": "delays", "kappa-platform.io/cause": "Schedule",
    }.items()  # fmt: skip
    assert seen_until(plan) == [NOW]


def test_moments_that_were_missed_make_one() -> None:
    plan = decide({"schedule": "*/5 * * * *"}, seen=NOW - timedelta(days=3))
    assert (len(made(plan)), seen_until(plan)) == (1, [NOW])


def test_until_the_next_moment_it_waits() -> None:
    plan = decide({"schedule": "1 12 * * *"})
    assert plan.actions == ()
    assert plan.requeue_after == 3.0, "as a running pipeline with lag does"
    plan = decide({"schedule": "0 12 * * *"}, now=NOW - timedelta(seconds=2))
    assert plan.requeue_after == 2.0


def test_none_is_taken_of_a_pipeline_at_rest() -> None:
    resource = started(
        {"savepoints": NIGHTLY, "suspend": True}, driver=None, lastScheduled="2026-01-01T00:00:00Z"
    )
    plan = decide_pipeline(observed(resource), NOW)
    assert (made(plan), seen_until(plan)) == ([], [NOW])


def test_none_is_taken_before_the_previous_one() -> None:
    waiting = savepoint("before", taken=None, state="Taking")
    plan = decide(NIGHTLY, waiting, seen=TODAY_AT_THREE - timedelta(hours=1))
    assert (made(plan), seen_until(plan)) == ([], [NOW])
    given_up = savepoint("before", taken=None, state="Failed")
    assert made(decide(NIGHTLY, given_up, seen=TODAY_AT_THREE - timedelta(hours=1)))


def test_an_unreachable_time_is_reported_periodically() -> None:
    never = {"schedule": "0 0 31 2 *"}
    event, _ = decide(never, seen=NOW - timedelta(hours=2)).actions
    assert isinstance(event, EmitEvent)
    assert "spec.savepoints.schedule '0 0 31 2 *' is not a valid cron expression" in event.message
    plan = decide(never, seen=NOW - timedelta(minutes=2))
    assert (plan.actions, plan.requeue_after) == ((), 3.0)


def test_a_schedule_that_is_due_delays_the_pipeline_by_one_write() -> None:
    resource = started({"savepoints": NIGHTLY, "suspend": True}, lastScheduled="2026-01-01T00:00:00Z")
    plan = decide_pipeline(observed(resource, pod(), progress=running()), NOW)
    assert (seen_until(plan), plan.requeue) == ([NOW], True)
    recorded = started({"savepoints": NIGHTLY, "suspend": True}, lastScheduled=NOW.isoformat())
    (stop,) = decide_pipeline(observed(recorded, pod(), progress=running()), NOW).actions
    assert isinstance(stop, RecordStatus)
    assert stop.status.active.stopping_since == NOW  # type: ignore[attr-defined]


def test_a_savepoint_that_cannot_be_made_is_no_trouble_of_the_pipeline() -> None:
    create = decide(NIGHTLY, seen=TODAY_AT_THREE - timedelta(hours=1)).actions[0]
    assert concerns_savepoint(Failure(create, Refused("exceeded quota")))
    plan = decide(NIGHTLY, seen=TODAY_AT_THREE - timedelta(hours=1), refused=True)
    assert plan.actions == ()
    assert plan.status is not None
    assert plan.status.state == "Running"


def expired(policy: dict[str, Any], *savepoints: SavepointResource, restored: str = "") -> list[str]:
    found = find_expired(savepoints, frozenset({restored}), SavepointPolicy.model_validate(policy), NOW)
    return [each.metadata.name for each, _ in found]


def test_more_than_the_count_are_let_go_the_oldest_ones() -> None:
    four = [savepoint(f"s{age}", age) for age in (3, 1, 4, 2)]
    assert expired({"maxCount": 2}, *four) == ["s3", "s4"]
    assert deleted(decide({"maxCount": 2}, *four)) == ["s3", "s4"]


def test_what_is_too_old_is_let_go_but_never_the_newest() -> None:
    assert expired({"maxAge": "90m"}, *(savepoint(f"s{age}", age) for age in (3, 1, 2))) == ["s2", "s3"]
    assert expired({"maxAge": "30m"}, savepoint("only", 99)) == []
    assert expired({"maxAge": "30m"}, savepoint("s9", 9), savepoint("s8", 8)) == ["s9"]


def test_the_newest_can_be_a_manual_savepoint() -> None:
    assert expired({"maxAge": "30m"}, savepoint("by hand", 1, "Manual"), savepoint("s2", 2)) == ["s2"]


def test_manual_savepoints_are_not_deleted_by_the_policy() -> None:
    by_hand = [savepoint(f"m{age}", age, "Manual") for age in (5, 6, 7)]
    assert expired({"maxCount": 1, "maxAge": "1h"}, savepoint("s1", 1), *by_hand) == []


def test_a_savepoint_to_be_restored_is_kept() -> None:
    three = [savepoint(f"s{age}", age) for age in (1, 2, 3)]
    assert expired({"maxCount": 1}, *three, restored="s3") == ["s2"]


def test_one_that_is_not_taken_is_neither_counted_nor_let_go() -> None:
    waiting = savepoint("s0", taken=None, state="Taking")
    assert expired({"maxCount": 1}, waiting, savepoint("s1", 1)) == []


@pytest.mark.parametrize(
    "text",
    ["* * * * *", "*/15 0-6 1,15 */2 1-5", "0 3 * * 0", "59 23 31 12 7", "0 0,12 1-7/2 * *"],
)
def test_what_the_api_server_lets_in_is_understood(text: str) -> None:
    assert re.search(CRON_PATTERN, text)
    assert next(CronSim(text, NOW)) > NOW


@pytest.mark.parametrize(
    "text", ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "@daily", "0 3 * * MON"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    assert not re.search(CRON_PATTERN, text)
