"""An invalid resource, which an older CRD let in, stops no other one: it counts as missing, and its name is in the reason."""

import pytest

from fakes.context import Operator, build_resource
from kappa_operator.engine.keys import Key
from unit.control.lives import CLUSTER, PIPELINE, SAVEPOINT, SPEC, TOPICS, Life, write
from unit.control.test_version_skew import SCENES, ref_of

STORE = Key("StateStore", "shop", "default")
RESTORING = {**SPEC, "restore": {"savepoint": "one"}}


async def run() -> Life:
    life = Life()
    await life.prepare()
    write(SPEC)(life)
    await life.settle()
    return life


def spoil(operator: Operator, key: Key) -> None:
    """Replace the spec by one that the models refuse."""
    body = operator.get(key)
    assert body is not None
    operator.cluster.put({**body, "spec": {"fromAnOlderVersion": 1}})


@pytest.mark.parametrize("scene", SCENES)
async def test_every_other_resource_is_reconciled_beside_an_invalid_one(scene: str) -> None:
    operator, _ = await SCENES[scene]()
    keys = sorted(operator.cache.find_all())
    for spoiled in keys:
        body = operator.get(spoiled)
        assert body is not None
        spoil(operator, spoiled)
        for key in keys:
            operator.clock.advance(3600)
            await operator.reconcile(key)
        assert operator.get_condition(spoiled)[1] == "InvalidSpec"
        operator.cluster.put({**body, "metadata": operator.get(spoiled)["metadata"]})  # type: ignore[index]


@pytest.mark.parametrize(
    ("neighbour", "reason"),
    [(CLUSTER, "ClusterNotReady"), (STORE, "StateStoreNotReady"), (TOPICS[0], "TopicNotReady")],
)
async def test_a_new_pipeline_waits_for_an_invalid_neighbour_and_names_it(
    neighbour: Key, reason: str
) -> None:
    life = Life()
    await life.prepare()
    await life.settle()
    spoil(life.operator, neighbour)
    life.operator.cluster.put(build_resource("Pipeline", "delays", **SPEC))
    await life.operator.reconcile(PIPELINE)
    _, found, message = life.operator.get_condition(PIPELINE)
    assert found == reason
    assert f"{neighbour.kind} {neighbour.name}" in message


async def test_a_running_pipeline_keeps_its_driver_beside_an_invalid_neighbour() -> None:
    life = await run()
    driver = life.operator.get(PIPELINE)["status"]["runs"][0]["driver"]  # type: ignore[index]
    for key in (CLUSTER, STORE, *TOPICS):
        spoil(life.operator, key)
    life.operator.clock.advance(3600)
    await life.operator.reconcile(PIPELINE)
    assert life.operator.get(PIPELINE)["status"]["runs"][0]["driver"] == driver  # type: ignore[index]
    assert life.operator.get_condition(PIPELINE)[0] == "True"


async def test_a_pipeline_that_restores_an_invalid_savepoint_waits_for_it() -> None:
    life = Life()
    await life.prepare()
    life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))
    await life.settle()
    spoil(life.operator, SAVEPOINT)
    life.operator.cluster.put(build_resource("Pipeline", "delays", **RESTORING))
    await life.operator.reconcile(PIPELINE)
    assert life.operator.get_condition(PIPELINE)[1] == "SavepointNotReady"


async def test_a_savepoint_of_an_invalid_pipeline_waits_for_it() -> None:
    life = await run()
    spoil(life.operator, PIPELINE)
    life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays"))
    await life.operator.reconcile(SAVEPOINT)
    _, reason, message = life.operator.get_condition(SAVEPOINT)
    assert reason == "PipelineNotFound"
    assert "Pipeline delays is invalid" in message


async def test_files_of_a_savepoint_stay_while_an_invalid_pipeline_may_need_them() -> None:
    life = await run()
    cluster = life.operator.cluster
    cluster.put(build_resource("Savepoint", "one", pipelineRef="delays", deletionPolicy="Delete"))
    await life.settle()
    spoil(life.operator, PIPELINE)
    cluster.remove(ref_of(SAVEPOINT))
    for _ in range(3):
        life.operator.clock.advance(60)
        await life.operator.reconcile(SAVEPOINT)
    _, reason, message = life.operator.get_condition(SAVEPOINT)
    assert reason == "SavepointInUse"
    assert "Pipeline delays is invalid" in message
    assert not [ref for ref in cluster._objects if ref.kind == "Pod" and "savepoint" in ref.name]
