"""The operator dies after every single write to Kafka Connect's objects: what it does next always ends where it would have ended."""

from collections.abc import Callable
from typing import Any

import pytest

import effort
from fakes.context import Operator
from unit.control.connect_life import MAIN, REF, WORKERS, declare, settle, start

Step = Callable[[Operator], Any]
STEPS: dict[str, tuple[Step, ...]] = {
    "creating": (lambda operator: declare(operator, connect={"workers": {}}),),
    "changing": (
        lambda operator: declare(operator, connect={"workers": {}}),
        lambda operator: declare(
            operator, connect={"workers": {"replicas": 3, "resources": {"memory": "2Gi"}}}
        ),
    ),
    "removing": (
        lambda operator: declare(operator, connect={"workers": {}}),
        lambda operator: operator.cluster.patch(REF, spec={"connect": None}),
    ),
    "deleting": (
        lambda operator: declare(operator, connect={"workers": {}}),
        lambda operator: operator.cluster.remove(REF),
    ),
}


async def live(steps: tuple[Step, ...], die_after: int | None) -> tuple[dict[str, Any], int]:
    """Go through the steps, dying once after so many writes of the last one; return the end and its writes."""
    operator = start(connect=None)
    for step in steps[:-1]:
        step(operator)
        operator = await settle(operator)
    before = operator.cluster.fuse.writes
    operator.cluster.fuse.die_after(die_after)
    steps[-1](operator)
    operator = await settle(operator)
    return describe_end(operator), operator.cluster.fuse.writes - before


def describe_end(operator: Operator) -> dict[str, Any]:
    """Return what there is in the end, without what is random."""
    workers = operator.cluster.read(WORKERS)
    status = (operator.get(MAIN) or {}).get("status", {})
    return {
        "topics": {
            name: (topic.topic_id, topic.partitions)
            for name, topic in operator.brokers["kafka:9092"].topics.items()
        },
        "replicas": workers and workers["spec"]["replicas"],
        "memory": workers and workers["spec"]["template"]["spec"]["containers"][0]["resources"],
        "status": status,
        "objects": sorted(
            (kind, body["metadata"]["name"])
            for version, kind in (("v1", "Service"), ("v1", "Secret"), ("policy/v1", "PodDisruptionBudget"))
            for body in operator.cluster.find(version, kind)
        ),
    }


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
async def test_the_end_is_the_same_after_a_death_at_any_write(steps: tuple[Step, ...]) -> None:
    wanted, writes = await live(steps, None)
    for number in effort.deaths(writes):
        found, _ = await live(steps, number)
        assert found == wanted, f"after write {number} of {writes}"
