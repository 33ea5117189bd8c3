"""A driver's life: check, stand by where that is asked for, start, supervise, stop.

`Driver.run` returns how it ended or raises DriverError. The order matters: Kafka is checked before the JVM starts,
the checkpoint is claimed before anything is changed in it, dead letters take up their position before a query moves
on, and at the end positions are written after the last batch was committed.
"""

import threading
import time
from dataclasses import replace
from pathlib import Path

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kappa_crds.progress import DriverExit, DriverState, Progress, QueryProgress
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.checkpoint.format.offsets import Offsets, read_committed_offsets
from kappa_pipelines.checkpoint.location import open_folder
from kappa_pipelines.driver.prepare import Plan, Running, compile_plan, make_marks, name_root, prepare
from kappa_pipelines.driver.session import await_executors, count_executors, create_session, wanted_executors
from kappa_pipelines.driver.stop import stop_gracefully
from kappa_pipelines.errors import DriverError, FencedError, UnavailableError
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.diagnose import explain, explain_query
from kappa_pipelines.failures.exceptions import read_failure
from kappa_pipelines.kafka.permissions import check_permissions
from kappa_pipelines.kafka.preflight import check_kafka
from kappa_pipelines.plan.realtime import build_real_time_settings, check_growth
from kappa_pipelines.reporting.listener import ProgressListener
from kappa_pipelines.reporting.metrics import Counts
from kappa_pipelines.reporting.record import DriverRecord
from kappa_pipelines.revision.environment import Environment
from kappa_pipelines.revision.modules import install_modules
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.take import Taken, take_savepoint
from kappa_pipelines.savepoint.worker import Note, SavepointWorker
from kappa_pipelines.sinks.kafka import open_producer
from kappa_pipelines.sinks.publisher import build_publishers
from kappa_pipelines.sinks.targets import fetch_targets
from kappa_pipelines.sources.schema_ids import remember_unknown_ids
from kappa_pipelines.upgrade.dry_run import DryRun

_TICK_SECONDS = 0.2
_CHECK_SECONDS = 1.0
_STANDBY_SECONDS = 0.1
_EVENTS_MILLISECONDS = 10_000
_FAILED_STOP_SECONDS = 30.0

log = structlog.get_logger()


class Driver:
    """One generation of one revision."""

    def __init__(self, revision: Revision, environment: Environment) -> None:
        self.record = DriverRecord(revision, environment.generation)
        self._revision = revision
        self._environment = environment
        self._stopping = threading.Event()
        self._activated = threading.Event()
        self._running: Running | None = None
        self._listener: ProgressListener | None = None
        self._topics: dict[str, int] = {}
        self._savepoints = SavepointWorker(self._take_savepoint)

    def request_stop(self) -> None:
        """Ask for a graceful stop; returns at once."""
        self._stopping.set()

    def activate(self) -> bool:
        """Have a driver that stands by take over, or has done so; returns at once, and False while it does not stand by yet."""
        if self.record.state is DriverState.STANDING_BY:
            self._activated.set()
        return self._activated.is_set()

    def request_savepoint(self, name: str, location: str) -> bool:
        """Ask for a savepoint below a location; returns at once, and False before the queries have started."""
        if self.record.state is not DriverState.RUNNING:
            return False
        self._savepoints.request(name, location)
        return True

    def snapshot(self) -> Progress:
        """Return all that the driver knows of itself."""
        progress = self.record.snapshot(self.ends())
        return progress.model_copy(update={"savepoints": self._savepoints.snapshot()})

    def _take_savepoint(self, location: str, name: str, note: Note) -> Taken:
        running = self._running
        if running is None:
            raise UnavailableError(Reason.DRIVER_STARTING, "the driver has not started its queries")
        store, files = SavepointStore(open_folder(location, self._revision.connection)), running.fence.files
        generation = self._environment.generation
        return take_savepoint(
            files, self._revision, generation, store, name, note=note, check=running.fence.check
        )

    def counts(self) -> Counts:
        """Return what is counted outside the queries."""
        running = self._running
        if running is None:
            return Counts()
        return running.beside.count(group_commit_errors=running.kafka.errors)

    def ends(self) -> Offsets:
        """Return the newest known ends of the source topics."""
        return self._running.kafka.ends if self._running else {}

    def run(self) -> DriverExit:
        """Run until a stop is asked for or something fails; DriverError says why."""
        self._topics = check_kafka(self._revision)
        check_permissions(self._revision)
        log.info("kafka answers")
        settings = build_real_time_settings(self._revision, self._topics)
        pod, address = self._environment.pod_name, self._environment.pod_address
        spark = create_session(self._revision, pod, settings, address=address)
        log.info("session started")
        try:
            self._await_executors(spark)
            install_modules(spark, self._revision)
            marks, plan = make_marks(), None
            if self._environment.standby:
                plan = self._rehearse(spark, marks)
                if not self._stand_by():
                    return DriverExit(
                        reason=Reason.DRIVER_STOPPED, message="it was not needed", graceful=True
                    )
            generation = self._environment.generation
            running = self._running = prepare(
                spark,
                self._revision,
                generation,
                self.record,
                topics=self._topics,
                marks=marks,
                ahead=plan,
            )
            log.info("plan compiled")
            self._start(running)
            self._supervise(running)
            return self._stop(running)
        except FencedError:
            self._interrupt()
            raise
        except Exception as error:
            self._raise_if_fenced()
            self._stop_rest()
            raise explain(error) from error
        finally:
            self._let_go()

    def _rehearse(self, spark: SparkSession, marks: Path) -> Plan | None:
        """Make a dry start, and all of the real one that can be done beside the driver that runs; None where it is not to take over."""
        self.record.set_state(DriverState.REHEARSING)
        generation, targets = self._environment.generation, fetch_targets(self._revision)
        rehearsal = DryRun(spark, self._revision, generation, targets, marks)
        verdict = rehearsal.run()
        plan = None
        if verdict.kind is not VerdictKind.REPROCESS:
            root = name_root(self._revision, generation)
            publishers = build_publishers(self._revision, generation, self._topics)
            targets = replace(targets, publishers=publishers)
            plan = compile_plan(
                spark, self._revision, root, subjects=rehearsal.subjects, targets=targets, marks=marks
            )
            open_producer(spark, targets)
        self.record.set_verdict(verdict)
        return plan

    def _stand_by(self) -> bool:
        """Wait, and return whether to take over, instead of to end."""
        self.record.set_state(DriverState.STANDING_BY)
        log.info("stands by")
        while not self._activated.wait(_STANDBY_SECONDS):
            if self._stopping.is_set():
                return False
        log.info("takes over")
        self.record.take_over()
        return True

    def _await_executors(self, spark: SparkSession) -> None:
        if wanted_executors(self._revision) == 0:
            return
        self.record.set_state(DriverState.WAITING_FOR_EXECUTORS)
        await_executors(spark, self._stopping.is_set, lambda found: self.record.set_counts(executors=found))
        self.record.set_state(DriverState.STARTING)

    def _start(self, running: Running) -> None:
        committed = {
            s.sink.name: read_committed_offsets(running.files, s.sink.name) for s in running.compiled.sinks
        }
        for sink, offsets in committed.items():
            self.record.set_committed(sink, offsets)
        running.beside.start(committed)
        self._listener = ProgressListener(self.record, self._on_batch)
        running.spark.streams.addListener(self._listener)
        running.kafka.start()
        for compiled in running.compiled.sinks:
            if self._stopping.is_set():
                return
            self._start_query(running, compiled.sink.name, committed[compiled.sink.name])
        log.info("queries started", sinks=sorted(running.queries))

    def _start_query(self, running: Running, sink: str, committed: dict[str, Offsets]) -> None:
        compiled = next(c for c in running.compiled.sinks if c.sink.name == sink)
        try:
            query = compiled.writer.start()
        except PySparkException as error:
            raise classify(read_failure(error), f"sink {sink!r}") from error
        running.queries[sink] = query
        begin = {name: committed.get(name) or self._first_to_read(running, name) for name in compiled.sources}
        known = {name: offsets for name, offsets in begin.items() if offsets}
        self.record.add_started(sink, str(query.id), str(query.runId), known)

    def _first_to_read(self, running: Running, source: str) -> Offsets:
        """Return where a new query begins, where that is known without asking Spark."""
        found = running.compiled.sources[source]
        return (
            running.kafka.first_offsets(found.subscription)
            if found.spec.starting_offsets == "earliest"
            else {}
        )

    def _on_batch(self, folded: QueryProgress, malformed: dict[str, int | None]) -> None:
        running = self._running
        if running is None:
            return
        running.kafka.notify()
        running.idleness.note(folded)
        running.beside.note(folded, malformed)

    def _supervise(self, running: Running) -> None:
        next_check = 0.0
        while not self._stopping.wait(_TICK_SECONDS):
            for sink, query in running.queries.items():
                if not query.isActive:
                    raise self._explain(running, sink, query)
            if self._is_real_time:
                self._note_processing(running)
            if self.record.state is DriverState.STARTING and self.record.is_ready():
                self.record.set_state(DriverState.RUNNING)
                log.info("running")
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + _CHECK_SECONDS
                self._check(running)

    def _explain(self, running: Running, sink: str, query: StreamingQuery) -> DriverError:
        """Return why a query has ended by itself; take note of what the next start has to ask for."""
        error = explain_query(sink, query, self._revision)
        if error.reason is Reason.SCHEMA_ADDED:
            sources = [running.compiled.sources[name] for name in running.compiled.reads[sink]]
            remember_unknown_ids(running.spark, running.files, self._revision, sink, sources)
        return error

    @property
    def _is_real_time(self) -> bool:
        return self._revision.spec.trigger.real_time is not None

    def _note_processing(self, running: Running) -> None:
        """Take note of queries whose first batch has begun: in real time it is long, and there is no need to await its end."""
        for sink, query in running.queries.items():
            if query.status["isTriggerActive"] and query.status["isDataAvailable"]:
                self.record.add_processing(sink)

    def _check(self, running: Running) -> None:
        """Look at the fence, the partitions and the counters; called once a second."""
        check_growth(self._revision, self._topics, running.kafka.ends)
        try:
            running.fence.check()
        except UnavailableError as error:  # the query itself fails if the store stays away
            log.warning("the generation cannot be read", error=error.message)
        if wanted_executors(self._revision) > 0:
            self.record.set_counts(executors=count_executors(running.spark))
        self._note_written(running)
        if running.idleness.is_wanted and running.kafka.is_fresh:
            running.idleness.update(self.record.snapshot(self.ends()).queries)

    def _note_written(self, running: Running) -> None:
        beside = running.beside
        self.record.set_counts(dead_lettered=beside.dead_lettered, stragglers=beside.straggling)

    def _stop(self, running: Running) -> DriverExit:
        self.record.set_state(DriverState.STOPPING)
        deadline = time.monotonic() + parse_duration(self._revision.spec.stop_timeout)
        graceful = stop_gracefully(list(running.queries.values()), deadline - time.monotonic())
        graceful = self._finish(running, max(1.0, deadline - time.monotonic())) and graceful
        self.record.set_state(DriverState.STOPPED)
        text = "stopped at a committed batch" if graceful else "stopped, but not within spec.stopTimeout"
        return DriverExit(reason=Reason.DRIVER_STOPPED, message=text, graceful=graceful)

    def _finish(self, running: Running, timeout: float) -> bool:
        """Take in the last batches' events, write the last dead letters and offsets; False if it took too long."""
        self._await_events(running)
        committed = {sink: read_committed_offsets(running.files, sink) for sink in running.compiled.reads}
        for sink, offsets in committed.items():
            self.record.set_committed(sink, offsets)
        done = running.beside.finish(committed, timeout)
        self._note_written(running)
        running.kafka.close()
        return done

    def _await_events(self, running: Running) -> None:
        """Let the listener take in what is on its way. What does not come is read from the checkpoint, but for the counters."""
        try:
            running.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_EVENTS_MILLISECONDS)
        except (Py4JJavaError, PySparkException) as error:
            log.warning("the last batches are not all counted", error=str(read_failure(error).root)[:300])

    def _stop_rest(self) -> None:
        """After a failure, let the other queries end at a committed batch."""
        try:
            queries = list(self._running.queries.values()) if self._running else []
            stop_gracefully([query for query in queries if query.isActive], _FAILED_STOP_SECONDS)
        except Exception as error:
            log.warning("the other queries could not be stopped", error=str(error)[:300])

    def _raise_if_fenced(self) -> None:
        """Raise FencedError where a newer driver has taken over: then whatever failed, failed for that."""
        if self._running is None:
            return
        try:
            self._running.fence.check()
        except FencedError:
            self._interrupt()
            raise
        except UnavailableError as error:
            log.warning("the generation cannot be read", error=error.message)

    def _interrupt(self) -> None:
        for query in self._running.queries.values() if self._running else ():
            query.stop()

    def _let_go(self) -> None:
        """End what runs beside the queries: after a graceful stop there is no more to do, after a failure the next driver takes it up."""
        self._savepoints.abandon()
        if self._running is None:
            return
        self._running.beside.abandon()
        self._running.kafka.abandon()
        try:
            if self._listener is not None:
                self._running.spark.streams.removeListener(self._listener)
        except Exception as error:  # the JVM may be what failed
            log.warning("the listener could not be removed", error=str(error)[:300])
