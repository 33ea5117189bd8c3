"""A revision that release 0.1 wrote can be read: a change after an upgrade of the operator is compared with it, and rolled back to it."""

import json
from typing import Any

import pytest

from kappa_crds.revision import REVISION_KEY, Revision
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.observe import read_revision
from unit.control.lives import SPEC, Life, write
from unit.control.pipelines import build, pipeline

REF = ObjectRef("v1", "ConfigMap", "shop", "delays-old")
IMAGE = "spark.kubernetes.container.image"


async def read(text: str) -> Revision | None:
    life = Life()
    await life.prepare()
    write(SPEC)(life)
    metadata = {"name": REF.name, "namespace": REF.namespace}
    life.operator.cluster.put(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {REVISION_KEY: text}}
    )
    return await read_revision(life.operator.context, REF.namespace, REF.name)


def write_as_release_0_1(revision: Revision) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(revision.to_json())
    stored["spec"]["sinks"] = [{**sink.pop("kafka"), **sink} for sink in stored["spec"]["sinks"]]
    stored["image"] = stored["sparkConf"][IMAGE] = "kappa/pipelines:0.1"
    return stored


async def test_it_is_read_with_the_present_names_and_runs_with_the_present_runtime() -> None:
    wanted = build(pipeline())
    found = await read(json.dumps(write_as_release_0_1(wanted)))
    assert found is not None
    assert found.spec == wanted.spec
    assert (found.image, found.spark_conf[IMAGE]) == ("kappa/pipelines:dev", "kappa/pipelines:dev")


async def test_an_image_that_the_spec_names_stays() -> None:
    wanted = build(pipeline({"image": "shop/delays:7"}))
    stored = write_as_release_0_1(wanted) | {"image": "shop/delays:7"}
    found = await read(json.dumps(stored))
    assert found is not None
    assert found.image == "shop/delays:7"


async def test_one_of_this_release_is_read_as_it_is() -> None:
    wanted = build(pipeline())
    assert await read(wanted.to_json()) == wanted


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"spec": 1}', "null"])
async def test_what_is_no_revision_is_none(text: str) -> None:
    assert await read(text) is None
