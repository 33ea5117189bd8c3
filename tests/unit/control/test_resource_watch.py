"""The watch of custom resources: what arrives together is taken in one step, and no failure ends the watch of another kind or namespace."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from kubernetes.client import Configuration

from fakes.cluster import FakeCluster
from fakes.context import build_resource
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.resource_watch import Event, ResourceWatch
from kappa_operator.errors import Refused
from kappa_operator.kinds import KIND_TABLE

TOPICS = {"Topic": KIND_TABLE["Topic"]}


def build_event(type: str, name: str, version: int, namespace: str = "shop") -> Event:
    body = build_resource("Topic", name, namespace)
    body["metadata"]["resourceVersion"] = str(version)
    return {"type": type, "object": body}


class Watched(FakeCluster):
    """An API server with lists and watches that a test writes. A watch without chunks never ends."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: list[str] = []
        self.versions: list[str] = []
        self.chunks: defaultdict[str | None, list[list[Event]]] = defaultdict(list)
        self.refused: set[str | None] = set()

    async def list_versions(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: str = "",
    ) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        """Yield one object, unless the namespace is refused."""
        if namespace in self.refused:
            raise Refused(f"{namespace} may not be read")
        self.lists.append(str(namespace))
        yield [build_event("", "listed", 1, namespace or "shop")["object"]], "7"

    async def watch(
        self, api_version: str, kind: str, namespace: str | None, version: str
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the chunks."""
        self.versions.append(version)
        if not self.chunks[namespace]:
            await asyncio.Event().wait()
        while self.chunks[namespace]:
            chunk = self.chunks[namespace].pop(0)
            yield [json.dumps(each).encode() for each in chunk]


@asynccontextmanager
async def running(watch: ResourceWatch) -> AsyncIterator[None]:
    task = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def collect(cluster: ApiCluster, count: int, *namespaces: str) -> list[tuple[str | None, str]]:
    """Return the types and names of the first events."""
    found: asyncio.Queue[tuple[str | None, str]] = asyncio.Queue()

    def note(event: Event) -> None:
        found.put_nowait((event["type"], event["object"]["metadata"]["name"]))

    async with running(ResourceWatch(cluster, note, TOPICS, namespaces)), asyncio.timeout(20):
        return [await found.get() for _ in range(count)]


async def test_events_that_arrived_together_are_taken_in_one_round_of_the_event_loop() -> None:
    cluster, rounds, noted = Watched(), 0, list[int]()
    cluster.chunks[None] = [[build_event("ADDED", f"t{n}", n + 10) for n in range(500)]]
    async with running(ResourceWatch(cluster, lambda _: noted.append(rounds), TOPICS)):
        while len(noted) < 501 and rounds < 1000:
            rounds += 1
            await asyncio.sleep(0)
    assert len(noted) == 501
    assert noted[1] == noted[-1], "a full event loop would delay the last one by 500 of its rounds"


async def test_a_watch_continues_after_its_last_event_or_bookmark() -> None:
    cluster = Watched()
    cluster.chunks[None] = [[build_event("MODIFIED", "a", 11), build_event("BOOKMARK", "", 15)]]
    assert await collect(cluster, 2) == [(None, "listed"), ("MODIFIED", "a")]
    await asyncio.sleep(0)
    assert cluster.versions == ["7", "15"] and len(cluster.lists) == 1


async def test_an_expired_version_begins_with_a_list() -> None:
    cluster = Watched()
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
    cluster.chunks[None] = [[gone, build_event("ADDED", "lost", 12)]]
    assert await collect(cluster, 2) == [(None, "listed"), (None, "listed")]


async def test_a_namespace_that_may_not_be_read_does_not_end_the_watch_of_another_one() -> None:
    cluster = Watched()
    cluster.refused = {"gone"}
    cluster.chunks["shop"] = [[build_event("ADDED", "a", 11)]]
    assert await collect(cluster, 2, "gone", "shop") == [(None, "listed"), ("ADDED", "a")]


async def test_an_object_that_causes_an_error_does_not_end_the_watch() -> None:
    cluster, noted = Watched(), asyncio.Queue[str]()
    cluster.chunks[None] = [[build_event("ADDED", "bad", 11), build_event("ADDED", "good", 12)]]

    def note(event: Event) -> None:
        name = event["object"]["metadata"]["name"]
        if name == "bad":
            raise KeyError(name)
        noted.put_nowait(name)

    async with running(ResourceWatch(cluster, note, TOPICS)), asyncio.timeout(20):
        assert [await noted.get(), await noted.get()] == ["listed", "good"]


async def test_an_event_may_come_in_parts() -> None:
    large = build_event("ADDED", "large", 12)
    large["object"]["metadata"]["annotations"] = {"note": "x" * 300_000}
    stream = b"".join(json.dumps(each).encode() + b"\n" for each in (build_event("ADDED", "a", 11), large))

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(0, len(stream), 50_001):
            await response.write(stream[at : at + 50_001])
            await asyncio.sleep(0.01)
        await asyncio.sleep(60)
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server, ClientSession() as session:
        configuration = Configuration()
        configuration.host = str(server.make_url("/"))
        assert await collect(ApiCluster(configuration, session), 2) == [("ADDED", "a"), ("ADDED", "large")]
