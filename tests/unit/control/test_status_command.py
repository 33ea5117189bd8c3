"""`kappa status`: what is well and what is not, why, since when, and what to do; how it ends for scripts."""

from datetime import timedelta
from typing import Any

import pytest

from fakes.cluster import FakeCluster
from fakes.context import START, build_resource
from kappa_crds.reasons import Reason
from kappa_operator.cli.errors import Exit
from kappa_operator.cli.health import Health, assess
from kappa_operator.cli.status_read import Operator, Overview, read_overview
from kappa_operator.cli.status_view import (
    build_status_data,
    build_status_view,
    choose_exit,
)
from kappa_operator.errors import ApiUnavailable, Refused
from unit.control.screens import render
from unit.control.sources import SPEC as SOURCE

AT = "2025-12-31T23:50:00Z"
ACTING = Operator("kappa-operator-1", START)


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": AT}


def topic(name: str, *conditions: dict[str, str], **metadata: Any) -> dict[str, Any]:
    body = build_resource("Topic", name)
    body["metadata"] |= {"generation": 1, **metadata}
    return body | {"status": {"observedGeneration": 1, "conditions": list(conditions)}}


WELL = condition("Ready", "True", "Synced", "as the spec says")
BAD = condition(
    "Ready", "False", "PartitionsCannotShrink", "the topic has 6 partitions, spec.partitions is 3"
)


def test_a_ready_resource_is_healthy() -> None:
    health = assess(topic("one", WELL))
    assert (health.ready, health.healthy, health.reason, health.next) == ("True", True, "Synced", "")


def test_unready_resources_have_a_reason_and_a_fix() -> None:
    health = assess(topic("one", BAD))
    assert (health.ready, health.healthy, health.message) == ("False", False, BAD["message"])
    assert health.next == Reason.PARTITIONS_CANNOT_SHRINK.description


@pytest.mark.parametrize(
    ("body", "reason", "said"),
    [
        (topic("one"), "NotSeen", "Check that it runs and watches this namespace"),
        (topic("one", WELL, generation=2), "Outdated", "not reconciled the last change"),
        (topic("one", WELL, deletionTimestamp=AT), "Deleting", "names what has to end first"),
        (
            build_resource("Topic", "one", partitions="many"),
            "Unreadable",
            "version of the command cannot read it",
        ),
    ],
)
def test_unobserved_and_unreadable_resources_are_unhealthy(
    body: dict[str, Any], reason: str, said: str
) -> None:
    health = assess(body)
    assert (health.healthy, health.reason) == (False, reason)
    assert said in health.next


def test_suspended_resources_are_healthy() -> None:
    source = {"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING"}}}
    sinks = [{"name": "o", "from": "events", "kafka": {"topic": "out"}}]
    body = build_resource("Pipeline", "delays", sources=[source], sinks=sinks, suspend=True)
    body |= {"status": {"conditions": [condition("Ready", "False", "Suspended", "it has stopped")]}}
    assert assess(body).healthy


def test_a_ready_policy_is_unhealthy_while_lag_is() -> None:
    body = build_resource("LagPolicy", "gold", selector={"groups": ["*"]}, warning={"lag": "60s"})
    conditions = [
        condition("Ready", "True", "LagEvaluated"),
        condition("LagHealthy", "False", "ConsumerStopped", "billing orders[3] stands still"),
    ]
    health = assess(body | {"status": {"conditions": conditions}})
    assert (health.ready, health.healthy, health.reason) == ("True", False, "ConsumerStopped")
    conditions[1] = condition("LagHealthy", "Unknown", "LagUnknown", "no look yet")
    assert not assess(body | {"status": {"conditions": conditions}}).healthy


@pytest.mark.parametrize(
    ("ready", "more", "healthy"),
    [
        (("True", "ConnectorRunning"), {}, True),
        (("True", "ConnectorRunning"), {"Proven": ("False", "RowsDiffer")}, False),
        (("True", "ConnectorRunning"), {"Proven": ("Unknown", "ProofFailed")}, False),
        (("True", "ConnectorRunning"), {"SlotSafe": ("False", "SlotFilling")}, False),
        (("True", "ConnectorRunning"), {"SlotSafe": ("Unknown", "SlotUnlimited")}, True),
        (("False", "ConnectorPaused"), {"SlotSafe": ("True", "SlotSafe")}, True),
        (("False", "ConnectorStopped"), {"SlotSafe": ("False", "SlotFull")}, False),
        (("False", "ChangesLost"), {}, False),
    ],
    ids=[
        "runs",
        "rows differ",
        "not proven",
        "its slot fills",
        "nothing limits it",
        "paused",
        "stopped, and its slot fills",
        "lost",
    ],
)
def test_a_source_is_unhealthy_while_rows_differ_or_its_slot_fills(
    ready: tuple[str, str], more: dict[str, tuple[str, str]], healthy: bool
) -> None:
    body = build_resource("CDCSource", "shop", **SOURCE)
    body["metadata"]["generation"] = 1
    conditions = [condition(kind, *found) for kind, found in {"Ready": ready, **more}.items()]
    health = assess(body | {"status": {"observedGeneration": 1, "conditions": conditions}})
    assert health.healthy is healthy
    assert health.reason == (conditions[-1]["reason"] if not healthy else ready[1])


def test_a_savepoint_in_verification_is_healthy_and_a_damaged_one_is_not() -> None:
    body = build_resource("Savepoint", "one", pipelineRef="delays")
    ready = condition("Ready", "True", "SavepointReady")
    under_way = condition("Verified", "Unknown", "SavepointVerifying")
    damaged = condition("Verified", "False", "SavepointDamaged", "a file is missing")
    assert assess(body | {"status": {"conditions": [ready, under_way]}}).healthy
    assert not assess(body | {"status": {"conditions": [ready, damaged]}}).healthy


def overview(*resources: Health, operator: Operator = ACTING, **unreadable: str) -> Overview:
    return Overview(resources, operator, unreadable)


GOOD, ILL = assess(topic("good", WELL)), assess(topic("ill", BAD))


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        (overview(GOOD), Exit.OK),
        (overview(), Exit.OK),
        (overview(GOOD, ILL), Exit.UNHEALTHY),
        (overview(GOOD, Topic="forbidden"), Exit.UNKNOWN),
        (overview(ILL, Topic="forbidden"), Exit.UNHEALTHY),
        (overview(GOOD, operator=Operator("one", START - timedelta(minutes=5))), Exit.UNHEALTHY),
        (overview(GOOD, operator=Operator(None, START)), Exit.UNHEALTHY),
        (overview(GOOD, operator=Operator(why="no right to get leases")), Exit.OK),
    ],
)
def test_exit_codes_show_health_and_unknown_is_not_healthy(seen: Overview, end: Exit) -> None:
    assert choose_exit(seen, START) is end
    assert build_status_data(seen, START)["healthy"] is (end is Exit.OK)


SCREEN = """\
   KIND   NAME  READY  REASON                  SINCE  WHAT TO DO
✗  Topic  ill   False  PartitionsCannotShrink  10m    the topic has 6 partitions, spec.partitions is 3
                                                      → Kafka cannot remove partitions; raise `spec.partitions` to what the topic has, or make a new
                                                      topic.
✓  Topic  good  True   Synced                  10m    -

2 resources, 1 unhealthy
operator: kappa-operator-1 is the leader"""


def test_unhealthy_resources_come_first_with_a_fix() -> None:
    seen = overview(ILL, GOOD)
    assert render(build_status_view(seen, START, mixed=False), width=150) == SCREEN


def test_many_healthy_resources_are_counted_and_all_unhealthy_ones_are_shown() -> None:
    many = [assess(topic(f"t{number:02}", WELL)) for number in range(30)]
    ill = [assess(topic(f"ill{number:02}", BAD)) for number in range(30)]
    text = render(build_status_view(overview(*ill, *many), START, mixed=True))
    assert "… and 22 more healthy Topics" in text
    assert text.count("PartitionsCannotShrink") == 30
    every = render(build_status_view(overview(*many), START, mixed=False, every=True))
    assert every.count("Synced") == 30


def test_an_unavailable_or_invisible_operator_is_reported() -> None:
    away = overview(GOOD, operator=Operator("one", START - timedelta(minutes=5)))
    said = render(build_status_view(away, START, mixed=False))
    assert "operator: no active leader since 5m; the status above may be stale" in said
    hidden = overview(GOOD, operator=Operator(why="no right to get leases"), Topic="no right to list topics")
    lines = render(build_status_view(hidden, START, mixed=False)).splitlines()
    assert "operator: unknown: no right to get leases" in lines
    assert "Topics are unknown: no right to list topics" in lines


class Locked(FakeCluster):
    """A cluster that refuses to list one kind."""

    async def list_objects(
        self, api_version: str, kind: str, *args: Any, **more: Any
    ) -> list[dict[str, Any]]:
        if kind == "Topic":
            raise Refused("topics is forbidden")
        return await super().list_objects(api_version, kind, *args, **more)


async def test_kinds_without_list_permission_do_not_hide_others() -> None:
    cluster = Locked()
    cluster.put(build_resource("StateStore", "main", pvc={"size": "1Gi"}))
    seen = await read_overview(cluster, "shop", "kappa-system")
    assert [each.kind for each in seen.resources] == ["StateStore"]
    assert seen.unreadable == {"Topic": "topics is forbidden"}
    assert seen.operator.why is not None
    assert "no lease of an operator in namespace" in seen.operator.why


async def test_an_api_server_that_does_not_answer_is_an_error_and_not_an_empty_screen() -> None:
    class Down(FakeCluster):
        async def list_objects(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
            raise ApiUnavailable("nobody is there")

    with pytest.raises(ApiUnavailable):
        await read_overview(Down(), "shop", "kappa-system")
