"""The revision that was built last serves while all that it was built from is equal, and no longer."""

import pytest

from kappa_crds import API_VERSION
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.observe import forget_pipeline, observe_pipeline
from kappa_operator.pipeline.revision import Dependencies, build_revision
from unit.control.lives import CLUSTER, PIPELINE, REF, STORE, TOPICS, Life, Step, write
from unit.control.test_modules import FROM_RULES
from unit.control.test_modules import write as write_modules


async def start() -> Life:
    life = Life()
    await life.prepare()
    write(FROM_RULES)(life)
    await write_modules(life, rules="LIMIT = 1")
    return life


async def observe(life: Life) -> PipelineObserved:
    observed = await observe_pipeline(life.operator.context, PIPELINE, ())
    assert observed is not None
    return observed


def move_brokers(life: Life) -> None:
    ref = ObjectRef(API_VERSION, *CLUSTER)
    life.operator.cluster.patch(ref, spec={"bootstrapServers": ["kafka:9092", "other:9092"]})


def rename_topic(life: Life) -> None:
    life.operator.cluster.patch(ObjectRef(API_VERSION, *TOPICS[0]), status={"topicName": "renamed"})


def move_state(life: Life) -> None:
    life.operator.cluster.patch(STORE, spec={"pvc": {"claimName": "other"}})


def start_from_empty_state(life: Life) -> None:
    life.operator.cluster.patch(REF, status={"checkpoint": 3})


def change_module(life: Life) -> None:
    metadata = {"name": "rules", "namespace": "shop"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"rules.py": "LIMIT = 2"}}
    life.operator.cluster.put(body)


async def test_a_revision_is_built_once_while_nothing_changes() -> None:
    life = await start()
    first = await observe(life)
    life.operator.clock.advance(3600.0)
    assert (await observe(life)).requested is first.requested is not None


@pytest.mark.parametrize(
    "change",
    [
        write({**FROM_RULES, "trigger": {"maxRecords": 10}}),
        write({**FROM_RULES, "restartNonce": "again"}),
        move_brokers,
        rename_topic,
        move_state,
        start_from_empty_state,
        change_module,
    ],
)
async def test_whatever_changes_a_revision_is_seen_although_one_is_known(change: Step) -> None:
    life = await start()
    before = (await observe(life)).wanted_name
    change(life)
    life.operator.clock.advance(61.0)
    observed = await observe(life)
    assert isinstance(observed.dependencies, Dependencies)
    assert observed.requested == build_revision(observed.resource, observed.dependencies, observed.images)
    assert observed.wanted_name != before


async def test_nothing_of_a_pipeline_that_is_gone_is_remembered() -> None:
    life = await start()
    forget_pipeline(life.operator.context, PIPELINE)
    assert life.operator.context.revisions == {}
