"""A pipeline waits for the Secrets of its sources' schema registries, and says which one is missing."""

import base64
from typing import Any

from kappa_operator.engine.keys import ObjectRef
from unit.control.lives import PIPELINE, REF, SPEC, Life, write

REGISTRY = {"url": "http://registry:8081", "credentialsSecretRef": {"name": "registry-user"}}
AVRO = {**SPEC, "sources": [{"name": "events", "topic": "in", "format": {"avro": {"registry": REGISTRY}}}]}


async def _find_ready(life: Life) -> dict[str, Any]:
    await life.operator.settle(PIPELINE)
    body = await life.operator.cluster.get(REF)
    assert body is not None
    conditions = body["status"]["conditions"]
    return next(condition for condition in conditions if condition["type"] == "Ready")


async def test_no_driver_is_made_before_the_credentials_are_there() -> None:
    life = Life()
    await life.prepare()
    write(AVRO)(life)
    ready = await _find_ready(life)
    assert (ready["reason"], ready["status"]) == ("SecretNotFound", "False")
    assert "registry-user" in ready["message"]

    data = {"username": base64.b64encode(b"me").decode()}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "registry-user",
            "namespace": "shop",
            "annotations": {"secrets.kappa-platform.io/registry": "registry:8081"},
        },
    }
    life.operator.cluster.put({**secret, "data": data})
    ready = await _find_ready(life)
    assert ready["reason"] == "SecretIncomplete"
    assert "password" in ready["message"]

    life.operator.cluster.remove(ObjectRef("v1", "Secret", "shop", "registry-user"))
    life.operator.cluster.put({**secret, "data": {**data, "password": data["username"]}})
    assert (await _find_ready(life))["reason"] not in ("SecretNotFound", "SecretIncomplete")
