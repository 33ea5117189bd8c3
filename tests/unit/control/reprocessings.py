"""A pipeline that is reprocessed on fakes: its drivers report queries, and the operator reconciles its Reprocessings and its topics."""

import json
from typing import Any

from effort import Deaths
from fakes.cluster import Body
from fakes.fuse import Killed
from fakes.kubelet import SINCE, find_address
from kappa_crds import API_VERSION
from kappa_crds.progress import DriverExit, QueryProgress, SourceProgress, TopicOffsets
from kappa_crds.replay import REPLAY_VARIABLE
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.pipeline.objects import REVISION_LABEL
from unit.control.lives import PIPELINE, ROUNDS, Life, Step
from unit.control.lives import SPEC as BASE

SPEC: dict[str, Any] = {
    **BASE,
    "upgrade": {"mode": "Shadow", "reprocessing": {"gates": {"cut": "Automatic"}, "soak": "1m"}},
}
FIXED: dict[str, Any] = {
    **SPEC,
    "views": [{"name": "fixed", "sql": "SELECT upper(k) AS k FROM events"}],
    "sinks": [{"name": "log", "from": "fixed", "kafka": {"topic": "out"}}],
}
OTHER: dict[str, Any] = {**FIXED, "views": [{"name": "fixed", "sql": "SELECT lower(k) AS k FROM events"}]}


_MOST_DEATHS = 4
"""Deaths of a scene in `make test`, other ones each time."""
_QUIET, _LONG = 6, 250
"""Rounds without a change after which it rests, and the seconds that pass in such a round: a soak time is over after some."""


class ShadowLife(Life):
    """A life in which Reprocessings and Topics are reconciled as well. `pauses` ends a settling at a phase of the reprocessing.

    `most` is the most drivers that may be alive at once.
    """

    most = 2

    def __init__(self) -> None:
        super().__init__()
        self.node.queries = report_queries
        self.pauses: str | None = None

    async def settle(self) -> None:
        """Let operator and node take turns until nothing changes, or a reprocessing is in the phase to pause at."""
        quiet = 0
        for _ in range(ROUNDS):
            before = self.operator.cluster.fuse.writes
            try:
                wait = await self._reconcile_all()
            except Killed:
                self.operator = self.operator.restart()
                self.node.watch()
                quiet = 0
                continue
            moved = self.node.step() or self.operator.cluster.fuse.writes != before
            quiet = 0 if moved else quiet + 1
            if self.pauses is not None and self.pauses in list_phases(self):
                self.pauses = None
                return
            if quiet == _QUIET:
                return
            self.operator.clock.advance(wait if quiet < 2 else _LONG)
        raise AssertionError(f"it does not come to rest: {self.operator.get(PIPELINE)} {find_all(self)}")

    def describe(self) -> dict[str, Any]:
        """Return what there is in the end, without times."""
        return describe(self)

    def find_end(self, topic: str) -> dict[int, int]:
        """Return the end of a topic."""
        return find_end(topic)

    async def step(self, without: Key | None = None) -> None:
        """Let operator and node take one turn, and a second pass; the operator leaves out one resource."""
        await self._reconcile_all(without)
        self.node.step()
        self.operator.clock.advance(1)

    async def _reconcile_all(self, without: Key | None = None) -> float:
        self.operator.drivers.outputs_at.update(list_outputs(self))
        outcome = await self.operator.reconcile(PIPELINE)
        for kind in ("Topic", "Reprocessing", "Savepoint", "Pipeline"):
            for body in self.operator.cluster.find(API_VERSION, kind):
                key = Key(kind, "shop", body["metadata"]["name"])
                if key not in (PIPELINE, without):
                    await self.operator.reconcile(key)
        return outcome.requeue_after or 1.0


def list_outputs(life: Life) -> dict[str, TopicOffsets]:
    """Return by the address of each driver the ends of its output topic."""
    found = {}
    for pod in life.node.find_pods():
        if "deletionTimestamp" in pod["metadata"]:
            continue  # the revision of a deleted pipeline may be gone before its driver
        revision = read_revision(life, pod)
        topics = [revision["topics"][sink["kafka"]["topic"]] for sink in revision["spec"]["sinks"]]
        end = life.find_end if isinstance(life, ShadowLife) else find_end
        found[find_address(pod)] = {topic: end(topic) for topic in topics}
    return found


def read_revision(life: Life, pod: Body) -> Any:
    """Return the revision of a driver, as it is stored."""
    ref = ObjectRef("v1", "ConfigMap", "shop", pod["metadata"]["labels"][REVISION_LABEL])
    return json.loads((life.operator.cluster.read(ref) or {})["data"]["revision.json"])


def read_profiles(life: Life) -> list[Any]:
    """Return the replay profiles of all drivers, in the order of their start."""
    pods = life.node.find_pods()
    values = [
        {each["name"]: each.get("value") for each in pod["spec"]["containers"][0].get("env", [])}
        for pod in pods
    ]
    texts = [each.get(REPLAY_VARIABLE) for each in values]
    return [None if text is None else json.loads(text) for text in texts]


def read_message(life: Life) -> str:
    """Return the message of the last Reprocessing."""
    return str(find_all(life)[-1]["status"]["conditions"][0]["message"])


def find_end(topic: str) -> dict[int, int]:
    """Return the end of a topic: each version has another one."""
    return {0: {"in": 100, "out": 50}.get(topic, 70)}


def report_queries(pod: Body) -> tuple[QueryProgress, ...]:
    """Return what a driver reports that has read all of its topic."""
    ends = {"in": {0: 100}}
    source = SourceProgress(name="events", topic="in", end_offsets=ends, latest_offsets=ends)
    return (build_query(source),)


def build_query(source: SourceProgress) -> QueryProgress:
    """Return the report of a query with this source."""
    return QueryProgress(
        sink="log",
        query_id="q",
        run_id="r",
        batch_id=3,
        timestamp=SINCE,
        input_rows=10,
        sources=(source,),
    )


def find_all(life: Life) -> list[Body]:
    """Return the Reprocessings."""
    return life.operator.cluster.find(API_VERSION, "Reprocessing")


def list_phases(life: Life) -> list[str]:
    """Return the phases of the Reprocessings."""
    return [body.get("status", {}).get("phase", "") for body in find_all(life)]


def request(action: str, id: str = "") -> Step:
    """Have a person request something of the last Reprocessing."""

    def step(life: Life) -> None:
        last = find_all(life)[-1]
        life.operator.cluster.put({**last, "spec": {**last["spec"], "request": {"action": action, "id": id}}})

    return step


def pause_at(phase: str) -> Step:
    """End the settling that follows when the reprocessing is in a phase."""

    def step(life: Life) -> None:
        assert isinstance(life, ShadowLife)
        life.pauses = phase

    return step


def fail_new(end: DriverExit) -> Step:
    """Have the drivers of the new version end so from now on."""

    def step(life: Life) -> None:
        known = find_active_revision(life)
        life.node.broken = lambda pod: end if pod["metadata"]["labels"][REVISION_LABEL] != known else None

    return step


def fail_active(end: DriverExit) -> Step:
    """Have the drivers of the present active version end so from now on, also the one that runs."""

    def step(life: Life) -> None:
        known = find_active_revision(life)
        life.node.broken = lambda pod: end if pod["metadata"]["labels"][REVISION_LABEL] == known else None

    return step


def find_active_revision(life: Life) -> str:
    """Return the revision of the active run."""
    runs = (life.operator.get(PIPELINE) or {})["status"]["runs"]
    return str(next(run["revision"] for run in runs if run["role"] == "active"))


async def live(*steps: Step, kind: type[ShadowLife] = ShadowLife) -> ShadowLife:
    """Go through the steps, and settle after each."""
    life = kind()
    await life.prepare()
    for step in steps:
        step(life)
        await life.settle()
    return life


async def live_and_die(
    *steps: Step, kind: type[ShadowLife] = ShadowLife
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the end, and how it ends where the operator dies after the writes of the last step: some of them in `make test`."""
    life = await live(*steps[:-1], kind=kind)
    deaths = Deaths(lambda: _fork(life), _MOST_DEATHS)
    life.operator.cluster.fuse.on_write = deaths.wrote
    steps[-1](life)
    await life.settle()
    ends = {}
    for number, died in deaths.find():
        await died.settle()
        check(died)
        ends[f"died after write {number} of {deaths.writes}"] = died.describe()
    check(life)
    return life.describe(), ends


def _fork(life: ShadowLife) -> ShadowLife:
    forked = life.fork()
    assert isinstance(forked, ShadowLife)
    return forked


def check(life: ShadowLife) -> None:
    """Fail where two drivers of one run were alive at once, or a driver was made twice."""
    assert life.node.most_of_one <= 1
    assert life.node.most_alive <= life.most
    assert len(set(life.node.made)) == len(life.node.made)


def delete_reprocessing(life: Life) -> None:
    """Have a person delete the last Reprocessing."""
    life.operator.cluster.remove(ObjectRef.of(find_all(life)[-1]))


def describe(life: Life) -> dict[str, Any]:
    """Return what there is in the end, without times."""
    status = (life.operator.get(PIPELINE) or {}).get("status") or {}
    return {
        "phases": list_phases(life),
        "change": (status.get("upgrade") or {}).get("phase"),
        "runs": {
            run["role"]: (run["generation"], run["checkpoint"], run["outputs"])
            for run in status.get("runs", ())
        },
        "outputs": [each["topic"] for each in status.get("outputs", ())],
        "checkpoint": status.get("checkpoint"),
        "alive": life.node.count_alive(),
        "topics": sorted(
            body["metadata"]["name"] for body in life.operator.cluster.find(API_VERSION, "Topic")
        ),
    }
