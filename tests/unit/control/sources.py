"""A source, its Kafka Connect and its database in memory: what tests about CDCSources share."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fakes.cluster import Body
from fakes.connect import FakeConnect
from fakes.context import Operator, build_resource, build_secret
from fakes.fuse import Killed
from kappa_crds.cdcsource import BINLOG_SAFE
from kappa_crds.cdcsource_proof import ProofResult
from kappa_crds.cdcsource_status import SlotStatus, TableRange
from kappa_crds.quantities import format_size
from kappa_operator.cdc.address import DatabaseKind
from kappa_operator.cdc.facts import BinaryLog, MySQLFacts
from kappa_operator.cdc.outcome import judge
from kappa_operator.cdc.proof_work import ProofRequest
from kappa_operator.cdc.shapes import compute_fingerprint, pack
from kappa_operator.cdc.work import DatabaseRequest, DatabaseResult, DatabaseTask
from kappa_operator.cdcsource.pods import REQUEST_ANNOTATION
from kappa_operator.cdcsource.proof_pods import PROOF, TASK_LABEL
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.settings import Settings

CLUSTER = Key("KafkaCluster", "shop", "main")
SOURCE = Key("CDCSource", "shop", "orders")
REF = ObjectRef("kappa-platform.io/v1alpha1", *SOURCE)
SECRET = ObjectRef("v1", "Secret", "shop", "main-connect-sources")
LOGIN = ObjectRef("v1", "Secret", "shop", "login")
SPEC: dict[str, Any] = {
    "clusterRef": "main",
    "postgresql": {"host": "db.example", "database": "shop", "credentialsSecretRef": {"name": "login"}},
    "tables": {"include": ["public.*"]},
}
MARIADB: dict[str, Any] = {
    "postgresql": None,
    "mariadb": {"host": "db.example", "serverId": 7, "credentialsSecretRef": {"name": "login"}},
    "tables": {"include": ["shop.*"]},
}
"""What to write in place of PostgreSQL."""
SETTINGS = Settings(network_policies="{}", allow_clear_text=("*",), connect_hosts=("connect",))
ROUNDS = 80
Change = Callable[["Shop"], None]


class Shop:
    """The operator, workers of Kafka Connect, and a kubelet that runs the pods in the database.

    `answer` changes what a check finds, `log` is the binary log of MariaDB, whose files have `gtids_at` a mark in place of what is expected, `variables` are those of its server, `drop_problem` is why nothing can be dropped until `back_at`, and `is_slow` keeps pods from ending. `most_connectors` is the highest number at the same time.
    """

    def __init__(self) -> None:
        self.operator = Operator(KIND_TABLE, settings=SETTINGS)
        self.answer: dict[str, Any] = {}
        self.drop_problem = ""
        self.back_at = datetime.max.replace(tzinfo=UTC)
        self.proof: dict[str, Any] = {}
        self.shape: dict[str, Any] = {"public.orders": (("id", "bigint", True), ("item", "text", False))}
        self.signal_answer: dict[str, Any] = {}
        self.is_slow = False
        self.is_proof_slow = False
        self.system = "sys-1"
        self.retained, self.safe = 10, 2**40
        self.shrinks_to: int | None = None
        self.most_connectors = 0
        self.most_proofs = 0
        self.proofs: list[ProofRequest] = []
        self.requests: list[DatabaseRequest] = []
        self.log = BinaryLog("binlog.000001", "binlog.000003", 900, "0-1-900", 4096)
        self.gtids_at: dict[str, str | None] = {}
        self.variables: dict[str, str] = {}

    @property
    def connect(self) -> FakeConnect:
        """Return Kafka Connect."""
        return self.operator.connect

    @property
    def slot(self) -> str:
        """Return the only slot of the database."""
        (name,) = self.connect.database.slots
        return name

    async def prepare(self, **spec: Any) -> None:
        """Have a KafkaCluster with Kafka Connect, a log-in, and a source."""
        cluster = self.operator.cluster
        existing = {"existing": {"url": "http://connect:8083"}}
        body = build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"], connect=existing)
        cluster.put(body)
        cluster.put(build_secret("login", username="reader", password="geheim"))
        await self.operator.settle(CLUSTER)
        self.set_connect(url="http://connect:8083")
        self.write(**spec)

    def set_connect(self, **status: Any) -> None:
        """Have the KafkaCluster report Kafka Connect."""
        ref = ObjectRef("kappa-platform.io/v1alpha1", *CLUSTER)
        self.operator.cluster.patch(ref, status={"connect": status})

    def write(self, **spec: Any) -> None:
        """Apply the source with these fields changed."""
        fields = {name: value for name, value in {**SPEC, **spec}.items() if value is not None}
        self.operator.cluster.put(build_resource("CDCSource", "orders", **fields))

    async def run(self, seconds: float = 0.0) -> None:
        """Let operator, workers and kubelet take turns until nothing changes, then for so many seconds more."""
        until = self.operator.clock().timestamp() + seconds
        quiet = 0
        for _ in range(ROUNDS + round(seconds)):
            before = self.operator.cluster.fuse.writes
            try:
                outcome = await self.operator.reconcile(SOURCE)
            except Killed:
                self.operator = self.operator.restart()
                quiet = 0
                continue
            moved = self.work() or self.operator.cluster.fuse.writes != before
            self.most_connectors = max(self.most_connectors, len(self.connect.connectors))
            self.most_proofs = max(self.most_proofs, len(self.list_proof_pods()))
            quiet = 0 if moved else quiet + 1
            if quiet >= 2 and self.operator.clock().timestamp() >= until:
                return
            self.operator.clock.advance(min(outcome.requeue_after or 1.0, 15.0))
        raise AssertionError(f"the source does not come to rest: {self.operator.get(SOURCE)}")

    def work(self) -> bool:
        """Let the workers and the kubelet do what is to be done."""
        ended = [self._end(pod) for pod in self.operator.cluster.find("v1", "Pod", "shop")]
        return self.connect.step() or any(ended)

    def fork(self) -> "Shop":
        """Return a copy of all that is outside the operator, with one that has just started: the operator died at this moment."""
        forked = copy.copy(self)
        forked.operator = self.operator.restart_on(copy.deepcopy(self.operator.share()))
        forked.operator.cluster.fuse.on_write = None
        forked.requests, forked.proofs = list(self.requests), list(self.proofs)
        return forked

    def _end(self, pod: Body) -> bool:
        if self.is_slow or "phase" in pod.get("status", {}):
            return False
        if pod["metadata"]["labels"].get(TASK_LABEL) == PROOF:
            return not self.is_proof_slow and self._end_proof(pod)
        request = DatabaseRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
        self.requests.append(request)
        answers = {
            DatabaseTask.DROP: self._drop,
            DatabaseTask.DROP_OUTGROWN: self._drop,
            DatabaseTask.SIGNAL: self._signal,
            DatabaseTask.CHECK: self._check,
        }
        result = answers[request.task](request)
        return self._answer(pod, result)

    def _end_proof(self, pod: Body) -> bool:
        self.proofs.append(
            ProofRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
        )
        equal = {"tables": 3, "equal": 3, "rows": 1200, "position": "0/1A2B", "at": self.operator.clock()}
        return self._answer(pod, ProofResult(**{**equal, **self.proof}))

    def _answer(self, pod: Body, result: DatabaseResult | ProofResult) -> bool:
        message = result.model_dump_json(by_alias=True, exclude_none=True)
        ended = {"exitCode": 1 if result.problem else 0, "message": message}
        status = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": ended}}]}
        self.operator.cluster.patch(ObjectRef.of(pod), status=status)
        return True

    def _check(self, request: DatabaseRequest) -> DatabaseResult:
        confirmed = self.connect.database.slots.get(request.slot)
        slot = None
        if confirmed is not None:
            slot = SlotStatus(name=request.slot, system=self.system, timeline=1, confirmed=confirmed, retained_bytes=self.retained, safe_bytes=self.safe, retained=format_size(self.retained))  # fmt: skip
        fields = {
            "tables": 3,
            "system": self.system,
            "slot": slot,
            "columns": pack(self.shape),
            "fingerprint": compute_fingerprint(self.shape),
        }
        if request.kind is DatabaseKind.MYSQL:
            found = judge(self._build_facts(request), request)
            fields |= {"binlog": found.binlog, "asked": found.asked}
        return DatabaseResult(**{**fields, **self.answer})

    def _build_facts(self, request: DatabaseRequest) -> MySQLFacts:
        """Return a server whose log has what the marks expect, but for `gtids_at`."""
        marks = tuple(self.gtids_at.get(each.file, each.gtids) for each in request.marks)
        return MySQLFacts((10, 11), True, ("reader", "%"), "", self.variables, log=replace(self.log, marks=marks))  # fmt: skip

    def _signal(self, request: DatabaseRequest) -> DatabaseResult:
        signal = request.signal
        assert signal is not None
        if self.signal_answer:
            return DatabaseResult(**self.signal_answer)
        self.connect.database.write_signal(signal.id, signal.type, signal.data)
        ranges = tuple(
            TableRange(table=f"{each.schema_name}.{each.name}", rows=1000, first=1, last=1000)
            for each in signal.tables
        )
        return DatabaseResult(ranges=ranges, position=self.connect.database.end)

    def _drop(self, request: DatabaseRequest) -> DatabaseResult:
        if self.drop_problem and self.operator.clock() < self.back_at:
            return DatabaseResult(problem=self.drop_problem)
        if self.shrinks_to is not None:
            self.retained = self.shrinks_to
        if request.least_retained > self.retained:
            return DatabaseResult()
        database = self.connect.database
        dropped = [f"slot {request.slot}"] if database.slots.pop(request.slot, None) is not None else []
        if request.drop_publication and request.publication in database.publications:
            database.publications.remove(request.publication)
            dropped.append(f"publication {request.publication}")
        return DatabaseResult(dropped=tuple(dropped))

    def list_proof_pods(self) -> list[Body]:
        """Return the pods of proofs."""
        pods = self.operator.cluster.find("v1", "Pod", "shop")
        return [each for each in pods if each["metadata"]["labels"].get(TASK_LABEL) == PROOF]

    def get_status(self) -> dict[str, Any]:
        """Return the status of the source."""
        status: dict[str, Any] = (self.operator.get(SOURCE) or {}).get("status", {})
        return status

    def describe_end(self) -> dict[str, Any]:
        """Return what there is in the end, without times."""
        cluster, database = self.operator.cluster, self.connect.database
        body = self.operator.get(SOURCE)
        status = self.get_status()
        kept = {name: status.get(name) for name in ("state", "slot", "lost", "tables", "snapshotRequest")}
        kept["slot"] = {**(kept["slot"] or {}), "confirmed": None}  # it depends on when the last check was
        kept["incremental"] = _leave_out_times(status.get("incremental"))
        kept["offsets"] = _leave_out_times(status.get("offsets"))
        found = [(c["type"], c["status"], c["reason"]) for c in status.get("conditions", [])]
        # It begins with the check after a snapshot.
        conditions = [each for each in found if each[0] != BINLOG_SAFE]
        proof = status.get("proof") or {}
        return {
            "proven": (len(proof.get("history", [])), (proof.get("last") or {}).get("rows")),
            "connectors": {name: (each.config, each.state, each.task) for name, each in self.connect.connectors.items()},
            "positions": self.connect.positions,
            "snapshots": self.connect.snapshots,
            "signals": list(database.signals.values()),
            "slots": database.slots,
            "created": database.created_slots,
            "publications": sorted(database.publications),
            "pods": [pod["metadata"]["name"] for pod in cluster.find("v1", "Pod")],
            "secret": (cluster.read(SECRET) or {}).get("data"),
            "finalizers": body and body["metadata"].get("finalizers"),
            "status": (kept, conditions),
        }  # fmt: skip


def _leave_out_times(status: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a part of the status without times and the numbers of pods."""
    times = ("begun", "ended", "at", "message", "signal", "position", "remaining")
    return None if status is None else {name: value for name, value in status.items() if name not in times}


async def start(**spec: Any) -> Shop:
    """Return a source that runs."""
    shop = Shop()
    await shop.prepare(**spec)
    await shop.run()
    return shop


def dump(value: Any) -> str:
    """Return a value as text, to search it."""
    return json.dumps(value, default=str)
