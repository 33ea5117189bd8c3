"""The endpoint for Alertmanager: who may tell, what is taken, and what is refused with a word on why."""

import json
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from fakes.cluster import Body, FakeCluster
from fakes.context import Operator, build_resource
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import ApiUnavailable
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lagpolicy.alert import MOST_ALERTS, read_alerts
from kappa_operator.lagpolicy.alertmanager import build_alert_app
from kappa_operator.tls import serve_tls
from lab.broker import free_ports
from lab.pki import make_authority, make_certificate

POLICY = Key("LagPolicy", "shop", "gold")
REF = ObjectRef(API_VERSION, *POLICY)
TOKEN = "a-token-of-the-chart"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


def alert(number: int = 1, status: str = "firing", **labels: str) -> Body:
    named = {"alertname": "KappaLagPolicyCritical", "namespace": "shop", "lagpolicy": "gold", **labels}
    return {"status": status, "labels": named, "fingerprint": f"{number:016x}", "annotations": {"a": "b"}}


def payload(*alerts: Body, **fields: Any) -> Body:
    return {
        "version": "4",
        "groupKey": "{}",
        "status": "firing",
        "receiver": "kappa",
        "alerts": list(alerts),
        **fields,
    }


@pytest.fixture
def operator() -> Operator:
    found = Operator(KIND_TABLE)
    found.cluster.put(build_resource("LagPolicy", "gold", selector={"groups": ["*"]}, warning={"lag": "60s"}))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return tmp_path


async def post(
    operator: Operator, folder: Path, body: Any, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    async with TestClient(TestServer(build_alert_app(operator.context, folder))) as client:
        response = await client.post("/alerts", data=text, headers=KNOWN if headers is None else headers)
        is_json = response.content_type == "application/json"
        return response.status, await response.json() if is_json else await response.text()


def find(operator: Operator) -> dict[str, Any]:
    annotations = (operator.get(POLICY) or {})["metadata"].get("annotations", {})
    return {name.partition("/")[2]: each for name, each in read_alerts(annotations).items()}


async def test_an_alert_that_fires_is_kept_with_the_policy_and_goes_when_it_is_resolved(
    operator: Operator, folder: Path
) -> None:
    told = payload(alert(severity="critical", lag_state="Stalled"), alert(2))
    assert await post(operator, folder, told) == (200, {"taken": 2, "ignored": []})
    first, second = find(operator).values()
    assert (first.name, first.severity, first.state) == ("KappaLagPolicyCritical", "Critical", "Stalled")
    assert (second.severity, second.state) == ("Warning", "Warning")
    assert first.until == operator.clock.time + timedelta(minutes=15)
    assert (await post(operator, folder, payload(alert(1, "resolved"))))[0] == 200
    assert list(find(operator)) == [f"{2:016x}"]


async def test_a_repeated_alert_is_extended_and_an_expired_one_is_removed(
    operator: Operator, folder: Path
) -> None:
    await post(operator, folder, payload(alert(1), alert(2)))
    operator.clock.advance(600)
    await post(operator, folder, payload(alert(1)))
    operator.clock.advance(600)
    await post(operator, folder, payload(alert(3)))
    assert list(find(operator)) == [f"{1:016x}", f"{3:016x}"]


async def test_what_else_is_annotated_stays(operator: Operator, folder: Path) -> None:
    operator.cluster.patch(REF, metadata={"annotations": {"team": "gold"}})
    await post(operator, folder, payload(alert()))
    await post(operator, folder, payload(alert(1, "resolved")))
    assert (operator.get(POLICY) or {})["metadata"]["annotations"] == {"team": "gold"}


async def test_a_policy_keeps_no_more_than_so_many(operator: Operator, folder: Path) -> None:
    for begin in range(0, 60, 20):
        await post(operator, folder, payload(*(alert(begin + number) for number in range(20))))
        operator.clock.advance(10)
    assert len(find(operator)) == MOST_ALERTS


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}],
)  # fmt: skip
async def test_without_the_token_nothing_changes(
    operator: Operator, folder: Path, headers: dict[str, str]
) -> None:
    assert (await post(operator, folder, payload(alert()), headers))[0] == 401
    assert find(operator) == {}


async def test_without_a_token_every_request_is_refused(operator: Operator, folder: Path) -> None:
    (folder / "token").write_text("")
    assert (await post(operator, folder, payload(alert()), {"Authorization": "Bearer "}))[0] == 401
    (folder / "token").unlink()
    assert (await post(operator, folder, payload(alert())))[0] == 401


async def test_a_token_that_is_exchanged_counts_at_once(operator: Operator, folder: Path) -> None:
    (folder / "token").write_text("another")
    assert (await post(operator, folder, payload(alert())))[0] == 401
    assert (await post(operator, folder, payload(alert()), {"Authorization": "Bearer another"}))[0] == 200


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("no json: hunter2", "the body: json_invalid"),
        (payload(alert(), version="3"), "version: literal_error"),
        ({"alerts": []}, "version: missing"),
        ({"version": "4"}, "alerts: missing"),
        (payload({**alert(), "status": "hunter2"}), "alerts.0.status: literal_error"),
        (payload({**alert(), "fingerprint": "../hunter2"}), "alerts.0.fingerprint: string_pattern_mismatch"),
        (payload({**alert(), "labels": {"a": 1}}), "alerts.0.labels.a: string_type"),
        (payload(*[alert()] * 201), "alerts: too_long"),
        ([], "the body: model_type"),
    ],
)
async def test_what_is_no_payload_is_refused_with_its_place_and_not_repeated(
    operator: Operator, folder: Path, body: Any, said: str
) -> None:
    status, text = await post(operator, folder, body)
    assert status == 400
    assert text == f"this is no payload of Alertmanager's webhook in version 4: {said}"
    assert find(operator) == {}


async def test_alerts_without_a_policy_are_reported_and_delay_no_other(
    operator: Operator, folder: Path
) -> None:
    unnamed = {**alert(2), "labels": {"alertname": "Other"}}
    status, answer = await post(operator, folder, payload(alert(), unnamed, alert(3, lagpolicy="silver")))
    assert (status, answer["taken"]) == (200, 1)
    assert answer["ignored"] == [
        "Other has no labels namespace and lagpolicy",
        'LagPolicy "silver" not found in namespace "shop"',
    ]
    assert (await post(operator, folder, payload(unnamed)))[0] == 422


async def test_a_payload_that_is_too_large_is_refused(operator: Operator, folder: Path) -> None:
    status, _ = await post(operator, folder, payload(alert(), receiver="x" * 2**20))
    assert status == 413


class Silent(FakeCluster):
    """An API server that does not answer any more."""

    async def get(self, ref: ObjectRef) -> Body | None:
        raise ApiUnavailable("connection refused")


async def test_alertmanager_retries_if_the_api_server_does_not_answer(folder: Path) -> None:
    operator = Operator(KIND_TABLE, cluster=Silent())
    operator.cluster.put(
        build_resource("LagPolicy", "gold", selector={"groups": ["*"]}, warning={"lag": "60s"})
    )
    status, text = await post(operator, folder, payload(alert()))
    assert (status, text) == (503, "the API server does not accept it now; send it again")


@pytest.mark.parametrize("encrypted", [False, True])
async def test_it_serves_https_with_a_certificate_and_http_without_one(
    operator: Operator, folder: Path, encrypted: bool
) -> None:
    (port,) = free_ports(1)
    trust: bool | ssl.SSLContext = True
    if encrypted:
        make_authority(folder, "test")
        make_certificate(folder, "tls", "/CN=localhost", "DNS:localhost")
        trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    runner = await serve_tls(build_alert_app(operator.context, folder), folder, port, required=False)
    url = f"{'https' if encrypted else 'http'}://localhost:{port}/alerts"
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=payload(alert()), headers=KNOWN, ssl=trust) as answer,
        ):
            assert answer.status == 200
    finally:
        await runner.cleanup()
    assert len(find(operator)) == 1
