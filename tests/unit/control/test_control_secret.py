"""The Secret of a control port: its certificate is created with the driver and renewed while that runs."""

import base64
from typing import Any

from fakes.permissions import Permission, PermittedCluster
from kappa_operator.certificates.issue import get_hosts, is_valid
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.control import read_control
from kappa_operator.pipeline.drivers import ControlAccess
from unit.control.lives import PIPELINE, REF, SPEC, Life, write

SECRET = ObjectRef("v1", "Secret", "shop", "delays-control")
DAY = 86_400.0


def read(life: Life) -> dict[str, str]:
    body = life.operator.cluster.read(SECRET)
    assert body is not None
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


async def start() -> Life:
    life = Life()
    await life.prepare()
    write(SPEC)(life)
    await life.settle()
    return life


def find_state(life: Life) -> Any:
    body = life.operator.cluster.read(REF)
    assert body is not None
    return body["status"]["state"], [run["generation"] for run in body["status"]["runs"]]


async def test_a_driver_starts_with_a_token_and_a_certificate_of_its_pipeline() -> None:
    life = await start()
    data = read(life)
    assert set(data) == {"token", "tls.crt", "tls.key"}
    assert get_hosts(data["tls.crt"]) == {"delays.shop.pipeline"}
    assert is_valid(data["tls.crt"], life.operator.context.now())
    assert "PRIVATE KEY" in data["tls.key"]
    (pod,) = life.node.find_pods()
    assert "PRIVATE KEY" not in str(pod)
    assert data["token"] not in str(pod)


async def test_a_certificate_is_renewed_while_the_driver_runs_and_both_are_accepted() -> None:
    life = await start()
    before, state = read(life), find_state(life)
    life.operator.clock.advance(59 * DAY)
    await life.settle()
    assert read(life) == before
    life.operator.clock.advance(2 * DAY)
    await life.settle()
    after = read(life)
    assert (after["token"], after["previous.crt"]) == (before["token"], before["tls.crt"])
    assert after["tls.crt"] != before["tls.crt"]
    assert find_state(life) == state == ("Running", [1])
    access = await read_control(life.operator.context, SECRET)
    assert access == ControlAccess(before["token"], (after["tls.crt"], before["tls.crt"]))


async def test_a_secret_of_release_0_1_gets_a_certificate_before_the_next_driver() -> None:
    life = await start()
    token = read(life)["token"]
    body = life.operator.cluster.read(SECRET)
    assert body is not None
    life.operator.cluster.remove(SECRET)
    life.operator.cluster.put({**body, "data": {"token": body["data"]["token"]}})
    await life.settle()
    assert set(read(life)) == {"token"}, "the driver that runs has plain HTTP"
    write({**SPEC, "trigger": {"maxRecords": 10}})(life)
    await life.settle()
    assert read(life)["token"] == token
    assert get_hosts(read(life)["tls.crt"]) == {"delays.shop.pipeline"}


async def test_a_renewal_that_is_refused_is_tried_again_and_harms_no_driver() -> None:
    life = await start()
    before = read(life)
    cluster = life.operator.cluster
    assert isinstance(cluster, PermittedCluster)
    granted = cluster.permissions
    cluster.permissions = granted - {Permission("", "secrets", "patch")}
    life.operator.clock.advance(61 * DAY)
    await life.operator.settle(PIPELINE)
    assert (read(life), find_state(life)) == (before, ("Running", [1]))
    cluster.permissions = granted
    life.operator.clock.advance(100.0)
    await life.settle()
    assert read(life)["previous.crt"] == before["tls.crt"]
