"""Observation only reads: it works on seams that refuse everything else."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import pytest

from fakes.context import Operator
from kappa_crds.progress import DriverState
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.pipeline.objects import EXECUTOR_ROLE, PIPELINE_LABEL
from kappa_operator.pipeline.observe import observe_shortage
from unit.control.pipelines import pipeline, running
from unit.control.test_version_skew import SCENES

_KAFKA = ("ensure", "has", "uses", "allow_retry", "describe_cluster", "describe_topic", "read_quota")
READS: dict[str, Collection[str]] = {
    "cluster": ("get", "list_objects", "list_pages"), "kafka": _KAFKA, "drivers": ("fetch_progress",),
    "webhooks": ("get",), "histories": ("recall",),
}  # fmt: skip


class ReadOnly:
    """Passes reads on, and fails for everything else."""

    def __init__(self, seam: object, reads: Collection[str]) -> None:
        self._seam = seam
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        assert name in self._reads, f"observation calls {name} of {type(self._seam).__name__}"
        return getattr(self._seam, name)


def restrict(context: OperatorContext) -> OperatorContext:
    seams = {name: ReadOnly(getattr(context, name), reads) for name, reads in READS.items()}
    return replace(context, **cast(Any, seams))


async def test_a_shortage_of_executors_is_that_of_the_active_driver_only() -> None:
    operator = Operator(KIND_TABLE)
    resource = pipeline(generation=1, driver="delays-driver-1")
    for driver, reason in (("delays-driver-2", "the shadow's"), ("delays-driver-1", "the active one's")):
        waiting = {"type": "PodScheduled", "reason": "Unschedulable", "message": reason}
        metadata = {
            "name": f"exec-of-{driver}",
            "namespace": "flights",
            "labels": {PIPELINE_LABEL: "delays", **EXECUTOR_ROLE},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": driver, "uid": "u"}],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        operator.cluster.put(body)
        operator.cluster.patch(ObjectRef.of(body), status={"conditions": [waiting]})
    waits = running(state=DriverState.WAITING_FOR_EXECUTORS)
    found = await observe_shortage(operator.context, resource, waits)
    assert found == "exec-of-delays-driver-1: no node takes the executor: the active one's"


@pytest.mark.parametrize("hours", [0, 1])
@pytest.mark.parametrize("kind", SCENES)
async def test_observation_writes_nothing(kind: str, hours: int) -> None:
    operator, key = await SCENES[kind]()
    operator.clock.advance(3600 * hours)
    assert await KIND_TABLE[kind].observe(restrict(operator.context), key, ()) is not None
