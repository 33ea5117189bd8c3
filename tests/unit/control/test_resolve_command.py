"""`kappa resolve`: which Pipeline writes a topic, and what is printed."""

import io
from typing import Any

import pytest
from rich.console import Console

from fakes.cluster import FakeCluster
from fakes.context import build_resource
from kappa_operator.cli.errors import CommandError
from kappa_operator.cli.resolve import build_view, read_alias
from kappa_operator.engine.keys import ObjectRef

OFFSETS = {"taken": "2026-01-01T10:00:00Z", "inputs": [{"topic": "in", "offsets": {"0": 9}}]}
CUT: dict[str, Any] = {
    **OFFSETS,
    "old": [{"topic": "delays", "offsets": {"0": 41}}],
    "new": [{"topic": "delays.r1", "offsets": {"0": 40}}],
}


def add(cluster: FakeCluster, body: dict[str, Any], status: dict[str, Any]) -> None:
    cluster.put(body)
    cluster.patch(ObjectRef.of(body), status=status)


def add_pipeline(cluster: FakeCluster, name: str, topic: str) -> None:
    sources = [{"name": "s", "topic": "in", "format": {"json": {"schema": "v STRING"}}}]
    sinks = [{"name": "out", "from": "s", "kafka": {"topic": "delays"}}]
    status = {
        "runs": [{"role": "active", "generation": 2, "outputs": 1}],
        "outputs": [{"name": "delays", "topic": topic}],
    }
    add(cluster, build_resource("Pipeline", name, sources=sources, sinks=sinks), status)


async def test_the_moves_of_the_writer_are_printed() -> None:
    cluster = FakeCluster()
    add_pipeline(cluster, "flights", "delays.r1")
    for pipeline in ("flights", "other"):
        body = build_resource("Reprocessing", f"{pipeline}-a", pipelineRef=pipeline)
        add(cluster, body, {"cut": CUT})
    alias = await read_alias(cluster, "shop", "delays")
    console = Console(file=io.StringIO(), width=200)
    console.print(build_view(alias))
    assert isinstance(console.file, io.StringIO)
    first, _, line = console.file.getvalue().splitlines()
    assert first.strip() == "delays.r1"
    assert line.split()[2:] == ["delays", "0", "41", "delays.r1", "40", "flights-a"]


async def test_a_topic_without_a_writer_or_with_two_has_no_alias() -> None:
    cluster = FakeCluster()
    with pytest.raises(CommandError, match=r"no Pipeline in namespace shop writes topic delays"):
        await read_alias(cluster, "shop", "delays")
    add_pipeline(cluster, "flights", "delays.r1")
    add_pipeline(cluster, "trains", "delays")
    with pytest.raises(CommandError, match="flights, trains"):
        await read_alias(cluster, "shop", "delays")
