"""A pipeline that is reprocessed and another one that reads its output, on fakes."""

import copy
from typing import Any

from fakes.cluster import Body
from fakes.context import build_resource
from kappa_crds import API_VERSION
from kappa_crds.progress import DriverExit, QueryProgress, SourceProgress
from kappa_operator.engine.keys import Key, ObjectRef
from unit.control.lives import Life, Step
from unit.control.reprocessings import ShadowLife, build_query, find_end, read_revision

TOTALS = Key("Pipeline", "shop", "totals")
SUMS = Key("Topic", "shop", "sums")
TOTALS_SPEC: dict[str, Any] = {
    "sources": [{"name": "rows", "topic": "out", "format": {"json": {"schema": "k STRING"}}}],
    "sinks": [{"name": "sums", "from": "rows", "kafka": {"topic": "sums"}}],
}


class DownstreamLife(ShadowLife):
    """A life with a second Pipeline, which reads `out`. Its drivers read on from where the last one ended, or moved to.

    `ends` has all points at which one of them began to read a topic, and `lag` what it reports to be behind.
    """

    most = 3

    def __init__(self) -> None:
        super().__init__()
        self.lag = 0
        self.begun: list[str] = []
        self.node.queries = self._report

    async def prepare(self) -> None:
        """Create the topic and the second Pipeline as well."""
        await super().prepare()
        self.operator.cluster.put(build_resource("Topic", "sums"))
        await self.operator.settle(SUMS)
        write_totals()(self)

    def describe(self) -> dict[str, Any]:
        """Return what there is in the end, of both Pipelines."""
        status = read_totals(self)
        return {
            **super().describe(),
            "inputs": status.get("inputs", ()),
            "read": find_topics(self),
            "holding": find_holding(self),
            "totals": (status.get("state"), status.get("checkpoint"), len(status.get("runs", ()))),
        }

    def fork(self) -> Life:
        """Return a copy with a report of its own."""
        forked = super().fork()
        assert isinstance(forked, DownstreamLife)
        forked.begun = copy.copy(self.begun)
        forked.node.queries = forked._report
        return forked

    def _report(self, pod: Body) -> tuple[QueryProgress, ...]:
        revision = read_revision(self, pod)
        (source,) = revision["spec"]["sources"]
        topic = revision["topics"][source["topic"]]
        if pod["metadata"]["labels"]["kappa-platform.io/pipeline"] == "totals":
            self.begun.append(topic)
        ends = find_end(topic)
        latest = {topic: {0: ends[0] + self.lag}}
        at = SourceProgress(
            name=source["name"], topic=topic, end_offsets={topic: ends}, latest_offsets=latest, lag=self.lag
        )
        return (build_query(at),)


class LaterLife(DownstreamLife):
    """A life in which the second Pipeline is created by a step."""

    async def prepare(self) -> None:
        """Create its topic alone."""
        await super().prepare()
        self.operator.cluster.remove(ObjectRef(API_VERSION, "Pipeline", "shop", "totals"))


def write_totals(**fields: Any) -> Step:
    """Change the second Pipeline."""

    def step(life: Life) -> None:
        life.operator.cluster.put(build_resource("Pipeline", "totals", **{**TOTALS_SPEC, **fields}))

    return step


def fail_totals(end: DriverExit) -> Step:
    """Have drivers of the second Pipeline end so from now on."""

    def step(life: Life) -> None:
        life.node.broken = lambda pod: (
            end if pod["metadata"]["labels"]["kappa-platform.io/pipeline"] == "totals" else None
        )

    return step


def read_totals(life: Life) -> Any:
    """Return the status of the second Pipeline."""
    return (life.operator.get(TOTALS) or {}).get("status") or {}


def find_topics(life: Life) -> list[str]:
    """Return the topics that the drivers of the second Pipeline read now."""
    pods = life.node.find_pods()
    alive = [
        pod
        for pod in pods
        if pod["metadata"]["labels"]["kappa-platform.io/pipeline"] == "totals"
        and pod.get("status", {}).get("phase") == "Running"
    ]
    return [read_revision(life, pod)["topics"]["out"] for pod in alive]


def find_holding(life: Life) -> list[str]:
    """Return the addresses of drivers that hold."""
    return [address for address, found in life.operator.drivers.progress.items() if found.hold is not None]


def list_reprocessings(life: Life) -> list[Any]:
    """Return the statuses of the Reprocessings."""
    return [body.get("status", {}) for body in life.operator.cluster.find(API_VERSION, "Reprocessing")]
