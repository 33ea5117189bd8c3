"""Starts the queries of a driver, supervises them, and stops them at a committed batch.

The order matters: dead letters resume at their position before a query starts, and the last positions are written after the last
batch is committed.
"""

import threading
import time
from dataclasses import replace

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from kappa_crds.progress import DriverExit, DriverState, QueryProgress
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.format.offsets import (
    Malformed,
    Offsets,
    read_committed_offsets,
    read_planned_offsets,
)
from kappa_pipelines.driver.archive import has_read
from kappa_pipelines.driver.batch_bounds import BatchBounds
from kappa_pipelines.driver.bound import QueryBound
from kappa_pipelines.driver.executors import Scaling, find_refusal
from kappa_pipelines.driver.hold import HoldContext, Holding
from kappa_pipelines.driver.prepare import Running
from kappa_pipelines.driver.replay import Replay, find_since
from kappa_pipelines.driver.session import count_executors
from kappa_pipelines.driver.stop import stop_gracefully
from kappa_pipelines.driver.transactions.build import build_gate
from kappa_pipelines.errors import DriverError, FencedError, UnavailableError
from kappa_pipelines.executors import find_executors
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.diagnose import explain_query
from kappa_pipelines.failures.exceptions import read_failure
from kappa_pipelines.plan.compile import CompiledSink
from kappa_pipelines.plan.realtime import check_growth
from kappa_pipelines.reporting.listener import ProgressListener
from kappa_pipelines.reporting.metrics import Counts
from kappa_pipelines.reporting.record import DriverRecord
from kappa_pipelines.sources.kafka import find_first_records, is_timed
from kappa_pipelines.sources.schema_ids import remember_unknown_ids

_TICK_SECONDS = 0.2
_BOUND_TICK_SECONDS = 0.05  # readers wait for the cutover, and a replay for its next slice
_CHECK_SECONDS = 1.0
_EVENTS_MILLISECONDS = 10_000
_FAILED_STOP_SECONDS = 30.0

log = structlog.get_logger()


class Supervision:
    """Supervises the queries of a driver that has acquired its checkpoint."""

    def __init__(
        self,
        revision: Revision,
        running: Running,
        record: DriverRecord,
        topics: dict[str, int],
        stopping: threading.Event,
        *,
        replay: Replay,
        scaling: Scaling,
    ) -> None:
        self.running = running
        self._revision = revision
        self._record = record
        self._topics = topics
        self._stopping = stopping
        self._listener = ProgressListener(record, self._on_batch, self._on_start)
        self._gate = build_gate(revision, running.compiled)
        self._replay = replay
        self._scaling = scaling
        self._bounds = BatchBounds(running.fence.files, revision.content, find_first_records(revision))
        self.holding = Holding(_build_hold_context(revision, running, record))

    @property
    def ends(self) -> Offsets:
        """Return the last known ends of the source topics."""
        return self.running.kafka.ends

    def counts(self) -> Counts:
        """Return the counters outside the queries."""
        counts = self.running.side_outputs.count(group_commit_errors=self.running.kafka.errors)
        return replace(counts, divided_transactions=self._gate.divided)

    def start(self) -> None:
        """Start side outputs, listener, consumer group and all queries."""
        running, committed = self.running, self._read_committed()
        self._bounds.read()
        self._record.update(replaying=self._replay.is_active or bool(running.archives))
        running.side_outputs.start(committed)
        running.spark.streams.addListener(self._listener)
        running.kafka.start()
        for compiled in running.compiled.sinks:
            if self._stopping.is_set():
                return
            self._start_query(compiled, committed[compiled.sink.name])
        log.info("queries started", sinks=sorted(running.queries))

    def _read_committed(self) -> dict[str, dict[str, Offsets]]:
        """Return the committed offsets of each sink by source, and record them."""
        files, sinks = self.running.fence.files, self.running.compiled.reads
        committed = {sink: read_committed_offsets(files, sink) for sink in sinks}
        for sink, offsets in committed.items():
            self._record.set_committed(sink, offsets)
        return committed

    def _start_query(self, compiled: CompiledSink, committed: dict[str, Offsets]) -> None:
        sink = compiled.sink.name
        if sink in self._gate.reads:
            self._gate.expect(sink, self._find_begin(sink))
        try:
            query = compiled.writer.start()
        except PySparkException as error:
            raise classify(read_failure(error), f"sink {sink!r}") from error
        self.running.queries[sink] = query
        self._gate.check(sink)
        begin = {name: committed.get(name) or self._find_initial(name) for name in compiled.sources}
        known = {name: offsets for name, offsets in begin.items() if offsets}
        self._record.add_started(sink, str(query.id), str(query.runId), known)

    def _find_begin(self, sink: str) -> dict[str, Offsets]:
        """Return where the sources that are read by transactions begin: after the planned batch, or at their first records."""
        planned = read_planned_offsets(self.running.fence.files, sink)
        return {name: planned.get(name) or self._find_initial(name) for name in self._gate.reads[sink]}

    def _find_initial(self, source: str) -> Offsets:
        """Return the initial offsets of a new query, if they are known without Spark."""
        archived = self.running.archives.get(source)
        if archived is not None:
            return {(archived.topic, part): begin for part, begin in archived.begins.items()}
        found, start = self.running.compiled.sources[source], self._replay.profile.start
        if start is not None:
            return find_since(self.running.kafka, found.subscription, start)
        is_earliest = found.spec.starting_offsets == "earliest"
        return self.running.kafka.first_offsets(found.subscription) if is_earliest else {}

    def _on_start(self, sink: str, query: str) -> None:
        """Bound a query before its first batch; called in its thread."""
        known = self._bounds.find(sink) if is_timed(self._revision) else None
        if sink not in self._gate.reads and known is None:
            return
        found = self.running.spark.streams.get(query)
        if found is None:
            return
        bound = QueryBound(found, self.running.spark._jvm)
        if known is not None:
            bound.limit_first(known)
        if sink in self._gate.reads:
            self._gate.begin(sink, bound)

    def _on_batch(self, progress: QueryProgress, malformed: dict[str, Malformed | None]) -> None:
        self._bounds.note(progress)
        self.running.idleness.note(progress)
        self.running.side_outputs.note(progress, malformed)

    def watch(self) -> None:
        """Return when a stop is requested, or at the seam; DriverError if a query ends or a check fails."""
        next_check = 0.0
        is_real_time = self._revision.spec.trigger.real_time is not None
        while not self._stopping.wait(self._tick):
            for sink, query in self.running.queries.items():
                if not query.isActive:
                    raise self._explain(sink, query)
                # In real time a batch takes long, so a query is ready after its first batch has started.
                if is_real_time and query.status["isTriggerActive"] and query.status["isDataAvailable"]:
                    self._record.add_ready(sink)
            if self._record.state is DriverState.STARTING and self._record.is_ready():
                self._record.set_state(DriverState.RUNNING)
                log.info("running")
            if self._replay.is_active:
                self._follow_replay()
            self._scaling.step(replays=self._replay.is_long or bool(self.running.archives))
            if self.holding.is_wanted:
                self.holding.step(self._find_bounds)
                self._gate.interrupt()
            elif self._gate and self.running.queries:
                self._gate.step(self._find_bounds())
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + _CHECK_SECONDS
                self._check()
                if self.is_at_seam():
                    return

    def is_at_seam(self) -> bool:
        """Return whether there are archives, and all queries have committed what they read of them."""
        archives = self.running.archives
        return bool(archives) and all(
            has_read(archives[name], read_committed_offsets(self.running.fence.files, sink).get(name))
            for sink, names in self.running.compiled.reads.items()
            for name in names
            if name in archives
        )

    def leave(self) -> None:
        """Stop the queries at the seam, and end all threads. The next supervision continues their checkpoints."""
        stop_gracefully(list(self.running.queries.values()), _FAILED_STOP_SECONDS)
        self._finish(_FAILED_STOP_SECONDS)
        self.release()
        log.info("the archives are read up to their seams")

    @property
    def _tick(self) -> float:
        is_replayed = self._replay.is_active or self._scaling.is_lowering
        is_followed = self.holding.is_wanted or is_replayed or bool(self._gate)
        return _BOUND_TICK_SECONDS if is_followed else _TICK_SECONDS

    def _follow_replay(self) -> None:
        """Take the next step of the replay; a hold ends it."""
        follow = self._replay.leave if self.holding.is_wanted else self._replay.step
        follow(self._find_bounds())
        self._record.update(replaying=self._replay.is_active, replayed_until=self._replay.position)

    def _find_bounds(self) -> dict[str, QueryBound]:
        jvm = self.running.spark._jvm
        reads, queries = self._gate.reads, self.running.queries
        return {sink: QueryBound(query, jvm, reads.get(sink, ())) for sink, query in queries.items()}

    def _explain(self, sink: str, query: StreamingQuery) -> DriverError:
        """Return why a query has ended, and store schema ids that the next start must request."""
        running, error = self.running, explain_query(sink, query, self._revision)
        if error.reason is Reason.SCHEMA_ADDED:
            sources = [running.compiled.sources[name] for name in running.compiled.reads[sink]]
            remember_unknown_ids(running.spark, running.fence.files, self._revision, sink, sources)
        return error

    def _check(self) -> None:
        """Check fence, partitions and counters; called once per second."""
        check_growth(self._revision, self._topics, self.ends)
        self._check_fence()
        if find_executors(self._revision) > 0:
            spark = self.running.spark
            self._record.update(executors=count_executors(spark), refusal=find_refusal(spark))
        self._record_written()
        self._bounds.write()
        is_bound = self.holding.is_wanted or self._replay.is_active
        is_idleness_due = self.running.idleness.is_wanted and not is_bound
        if is_idleness_due and self.running.kafka.is_fresh:
            self.running.idleness.update(self._record.snapshot(self.ends).queries)

    def _check_fence(self) -> None:
        try:
            self.running.fence.check()
        except UnavailableError as error:  # the queries fail if the store stays unavailable
            log.warning("the generation cannot be read", error=error.message)

    def _record_written(self) -> None:
        outputs = self.running.side_outputs
        self._record.update(
            dead_lettered=outputs.dead_letters.totals.written,
            late_records=outputs.late_records.totals.written,
        )

    def stop(self) -> DriverExit:
        """Stop the queries at a committed batch, and finish side outputs and offsets."""
        self._record.set_state(DriverState.STOPPING)
        deadline = time.monotonic() + parse_duration(self._revision.spec.stop_timeout)
        graceful = stop_gracefully(list(self.running.queries.values()), deadline - time.monotonic())
        graceful = self._finish(max(1.0, deadline - time.monotonic())) and graceful
        self._record.set_state(DriverState.STOPPED)
        text = "stopped at a committed batch" if graceful else "stopped, but not within spec.stopTimeout"
        return DriverExit(reason=Reason.DRIVER_STOPPED, message=text, graceful=graceful)

    def _finish(self, timeout: float) -> bool:
        """Process the last events and write the last side outputs and offsets; False after the timeout."""
        self._await_events()
        self._bounds.write()
        is_done = self.running.side_outputs.finish(self._read_committed(), timeout)
        self._record_written()
        self.running.kafka.close()
        return is_done

    def _await_events(self) -> None:
        """Wait for pending events. Lost ones are read from the checkpoint, except for their counters."""
        try:
            self.running.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_EVENTS_MILLISECONDS)
        except (Py4JJavaError, PySparkException) as error:
            log.warning("the last batches are not all counted", error=str(read_failure(error).root)[:300])

    def stop_after_failure(self) -> None:
        """Stop the other queries at a committed batch. FencedError if a newer driver caused the failure."""
        try:
            self._check_fence()
        except FencedError:
            self.interrupt()
            raise
        try:
            queries = [query for query in self.running.queries.values() if query.isActive]
            stop_gracefully(queries, _FAILED_STOP_SECONDS)
        except Exception as error:
            log.warning("the other queries could not be stopped", error=str(error)[:300])

    def interrupt(self) -> None:
        """Stop all queries without waiting for their batches."""
        for query in self.running.queries.values():
            query.stop()

    def release(self) -> None:
        """End all threads. After a failure the next driver continues their work."""
        self._gate.close()
        self.running.side_outputs.abandon()
        self.running.kafka.abandon()
        try:
            self.running.spark.streams.removeListener(self._listener)
        except Exception as error:  # the JVM may be the cause of the failure
            log.warning("the listener could not be removed", error=str(error)[:300])


def _build_hold_context(revision: Revision, running: Running, record: DriverRecord) -> HoldContext:
    sources = running.compiled.sources
    sinks = (revision.topics.get(sink.target.topic, sink.target.topic) for sink in revision.spec.sinks)
    return HoldContext(
        reads={
            sink: {name: sources[name].subscription for name in names}
            for sink, names in running.compiled.reads.items()
        },
        outputs=tuple(dict.fromkeys(sinks)),
        idle_folder=running.idleness.folder,
        idle_sources=running.idleness.sources,
        kafka=running.kafka,
        report=lambda hold: record.update(hold=hold),
    )
