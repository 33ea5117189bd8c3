"""The collectors that the operator and drivers really have, filled with data, on a port of the loopback for Prometheus."""

import time
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from prometheus_client import REGISTRY, CollectorRegistry, start_http_server

from fakes.context import build_resource
from kappa_crds.progress import (
    DriverState,
    Progress,
    QueryProgress,
    Recovery,
    SavepointProgress,
    SourceProgress,
)
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lag.exposition import LagCollector
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.telemetry import metrics
from kappa_operator.telemetry.resource_metrics import ResourceCollector
from kappa_pipelines.reporting.metrics import Counts, DriverCollector
from lab.broker import free_ports
from unit.control.pipelines import SPEC

NAMESPACE, PIPELINE, CLUSTER, TOPIC, GROUP = "shop", "orders", "shop/main", "orders", "billing"
HOLDS = {
    "checkpoints": 1, "checkpointBytes": 4096, "savepoints": 2, "savepointObjects": 20, "savepointBytes": 2048,
    "oldestSavepoint": "2026-01-01T00:00:00Z", "newestSavepoint": "2026-01-02T00:00:00Z",
}  # fmt: skip
MEASUREMENT = {"at": "2026-01-02T00:00:00Z", "state": "Done", "number": 1, "holds": HOLDS}

_SOURCE = {
    "postgresql": {"host": "db", "database": "shop", "credentialsSecretRef": {"name": "login"}},
    "tables": {"include": ["public.*"]}, "proof": {"schedule": "0 3 * * *"},
}  # fmt: skip
_PROOF = {
    "tables": 3, "equal": 2, "rows": 1200, "differing": 1, "position": "0/1", "at": "2026-01-01T03:00:00Z", "seconds": 3.5,
    "began": "2026-01-01T03:00:00Z", "ended": "2026-01-01T03:00:05Z",
}  # fmt: skip
_REPROCESSING_STATUS = {
    "phase": "ReadyToCut", "since": "2026-01-01T12:00:00Z", "started": "2026-01-01T12:00:00Z", "conditions": [],
    "catchUp": {"lag": 7, "recordsPerSecond": 5, "partitions": [{"topic": TOPIC, "partition": 0, "offset": 3, "end": 10, "etaSeconds": 2}]},
    "comparison": {"cut": {"inputs": [], "taken": "2026-01-01T12:00:00Z"}, "unexpected": 1, "sinks": [{"sink": "log", "summary": {"changed": 1}}]},
}  # fmt: skip
_ARCHIVE_STATUS: dict[str, Any] = {
    "number": 2, "state": "Done", "at": "2026-01-02T00:00:00Z", "topicId": "t", "store": "main", "since": "2026-01-01T00:00:00Z",
    "complete": "2026-01-02T00:00:00Z", "behind": 7, "segments": 2, "sizeBytes": 4096, "lost": "offsets 0 to 3 of partition 0",
}  # fmt: skip
_SOURCE_STATUS: dict[str, Any] = {
    "state": "Running", "topicPrefix": "shop", "tables": 3, "lastCheck": "2026-01-01T00:00:00Z",
    "conditions": [
        {"type": name, "status": "True", "reason": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name in ("Ready", "DatabaseReady", "SlotSafe", "BinlogSafe", "Snapshotting", "Proven")
    ],
    "slot": {"name": "kappa", "retainedBytes": 2**30},
    "log": {"bytesPerSecond": 1e6, "remainingBytes": 2**31, "secondsLeft": 2147.0},
    "binlog": {"oldest": "binlog.000001", "retentionSeconds": 864_000, "storedUntil": "2026-01-01T00:00:00Z"},
    "proof": {"last": _PROOF, "proven": "2026-01-01T03:00:00Z"},
}  # fmt: skip


def say_ready(status: str = "True", reason: str = "Ready") -> list[dict[str, str]]:
    return [
        {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]


class Exporter:
    """A context manager. `behind` is the age in seconds of what the group has still to read; counters grow with time."""

    def __init__(self) -> None:
        self.behind = 0.0
        self.port = free_ports(1)[0]
        self._began = time.monotonic()
        self._mirror = ResourceCache(KIND_TABLE)
        self._version = 0

    def __enter__(self) -> Self:
        self._fill()
        registry = CollectorRegistry()
        for collector in (
            DriverCollector(self._progress, Counts, time.time),
            ResourceCollector(self._mirror, lambda: True),
            LagCollector(self._sweeps, 1000),
        ):
            registry.register(collector)
        self._server, self._thread = start_http_server(self.port, "127.0.0.1", registry)
        self.operator_port = free_ports(1)[0]
        self._operator, self._operator_thread = start_http_server(self.operator_port, "127.0.0.1", REGISTRY)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server, thread in ((self._server, self._thread), (self._operator, self._operator_thread)):
            server.shutdown()
            server.server_close()
            thread.join()

    @property
    def _passed(self) -> int:
        """Tenths of seconds since the start: what counters count."""
        return int((time.monotonic() - self._began) * 10)

    def _show(self, kind: str, name: str, status: dict[str, Any], **spec: Any) -> dict[str, Any]:
        self._version += 1
        body = {**build_resource(kind, name, NAMESPACE, **spec), "status": status}
        body["metadata"] |= {"resourceVersion": str(self._version), "generation": 1, "uid": name}
        self._mirror.put(body)
        return body

    def _fill(self) -> None:
        new = {"checkpoint": 1, "insteadOf": 0, "fromBeginning": ["events"]}
        verdict = {"kind": "Reprocess", "reasons": ["another key"]}
        upgrade = {
            "phase": "Watching", "mode": "Reprocess", "revision": "r", "verdict": verdict, "newCheckpoint": new, "since": "2026-01-02T00:00:00Z",
        }  # fmt: skip
        running = {
            "state": "Running",
            "guarantee": "at least once",
            "conditions": say_ready(),
            "upgrade": upgrade,
        }
        policy = {"schedule": "0 3 * * *"}
        self._show("Pipeline", PIPELINE, running, **SPEC, trigger={"interval": "10s"}, savepoints=policy)
        self._show(
            "Savepoint", "good", {"state": "Ready", "taken": "2026-01-02T00:00:00Z"}, pipelineRef=PIPELINE
        )
        damaged = {"state": "Damaged", "conditions": say_ready("False", "SavepointDamaged")}
        self._show("Savepoint", "bad", damaged, pipelineRef=PIPELINE)
        seen = {
            "brokers": 3,
            "topics": 9,
            "lastSeen": datetime.now(UTC).isoformat(),
            "conditions": say_ready(),
        }
        self._show("KafkaCluster", "main", seen, bootstrapServers=["kafka:9092"])
        held = {"conditions": say_ready(), "lastCheck": "2026-01-02T00:00:00Z", "freeBytes": 10**12}
        spec = {"pvc": {"size": "1Gi"}, "measureInterval": "1h"}
        self._show("StateStore", "main", {**held, "measurement": MEASUREMENT}, **spec)
        selector = {"selector": {"groups": [GROUP]}, "warning": {"lag": "1m"}}
        judged = [*say_ready(), {**say_ready()[0], "type": "LagHealthy"}]
        self._show("LagPolicy", "gold", {"conditions": judged}, **selector)
        self._show("CDCSource", "shop", _SOURCE_STATUS, **_SOURCE)
        self._show("Reprocessing", f"{PIPELINE}-1", _REPROCESSING_STATUS, pipelineRef=PIPELINE)
        archived = {"archive": _ARCHIVE_STATUS, "conditions": say_ready()}
        self._show("Topic", TOPIC, archived, archive={"stateStoreRef": "main"})
        metrics.LEADING.set(1)
        metrics.LAST_RESYNC.set_to_current_time()
        for outcome in ("ok", "failed"):
            metrics.RECONCILES.labels("Pipeline", outcome).inc()
        metrics.RECONCILE_SECONDS.labels("Pipeline").observe(0.1)
        metrics.EVENTS.labels("Pipeline").inc()

    def _progress(self) -> Progress:
        metrics.RECONCILE_SECONDS.labels("Pipeline").observe(0.1)
        now, count = datetime.now(UTC), self._passed
        source = SourceProgress(
            name="events", topic=TOPIC, end_offsets={TOPIC: {0: 90}}, latest_offsets={TOPIC: {0: 100}}
        )
        query = QueryProgress(
            sink="log", query_id="q", run_id="r", batch_id=count, timestamp=now, input_rows=10, duration_ms={"triggerExecution": 900},
            watermark=now - timedelta(minutes=1), state_rows=5, state_bytes=500, total_input_rows=count, total_late_rows=0, total_written_rows=count,
            sources=(source,),
        )  # fmt: skip
        taken = SavepointProgress(name="good", location="file:///s", done=True, taken=now, size_bytes=2048)
        return Progress(
            namespace=NAMESPACE, pipeline=PIPELINE, revision="r", generation=1, state=DriverState.RUNNING, started_at=now,
            running_since=now - timedelta(hours=1), executors=2, queries=(query,), savepoints=(taken,),
            recovery=Recovery(since=now, seconds=20, prepare_seconds=10),
        )  # fmt: skip

    def _sweeps(self) -> list[tuple[str, ClusterSample]]:
        now, end = datetime.now(UTC), 1000 + self._passed
        partition, log = Partition(TOPIC, 0), PartitionLog(0, end, end)
        waiting = 100 if self.behind else 0
        sample = Sample(now, log, end - waiting, behind=self.behind, loss=1e6)
        sampled = ClusterSample(
            now,
            0.1,
            frozenset({GROUP}),
            {partition: log},
            {GroupPartition(GROUP, partition): sample},
            written={TOPIC: self._passed},
        )
        return [(CLUSTER, sampled)]
