"""Pipelines that read the outputs of each other and are reprocessed as one, on fakes."""

import copy
import zlib
from typing import Any, ClassVar

from fakes.cluster import Body
from fakes.context import build_resource
from kappa_crds import API_VERSION
from kappa_crds.alias import Alias, resolve_alias
from kappa_crds.kinds import find_kind
from kappa_crds.progress import DriverExit, QueryProgress, SourceProgress
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.pipeline.objects import PIPELINE_LABEL
from kappa_operator.reprocessing.objects import view_reprocessing
from unit.control.lives import Life, Step
from unit.control.reprocessings import FIXED, SPEC, ShadowLife, build_query, find_all, read_revision

Graph = dict[str, tuple[str, ...]]
"""The topics that each further Pipeline reads; it writes a topic of its own name."""
THREE: Graph = {"totals": ("out",), "tops": ("totals",)}
DIAMOND: Graph = {"left": ("out",), "right": ("out",), "joined": ("left", "right")}


def reprocess_downstream(spec: dict[str, Any], **policy: Any) -> dict[str, Any]:
    """Return the spec of the first Pipeline with which those that read from it are reprocessed with it."""
    upgrade = spec["upgrade"]
    known = {**upgrade.get("reprocessing", {}), "downstream": "Reprocess", **policy}
    return {**spec, "upgrade": {**upgrade, "reprocessing": known}}


CHAIN = reprocess_downstream(SPEC)
CHANGED = reprocess_downstream(FIXED)
BY_HAND = reprocess_downstream(FIXED, gates={"cut": "Manual"}, outputs="Delete")


def find_chain_end(topic: str) -> dict[int, int]:
    """Return the end of a topic: each version of each has another one."""
    return {0: 100 if topic == "in" else 50 + zlib.crc32(topic.encode()) % 1000}


class ChainLife(ShadowLife):
    """A life with further Pipelines. `mixed` has what the outputs resolved to when some were old and some were new.

    A Pipeline that was `deleted` and is made again is not of the chain: it writes to the topics of its spec.
    """

    graph: ClassVar[Graph] = THREE
    most = 6

    def __init__(self) -> None:
        super().__init__()
        self.mixed: list[dict[str, str]] = []
        self.deleted: set[str] = set()
        self._seen: dict[tuple[str, str], list[Any]] = {}
        self._watch()

    def _watch(self) -> None:
        self.node.queries = self._report
        self.operator.cluster.subscribe(lambda _event, body: self._check(body))

    async def prepare(self) -> None:
        """Create the topics and the Pipelines of the graph as well."""
        await super().prepare()
        for name in self.graph:
            self.operator.cluster.put(build_resource("Topic", name))
            await self.operator.settle(Key("Topic", "shop", name))
            write_member(name)(self)

    def fork(self) -> Life:
        """Return a copy with reports and checks of its own."""
        forked = super().fork()
        assert isinstance(forked, ChainLife)
        forked.mixed, forked._seen = copy.copy(self.mixed), copy.copy(self._seen)
        forked.deleted = copy.copy(self.deleted)
        forked._watch()
        return forked

    def _report(self, pod: Body) -> tuple[QueryProgress, ...]:
        revision = read_revision(self, pod)
        topics = [revision["topics"][each["topic"]] for each in revision["spec"]["sources"]]
        return tuple(
            build_query(
                SourceProgress(
                    name="s",
                    topic=each,
                    end_offsets={each: find_chain_end(each)},
                    latest_offsets={each: find_chain_end(each)},
                )
            )
            for each in topics
        )

    def _check(self, body: Body) -> None:
        status = body.get("status") or {}
        seen = [status.get(each) for each in ("outputs", "phase", "cut", "rollbackCut")]
        key = body["kind"], body["metadata"]["name"]
        if key[0] in ("Pipeline", "Reprocessing") and self._seen.get(key) != seen:
            self._seen[key] = seen
            found = self.resolve_chain()
            if len({".r" in each for each in found.values()}) > 1:
                self.mixed.append(found)

    def resolve_chain(self) -> dict[str, str]:
        """Return the topics that the outputs of the chain are in now."""
        found = resolve_all(self).items()
        return {name: alias.topic for name, alias in found if name not in self.deleted}

    def find_end(self, topic: str) -> dict[int, int]:
        """Return the end of a topic: each version of each has another one."""
        return find_chain_end(topic)

    def describe(self) -> dict[str, Any]:
        """Return what there is in the end, of all Pipelines."""
        return {
            **super().describe(),
            "resolved": {name: each.topic for name, each in resolve_all(self).items()},
            "holding": [
                address for address, found in self.operator.drivers.progress.items() if found.hold is not None
            ],
            "members": {name: describe_member(self, name) for name in self.graph},
            "mixed": self.mixed,
        }


class DiamondLife(ChainLife):
    """A life in which the last Pipeline reads from two that both read from the first."""

    graph: ClassVar[Graph] = DIAMOND
    most = 8


def write_member(name: str, **fields: Any) -> Step:
    """Write a further Pipeline."""

    def step(life: Life) -> None:
        assert isinstance(life, ChainLife)
        sources = [
            {"name": f"s{number}", "topic": topic, "format": {"json": {"schema": "k STRING"}}}
            for number, topic in enumerate(life.graph[name])
        ]
        sinks = [
            {"name": f"to{number}", "from": f"s{number}", "kafka": {"topic": name}}
            for number, _ in enumerate(sources)
        ]
        spec = {"sources": sources, "sinks": sinks, **fields}
        life.operator.cluster.put(build_resource("Pipeline", name, **spec))

    return step


def delete_member(name: str) -> Step:
    """Delete a further Pipeline. One of its name that is made later has drivers of the same names."""

    def step(life: Life) -> None:
        assert isinstance(life, ChainLife)
        life.deleted.add(name)
        life.node.made = [pod for pod in life.node.made if not pod.startswith(f"{name}-driver-")]
        life.operator.cluster.remove(ObjectRef(API_VERSION, "Pipeline", "shop", name))

    return step


def fail_member(name: str, end: DriverExit, *, new: bool = True) -> Step:
    """Have drivers of a further Pipeline end so from now on: those of its new version, or of all versions that write to `.rN`."""

    def step(life: Life) -> None:
        def end_of(pod: Body) -> DriverExit | None:
            is_own = pod["metadata"]["labels"][PIPELINE_LABEL] == name
            is_new = ".r" in read_revision(life, pod)["topics"].get(name, "")
            return end if is_own and is_new is new else None

        life.node.broken = end_of

    return step


def read_member(life: Life, name: str) -> Any:
    """Return the status of a Pipeline."""
    return (life.operator.get(Key("Pipeline", "shop", name)) or {}).get("status") or {}


def describe_member(life: Life, name: str) -> Any:
    """Return what a further Pipeline runs and reads in the end, without generations."""
    status = read_member(life, name)
    return {
        "change": (status.get("upgrade") or {}).get("phase"),
        "runs": {run["role"]: (run["checkpoint"], run["outputs"]) for run in status.get("runs", ())},
        "inputs": [each["topic"] for each in status.get("inputs", ())],
        "outputs": [each["topic"] for each in status.get("outputs", ())],
        "state": status.get("state"),
    }


def resolve_all(life: Life) -> dict[str, Alias]:
    """Return where the outputs of all Pipelines are now, as `kappa resolve` would print it."""
    cluster, found = life.operator.cluster, {}
    bodies = [find_kind("Reprocessing").parse(each) for each in find_all(life)]
    for body in cluster.find(API_VERSION, "Pipeline"):
        pipeline = find_kind("Pipeline").parse(body)
        views = ((each.metadata.name, view_reprocessing(each, pipeline)) for each in bodies)
        own = [(name, view.status) for name, view in views if view is not None]
        for output in pipeline.status.outputs:
            alias = resolve_alias(output.name, pipeline.status, own)
            if alias is not None:
                found[output.name] = alias
    return found
