"""Savepoints on the whole cluster: taken and gone back to while records come in; every result stays exact, see `e2e.ledger`."""

import json

import pytest

from e2e.counting import Counting
from kappa_crds.pipeline import PipelineState, PipelineStatus
from kappa_crds.savepoint import SavepointStatus

pytestmark = pytest.mark.timeout(900)

SAVEPOINT = """
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {{name: {name}}}
spec: {{pipelineRef: counts}}
"""


def take(counting: Counting, name: str) -> SavepointStatus:
    counting.place.apply(SAVEPOINT.format(name=name))
    counting.place.await_ready(f"savepoint/{name}", 60)
    status = counting.place.get("Savepoint", name).status
    assert isinstance(status, SavepointStatus)
    return status


def read_revision(counting: Counting) -> dict[str, str]:
    name = counting.place.pipeline().revision or ""
    body = json.loads(counting.place.kubectl("get", "configmap", name, "-o", "json"))
    found: dict[str, str] = json.loads(body["data"]["revision.json"])
    return found


def test_a_savepoint_is_taken_while_records_come_in_and_can_be_gone_back_to(counting: Counting) -> None:
    counting.check()
    before, checkpoint = counting.place.pipeline(), read_revision(counting)["checkpoint"]
    first = take(counting, "first")
    counting.place.await_pipeline(
        lambda status: (status.batch or 0) > first.queries[0].batch, "goes on after the savepoint", 60
    )
    second = take(counting, "second")
    assert first.queries[0].batch < second.queries[0].batch
    assert (second.copied_bytes or 0) < (second.size_bytes or 0), "what the first one has is not copied again"
    counting.check()
    assert counting.place.pipeline().generation == before.generation, "the pipeline went on"
    header, line, _ = counting.place.kubectl("get", "ksp").splitlines()
    assert header.split() == ["NAME", "PIPELINE", "READY", "STATE", "SIZE", "TAKEN", "AGE"]
    assert line.split()[:4] == ["first", "counts", "True", "Ready"]

    counting.place.patch("kp/counts", {"restore": {"savepoint": "first"}})

    def is_back(status: PipelineStatus) -> bool:
        return (status.state, status.generation) == (PipelineState.RUNNING, before.generation + 1)

    after = counting.place.await_pipeline(is_back, "runs from the savepoint")
    counting.check()
    assert (after.checkpoint, after.restarts.total) == (before.checkpoint + 1, before.restarts.total)
    assert read_revision(counting)["checkpoint"] != checkpoint
    later = counting.place.await_pipeline(
        lambda status: (status.batch or 0) > first.queries[0].batch, "goes on after the savepoint's batch", 60
    )
    assert later.generation == before.generation + 1
    third = take(counting, "third")
    assert third.queries[0].batch > first.queries[0].batch
    counting.check()
