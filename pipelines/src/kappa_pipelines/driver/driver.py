"""A driver: one generation of one revision, from its start to its end.

`Driver.run` returns how the driver ended or raises DriverError. The order matters: Kafka is checked before there is a session, and
the checkpoint is acquired before it is changed. A standby driver tries its revision on a copy before it acquires the checkpoint.
`supervision` starts, supervises and stops the queries.
"""

import threading

import structlog
from pyspark.sql import SparkSession

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary
from kappa_crds.progress import DriverExit, DriverRole, DriverState, InputVector, Progress
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.fence.fence import Fence
from kappa_pipelines.checkpoint.location import open_folder
from kappa_pipelines.compare.session import POOL, name_jobs
from kappa_pipelines.compare.worker import ComparisonWorker, NoteStep
from kappa_pipelines.driver.executors import build_scaling, build_scaling_settings, find_refusal
from kappa_pipelines.driver.prepare import CompiledPlan, create_idle_folder, prepare, try_revision
from kappa_pipelines.driver.replay import build_replay
from kappa_pipelines.driver.session import await_executors, create_session
from kappa_pipelines.driver.supervision import Supervision
from kappa_pipelines.errors import FencedError, UnavailableError
from kappa_pipelines.executors import find_executors
from kappa_pipelines.failures.diagnose import explain
from kappa_pipelines.kafka.consumers import build_consumer_settings
from kappa_pipelines.kafka.native import find_table_format
from kappa_pipelines.kafka.permissions import check_permissions
from kappa_pipelines.kafka.preflight import check_kafka
from kappa_pipelines.plan.realtime import build_real_time_settings
from kappa_pipelines.plan.views import check_views
from kappa_pipelines.reporting.metrics import Counts
from kappa_pipelines.reporting.record import DriverRecord
from kappa_pipelines.revision.environment import Environment, check_python
from kappa_pipelines.revision.modules import install_modules
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.take import Taken, take_savepoint
from kappa_pipelines.savepoint.worker import Note, SavepointWorker

_STANDBY_SECONDS = 0.1

log = structlog.get_logger()


class Driver:
    """One generation of one revision. Requests are thread-safe and return at once."""

    def __init__(self, revision: Revision, environment: Environment) -> None:
        self.record = DriverRecord(revision, environment.generation)
        self.record.update(role=environment.role)
        self._revision = revision
        self._environment = environment
        # A replay reads slices of time, which divide transactions.
        is_replayed = self.has_batches and not revision.spec.reads_transactions
        self._replay = environment.replay if is_replayed else None
        self._only = None if environment.replay is None else environment.replay.only
        self._stopping = threading.Event()
        self._activated = threading.Event()
        self._supervision: Supervision | None = None
        self._savepoints = SavepointWorker(self._take_savepoint)
        self._comparisons = ComparisonWorker(self._compare)
        self._spark: SparkSession | None = None

    def request_stop(self) -> None:
        """Request a graceful stop."""
        self._stopping.set()

    def activate(self) -> bool:
        """Request a standby driver to take over. Return False until it is on standby."""
        if self.record.state is DriverState.STANDING_BY:
            self._activated.set()
        return self._activated.is_set()

    def request_savepoint(self, name: str, location: str) -> bool:
        """Request a savepoint below a location. Return False until the queries have started."""
        if self.record.state is not DriverState.RUNNING:
            return False
        self._savepoints.request(name, location)
        return True

    def request_comparison(self, request: ComparisonRequest) -> bool:
        """Request a comparison of two versions of an output. Return False until the queries have started."""
        if self.record.state is not DriverState.RUNNING:
            return False
        self._comparisons.request(request)
        return True

    @property
    def has_batches(self) -> bool:
        """Return whether the queries run in batches; without them none can hold."""
        return self._revision.spec.trigger.real_time is None

    def request_hold(self, seconds: float) -> bool:
        """Request that the queries read no further than their planned batch, for so many seconds. Return False until they run."""
        if self._supervision is None or self.record.state is not DriverState.RUNNING:
            return False
        if self._supervision.running.archives:
            return False
        self._supervision.holding.hold(seconds)
        return True

    def request_advance(self, target: InputVector) -> bool:
        """Request that the queries read exactly up to a point. Return False without a hold."""
        return self._supervision is not None and self._supervision.holding.advance(target)

    def request_continue(self) -> None:
        """Request the end of the hold."""
        if self._supervision is not None:
            self._supervision.holding.resume()

    def set_role(self, role: DriverRole) -> None:
        """Have a role from now on."""
        log.info("role", role=role.value)
        self.record.update(role=role)

    def snapshot(self) -> Progress:
        """Return the progress of the driver."""
        progress = self.record.snapshot(self._supervision.ends if self._supervision else {})
        found = {"savepoints": self._savepoints.snapshot(), "comparisons": self._comparisons.snapshot()}
        return progress.model_copy(update=found)

    def counts(self) -> Counts:
        """Return the counters outside the queries."""
        return self._supervision.counts() if self._supervision else Counts()

    def run(self) -> DriverExit:
        """Run until a stop is requested or a failure; DriverError gives its reason."""
        check_python(self._revision.spec)
        topics = check_kafka(self._revision)
        check_permissions(self._revision)
        log.info("kafka is available")
        settings = build_consumer_settings(self._revision, topics)
        settings |= build_real_time_settings(self._revision, topics)
        settings |= build_scaling_settings(self._revision, self._replay)
        pod, address = self._environment.pod_name, self._environment.pod_address
        spark = create_session(self._revision, pod, settings, address=address)
        self._spark = spark
        log.info("session started")
        try:
            return self._run(spark, topics)
        except FencedError:
            if self._supervision is not None:
                self._supervision.interrupt()
            raise
        except Exception as error:
            if self._supervision is not None:
                self._supervision.stop_after_failure()
            raise explain(error) from error
        finally:
            self._savepoints.abandon()
            self._comparisons.abandon()
            if self._supervision is not None:
                self._supervision.release()

    def _run(self, spark: SparkSession, topics: dict[str, int]) -> DriverExit:
        check_views(spark, self._revision.spec)
        self._await_executors(spark)
        install_modules(spark, self._revision)
        generation, idle_folder = self._environment.generation, create_idle_folder()
        plan: CompiledPlan | None = None
        if self._environment.standby:
            self.record.set_state(DriverState.DRY_RUN)
            verdict, plan = try_revision(
                spark, self._revision, generation, topics, idle_folder, replay=self._replay, only=self._only
            )
            self.record.update(verdict=verdict)
            if not self._stand_by():
                return DriverExit(
                    reason=Reason.DRIVER_STOPPED, message="the standby driver was not needed", graceful=True
                )
        fence: Fence | None = None
        scaling = build_scaling(spark, self._revision, self._replay)
        while True:
            running = prepare(
                spark,
                self._revision,
                generation,
                self.record,
                topics=topics,
                idle_folder=idle_folder,
                ahead=plan,
                replay=self._replay,
                only=self._only,
                fence=fence,
            )
            log.info("plan compiled")
            # An archive is read at its own pace; the replay of the log begins behind the seam.
            replay = build_replay(self._revision, running, None if running.archives else self._replay)
            self._supervision = Supervision(
                self._revision, running, self.record, topics, self._stopping, replay=replay, scaling=scaling
            )
            self._supervision.start()
            self._supervision.watch()
            if self._stopping.is_set() or not running.archives:
                return self._supervision.stop()
            self._supervision.leave()
            fence = running.fence

    def _await_executors(self, spark: SparkSession) -> None:
        if find_executors(self._revision) == 0:
            return
        self.record.set_state(DriverState.WAITING_FOR_EXECUTORS)

        def report(found: int) -> None:
            self.record.update(executors=found, refusal=find_refusal(spark))

        number = await_executors(spark, self._revision, self._stopping.is_set, report)
        log.info("executors have registered", number=number)
        self.record.set_state(DriverState.STARTING)

    def _stand_by(self) -> bool:
        """Wait for a request; return whether to take over instead of ending."""
        self.record.set_state(DriverState.STANDING_BY)
        log.info("standing by")
        while not self._activated.wait(_STANDBY_SECONDS):
            if self._stopping.is_set():
                return False
        log.info("taking over")
        self.record.take_over()
        return True

    def _take_savepoint(self, location: str, name: str, note: Note) -> Taken:
        if self._supervision is None:
            raise UnavailableError(Reason.DRIVER_STARTING, "the driver has not started its queries")
        store = SavepointStore(open_folder(location, self._revision.connection))
        fence, generation = self._supervision.running.fence, self._environment.generation
        return take_savepoint(
            fence.files, self._revision, generation, store, name, note=note, check=fence.check
        )

    def _compare(self, request: ComparisonRequest, note: NoteStep) -> ComparisonSummary:
        """Compare beside the queries, in a scheduler pool of its own, so that they keep a part of the cores."""
        from kappa_pipelines.compare.compare import Comparison  # noqa: PLC0415 - no start needs pyarrow

        if self._spark is None or self._supervision is None:
            raise UnavailableError(Reason.DRIVER_STARTING, "the driver has not started its queries")
        name_jobs(self._spark, POOL)
        sinks = self._supervision.running.compiled.sinks
        topics = ((each, each.sink.target.topic) for each in sinks)
        written = (
            each for each, topic in topics if self._revision.topics.get(topic, topic) == request.new.topic
        )
        selection = next((each.selection for each in written), None)
        comparison = Comparison(
            kafka=self._revision.kafka,
            request=request,
            group=self._revision.consumer_group,
            selection=selection,
            source=find_table_format(self._revision.spark_conf),
        )
        return comparison.run(self._spark, note)
