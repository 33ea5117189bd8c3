"""A pipeline, the topic that it reads, and a LagPolicy with remediations over them, on fakes: the scene of the tests of remediations."""

from typing import Any

from fakes.cluster import Body
from fakes.context import Operator, build_resource
from fakes.fuse import Killed
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.topic.retention import name_hold

CLUSTER = Key("KafkaCluster", "shop", "main")
POLICY = Key("LagPolicy", "shop", "gold")
PIPELINE = ObjectRef(API_VERSION, "Pipeline", "shop", "delays")
TOPIC = Key("Topic", "shop", "in")
PAIR = GroupPartition("kappa.shop.delays", Partition("in", 0))
BASE: dict[str, Any] = {
    "selector": {"pipelines": {"names": ["delays"]}},
    "warning": {"lag": "60s", "timeToLoss": "10m"},
}

HOLD = name_hold("lagpolicy.gold")


class Shop:
    """A pipeline that takes `each` records a second with each executor, the topic that it reads, a policy, and operators over them."""

    def __init__(self, spec: dict[str, Any], **pipeline: Any) -> None:
        self.operator = Operator(KIND_TABLE)
        put = self.operator.cluster.put
        put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
        put(
            build_resource(
                "Pipeline",
                "delays",
                **{"sources": [], "sinks": [], "resources": {"executors": {"count": 1}}, **pipeline},
            )
        )
        put(build_resource("Topic", "in", retention={"time": "30m"}))
        put(build_resource("LagPolicy", "gold", **spec))
        self.each = 100.0
        self.committed = self.end = 0
        self.loss: float | None = None
        self.takes = False
        self.overhead = 0.0
        self.seen: list[int] = []
        self.run_as_asked()

    @property
    def pipeline(self) -> Body:
        return self.operator.cluster.read(PIPELINE) or {}

    @property
    def executors(self) -> int:
        count: int = self.pipeline["spec"]["resources"]["executors"]["count"]
        return count

    @property
    def rate(self) -> float:
        """Return the records a second that are taken while more wait: those of full batches, each of which takes `overhead` seconds more."""
        rate, size = self.executors * self.each, self.batch_limit
        return rate if size is None or rate == 0 else size / (self.overhead + size / rate)

    @property
    def batch_limit(self) -> int | None:
        found: int | None = self.pipeline["spec"].get("trigger", {}).get("maxRecords")
        return found

    @property
    def hold(self) -> str:
        body = self.operator.get(TOPIC) or {}
        found: str = body["metadata"].get("annotations", {}).get(HOLD, "")
        return found

    @property
    def remediation(self) -> list[Body]:
        body = self.operator.get(POLICY) or {}
        found: list[Body] = body.get("status", {}).get("remediations", [])
        return found

    @property
    def savepoints(self) -> list[Body]:
        return self.operator.cluster.find(API_VERSION, "Savepoint")

    def take_savepoints(self, **status: Any) -> None:
        """Let the status of all savepoints say that they were taken, or something else."""
        taken = status or {"state": "Ready", "taken": "2026-01-01T00:00:00Z"}
        for each in self.savepoints:
            self.operator.cluster.patch(ObjectRef.of(each), status=taken)

    def run_as_asked(self) -> None:
        """Let the pipeline's status say that it runs as its spec asks, and savepoints be taken where they are."""
        if self.takes:
            self.take_savepoints()
        status = {
            "state": "Running",
            "executors": self.executors,
            "observedGeneration": self.pipeline["metadata"]["generation"],
        }
        self.operator.cluster.patch(PIPELINE, status=status)

    async def run(self, seconds: float, rate: float, *, behind: float | None = None) -> None:
        """Let records come at a rate, look every ten seconds, and live on after each death. Behind is by the records, where not given."""
        for _ in range(int(seconds / 10)):
            self.operator.clock.advance(10)
            self.end += round(rate * 10)
            self.committed = min(self.end, self.committed + round(self.rate * 10))
            waits = self.end - self.committed
            age = behind if behind is not None else waits / max(rate, 1.0)
            at = self.operator.clock.time
            sample = Sample(
                at,
                PartitionLog(0, self.end, self.end),
                self.committed,
                age if waits else 0.0,
                self.loss if waits else None,
            )
            self.operator.lag.samples[CLUSTER] = ClusterSample(at, 0.1, samples={PAIR: sample})
            await self.look()
            self.run_as_asked()
            self.seen.append(self.executors)

    async def look(self) -> None:
        """Reconcile until the operator lives through it."""
        while True:
            try:
                await self.operator.reconcile(POLICY)
            except Killed:
                self.operator = self.operator.restart()
                continue
            return

    def list_changes(self) -> list[int]:
        return [
            now for before, now in zip([self.seen[0], *self.seen], self.seen, strict=False) if now != before
        ]
