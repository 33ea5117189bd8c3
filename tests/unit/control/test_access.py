"""Metrics and report are for accounts with permission: the API server decides, and an error refuses."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from fakes.cluster import FakeCluster
from kappa_operator.errors import ApiUnavailable
from kappa_operator.report.access import AccessReview
from kappa_operator.report.address import REPORT_PATH

PROMETHEUS = {"username": "prometheus", "uid": "1", "groups": ["monitoring"], "extra": {"pod": ["p-0"]}}
READER = {"username": "reader", "groups": []}
AUDIENCE = "kappa-operator.kappa-system.svc"


@dataclass
class Reviewer(FakeCluster):
    """An API server with two tokens: one of Prometheus for itself, one of a reader for the report."""

    reviews: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    unavailable: bool = False
    before: Callable[[], Any] = lambda: None

    async def review(self, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        self.reviews.append((kind, spec))
        waiting = self.before()
        if waiting is not None:
            await waiting
        if self.unavailable:
            raise ApiUnavailable("no answer")
        if kind == "TokenReview":
            return self._authenticate(spec)
        path = spec.get("nonResourceAttributes", {}).get("path")
        resource = spec.get("resourceAttributes", {}).get("resource")
        return {
            "allowed": (spec["user"], path or resource) in {("prometheus", "/metrics"), ("reader", "reports")}
        }

    def _authenticate(self, spec: dict[str, Any]) -> dict[str, Any]:
        match spec["token"], spec.get("audiences"):
            case "scrape", None:
                return {"authenticated": True, "user": PROMETHEUS, "audiences": ["https://kubernetes"]}
            case "read", [audience]:
                return {"authenticated": True, "user": READER, "audiences": [audience]}
            case "unaware", [_]:
                return {"authenticated": True, "user": READER}
        return {"authenticated": False, "error": "unknown"}


class Seconds:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def build_app(reviewer: Reviewer, timer: Seconds) -> web.Application:
    async def show(request: web.Request) -> web.Response:
        return web.Response(text="secret figures")

    app = web.Application(middlewares=[AccessReview(reviewer, "kappa-system", timer).middleware])
    app.add_routes([web.get("/metrics", show), web.get(REPORT_PATH, show)])
    return app


@dataclass
class Door:
    client: TestClient[web.Request, web.Application]
    reviewer: Reviewer
    timer: Seconds

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.client.get(path, headers=named)
        return response.status, await response.text()


@pytest.fixture
async def door() -> Any:
    reviewer, timer = Reviewer(), Seconds()
    async with TestClient(TestServer(build_app(reviewer, timer))) as client:
        yield Door(client, reviewer, timer)


async def test_prometheus_reads_metrics_with_its_own_token(door: Door) -> None:
    assert await door.get("/metrics", Authorization="Bearer scrape") == (200, "secret figures")
    kind, spec = door.reviewer.reviews[-1]
    assert kind == "SubjectAccessReview"
    assert spec == {
        "user": "prometheus", "uid": "1", "groups": ["monitoring"], "extra": {"pod": ["p-0"]},
        "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
    }  # fmt: skip


async def test_a_reader_reads_the_report_with_a_token_for_it(door: Door) -> None:
    assert await door.get(REPORT_PATH, Kappa_Token="read") == (200, "secret figures")
    assert door.reviewer.reviews[0] == ("TokenReview", {"token": "read", "audiences": [AUDIENCE]})
    wanted = {"verb": "get", "group": "kappa-platform.io", "resource": "reports", "namespace": "kappa-system"}
    assert door.reviewer.reviews[1][1]["resourceAttributes"] == wanted


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/metrics", {}, 401),
        ("/metrics", {"Authorization": "Basic scrape"}, 401),
        ("/metrics", {"Authorization": "Bearer wrong"}, 401),
        (REPORT_PATH, {"Authorization": "Bearer read"}, 401),
        (REPORT_PATH, {"Kappa_Token": "scrape"}, 401),
        (REPORT_PATH, {"Kappa_Token": "unaware"}, 401),
        (REPORT_PATH, {"Authorization": "Bearer scrape"}, 403),
        ("/metrics", {"Kappa_Token": "read"}, 403),
        ("/healthz", {}, 401),
    ],
    ids=str,
)
async def test_all_others_are_refused(door: Door, path: str, headers: dict[str, str], status: int) -> None:
    found, text = await door.get(path, **headers)
    assert found == status
    assert "secret" not in text


async def test_without_an_answer_of_the_api_server_requests_are_refused_and_that_is_not_remembered(
    door: Door,
) -> None:
    door.reviewer.unavailable = True
    assert (await door.get("/metrics", Authorization="Bearer scrape"))[0] == 503
    door.reviewer.unavailable = False
    assert (await door.get("/metrics", Authorization="Bearer scrape"))[0] == 200


@pytest.mark.parametrize(("token", "status", "seconds"), [("scrape", 200, 60.0), ("wrong", 401, 10.0)])
async def test_an_answer_is_remembered_for_a_while(
    door: Door, token: str, status: int, seconds: float
) -> None:
    for _ in range(3):
        assert (await door.get("/metrics", Authorization=f"Bearer {token}"))[0] == status
    first = len(door.reviewer.reviews)
    assert first == (2 if status == 200 else 1)
    door.timer.now = seconds + 1.0
    await door.get("/metrics", Authorization=f"Bearer {token}")
    assert len(door.reviewer.reviews) == 2 * first


async def test_many_unknown_tokens_send_few_requests_at_a_time_to_the_api_server(door: Door) -> None:
    held = asyncio.Event()
    door.reviewer.before = held.wait
    asked = [asyncio.create_task(door.get("/metrics", Authorization=f"Bearer {n}")) for n in range(100)]
    done, waiting = await asyncio.wait(asked, timeout=None, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 36:
        more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        done |= more
    assert {task.result()[0] for task in done} == {429}
    assert len(door.reviewer.reviews) == 4
    held.set()
    assert {status for status, _ in await asyncio.gather(*waiting)} == {401}
