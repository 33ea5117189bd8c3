"""The state and progress of a driver. Supervision and listener write it, the control server reads it."""

import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from kappa_crds.progress import (
    DriverExit,
    DriverRole,
    DriverState,
    Progress,
    QueryProgress,
    SourceProgress,
)
from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets, parse_kafka_offsets
from kappa_pipelines.reporting.progress import Reads, build_recovery, fold_event, measure_load, with_latest

NO_BATCH = -1  # the batch id of a query without a finished batch in this driver


class DriverRecord:
    """The driver's state and the progress of its queries. Every method is thread-safe."""

    def __init__(self, revision: Revision, generation: int) -> None:
        self._lock = threading.Lock()
        self._progress = Progress(
            namespace=revision.namespace,
            pipeline=revision.pipeline,
            revision=revision.name,
            generation=generation,
            state=DriverState.STARTING,
            started_at=datetime.now(UTC),
        )
        self._queries: dict[str, QueryProgress] = {}
        self._reads: dict[str, Reads] = {}
        self._committed: dict[tuple[str, str], Offsets] = {}
        self._seen: set[str] = set()
        self._firsts: dict[str, tuple[QueryProgress, float]] = {}
        self._since, self._warm = self._progress.started_at, False

    def set_reads(self, reads: dict[str, Reads]) -> None:
        """Set the sources that each sink's query reads, once for each scan."""
        with self._lock:
            self._reads = reads

    def set_committed(self, sink: str, offsets: dict[str, Offsets]) -> None:
        """Set the committed offsets of a sink by source, from its checkpoint."""
        with self._lock:
            self._committed |= {(sink, source): at for source, at in offsets.items()}

    def set_state(self, state: DriverState, error: DriverExit | None = None) -> None:
        """Set the state; the first time of Running is stored."""
        update: dict[str, object] = {"state": state}
        if error is not None:
            update["error"] = error
        with self._lock:
            if state is DriverState.RUNNING and self._progress.running_since is None:
                now = datetime.now(UTC)
                recovery = build_recovery(self._since, now, self._firsts.values(), warm=self._warm)
                update |= {"running_since": now, "recovery": recovery}
            self._progress = self._progress.model_copy(update=update)

    def take_over(self) -> None:
        """Start the recovery of a standby driver: its preparation does not count."""
        with self._lock:
            self._since, self._warm = datetime.now(UTC), True
        self.set_state(DriverState.STARTING)

    def update(self, **fields: object) -> None:
        """Set fields of the progress: the verdict on the state, counts outside the queries, the role, the hold."""
        with self._lock:
            self._progress = self._progress.model_copy(update=fields)

    def add_started(self, sink: str, query_id: str, run_id: str, offsets: dict[str, Offsets]) -> None:
        """Add a query that has started at these offsets, so that its lag is visible before its first batch ends."""
        with self._lock:
            sources = tuple(
                _at(name, str(subscription), offsets[name])
                for name, subscription in dict.fromkeys(self._reads.get(sink, ()))
                if name in offsets
            )
            started = QueryProgress(
                sink=sink,
                query_id=query_id,
                run_id=run_id,
                batch_id=NO_BATCH,
                timestamp=datetime.now(UTC),
                sources=sources,
            )
            self._queries.setdefault(sink, started)

    def add_event(self, event: dict[str, Any], sink: str) -> QueryProgress:
        """Add a progress event of a sink's query and return the query's progress."""
        with self._lock:
            folded = fold_event(self._queries.get(sink), event, self._reads.get(sink, ()))
            self._queries[sink] = folded
            self._firsts.setdefault(sink, (folded, measure_load(event)))
            self._committed |= {
                (sink, source.name): parse_kafka_offsets(source.end_offsets) for source in folded.sources
            }
            self._seen.add(sink)
        return folded

    def add_ready(self, sink: str) -> None:
        """Record that a query has no new records, or processes its first batch."""
        with self._lock:
            self._seen.add(sink)

    def is_ready(self) -> bool:
        """Return whether each query has committed a batch, processes a long one, or has no new records."""
        with self._lock:
            return bool(self._reads) and self._reads.keys() <= self._seen

    @property
    def state(self) -> DriverState:
        """Return the driver's state."""
        return self._progress.state

    def is_active(self) -> bool:
        """Return whether the driver is the active one of its pipeline."""
        return self._progress.role is DriverRole.ACTIVE

    def positions(self) -> Iterable[Offsets]:
        """Return the committed offsets of each query in each of its present sources."""
        with self._lock:
            read = {(sink, source) for sink, reads in self._reads.items() for source, _ in reads}
            return [at for pair, at in self._committed.items() if pair in read]

    def snapshot(self, ends: Offsets) -> Progress:
        """Return the progress, with the lag relative to the last known log ends."""
        with self._lock:
            queries = tuple(
                with_latest(query, ends, self._reads.get(sink, ())) for sink, query in self._queries.items()
            )
            return self._progress.model_copy(update={"queries": queries, "reported_at": datetime.now(UTC)})


def _at(name: str, topic: str, offsets: Offsets) -> SourceProgress:
    """Return the progress of a source before its first batch."""
    nested = nest_offsets(offsets)
    return SourceProgress(name=name, topic=topic, start_offsets=nested, end_offsets=nested)
