"""What to do about a savepoint: have the pipeline's driver take it, once, and say how that went.

The attempt is recorded before a driver is asked, and a driver takes a savepoint of one name once, so asking it again is
fine. Where the driver goes, its successor is asked: the manifest is written last, so there is a whole savepoint or none.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.progress import Progress, SavepointProgress
from kappa_crds.quantities import format_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import QueryBatch, SavepointState
from kappa_operator.actions import RecordStatus, TakeSavepoint
from kappa_operator.plan.driver import DriverPod
from kappa_operator.plan.model import Failure, Plan, Verdict, build_conditions, ready, stalled, working
from kappa_operator.resources.pipeline import PipelineResource, build_token_ref
from kappa_operator.resources.savepoint import SavepointResource, build_location, name_savepoint

MOST_ATTEMPTS = 5
POLL = 1.0
BLOCKED_POLL = 5.0
_FIRST_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class SavepointObserved:
    """All that a decision about a savepoint needs. `driver` and `progress` are there while the pipeline runs."""

    resource: SavepointResource
    pipeline: PipelineResource | None = None
    driver: DriverPod | None = None
    progress: Progress | None = None
    failures: tuple[Failure, ...] = ()

    @property
    def reported(self) -> SavepointProgress | None:
        """Return what the driver says of this savepoint, if it was asked for it."""
        name = name_savepoint(self.resource.metadata)
        known = self.progress.savepoints if self.progress else ()
        return next((each for each in known if each.name == name), None)


def decide_savepoint(observed: SavepointObserved, now: datetime) -> Plan:
    """Return the next step for the savepoint."""
    resource, status = observed.resource, observed.resource.status
    ended = status.taken is not None or status.state == SavepointState.FAILED
    if resource.metadata.deletion_timestamp is not None or ended:
        return Plan()
    if observed.pipeline is None:
        said = f"there is no Pipeline {resource.spec.pipeline_ref} in namespace {resource.metadata.namespace}; create it"
        return _say(
            observed, working(SavepointState.PENDING, Reason.PIPELINE_NOT_FOUND, said), now, BLOCKED_POLL
        )
    if observed.driver is None or observed.driver.address is None:
        said = f"Pipeline {resource.spec.pipeline_ref} does not run; the savepoint is taken once it does"
        return _say(
            observed, working(SavepointState.PENDING, Reason.PIPELINE_NOT_RUNNING, said), now, BLOCKED_POLL
        )
    reported = observed.reported
    if status.driver != observed.driver.ref.name:
        return _ask_next(observed, observed.driver, now)
    if reported is None:
        return _ask(observed, observed.driver, now)
    if not reported.done:
        said = f"{reported.files_done} of {reported.files} files are kept"
        return _say(observed, working(SavepointState.TAKING, Reason.SAVEPOINT_TAKING, said), now, POLL)
    if reported.failure is not None:
        return _try_again(observed, observed.driver, reported.failure.message, now)
    return _finish(observed, reported, now)


def _ask_next(observed: SavepointObserved, driver: DriverPod, now: datetime) -> Plan:
    """Record an attempt by a driver before it is asked."""
    verdict = working(
        SavepointState.TAKING, Reason.SAVEPOINT_TAKING, f"driver {driver.ref.name} is asked for it"
    )
    attempts = observed.resource.status.attempts + 1
    status = _build_status(
        observed, verdict, now, driver=driver.ref.name, attempts=attempts, next_attempt=None
    )
    return Plan((RecordStatus(status),), look_again=True)


def _ask(observed: SavepointObserved, driver: DriverPod, now: datetime) -> Plan:
    """Ask the driver. One that is just ending does not hear it; its successor will be asked."""
    if observed.failures:
        verdict = working(SavepointState.TAKING, Reason.SAVEPOINT_TAKING, observed.failures[-1].error.message)
        return _say(observed, verdict, now, BLOCKED_POLL)
    if observed.pipeline is None or driver.address is None:
        raise AssertionError("there is a driver with an address")
    metadata = observed.resource.metadata
    location = build_location(metadata.namespace, observed.pipeline.metadata.name)
    token = build_token_ref(observed.pipeline)
    return Plan(
        (TakeSavepoint(driver.ref, driver.address, token, name_savepoint(metadata), location),),
        requeue_after=POLL,
    )


def _try_again(observed: SavepointObserved, driver: DriverPod, message: str, now: datetime) -> Plan:
    """Record a failure, wait, and ask anew; after some attempts it is given up."""
    status = observed.resource.status
    if status.attempts >= MOST_ATTEMPTS:
        said = (
            f"given up after {status.attempts} attempts: {message}; repair that, and create a new Savepoint"
        )
        return _say(observed, stalled(SavepointState.FAILED, Reason.SAVEPOINT_ABANDONED, said), now, None)
    if status.next_attempt is None:
        pause = timedelta(seconds=_FIRST_PAUSE * 2 ** (status.attempts - 1))
        said = f"attempt {status.attempts} failed: {message}"
        verdict = working(SavepointState.TAKING, Reason.SAVEPOINT_FAILED, said)
        written = _build_status(observed, verdict, now, next_attempt=now.replace(microsecond=0) + pause)
        return Plan((RecordStatus(written),), requeue_after=pause.total_seconds())
    wait = (status.next_attempt - now).total_seconds()
    if wait > 0:
        return Plan(requeue_after=wait)
    asked = _ask(observed, driver, now)
    verdict = working(
        SavepointState.TAKING, Reason.SAVEPOINT_TAKING, f"driver {driver.ref.name} is asked again"
    )
    written = _build_status(observed, verdict, now, attempts=status.attempts + 1, next_attempt=None)
    return Plan((RecordStatus(written), *asked.actions), requeue_after=POLL)


def _finish(observed: SavepointObserved, reported: SavepointProgress, now: datetime) -> Plan:
    sizes = f"{format_size(reported.size_bytes)}, {format_size(reported.copied_bytes)} copied"
    batches = ", ".join(f"batch {batch} of {sink}" for sink, batch in sorted(reported.batches.items()))
    verdict = ready(SavepointState.READY, Reason.SAVEPOINT_READY, f"{batches or 'no batch yet'}; {sizes}")
    queries = tuple(QueryBatch(sink=sink, batch=batch) for sink, batch in sorted(reported.batches.items()))
    return _say(
        observed, verdict, now, None,
        location=reported.location, taken=reported.taken, queries=queries, size=sizes,
        revision=observed.progress.revision if observed.progress else None,
        shuffle_partitions=reported.shuffle_partitions, size_bytes=reported.size_bytes,
        copied_bytes=reported.copied_bytes, next_attempt=None,
    )  # fmt: skip


def _say(
    observed: SavepointObserved, verdict: Verdict, now: datetime, requeue: float | None, **fields: Any
) -> Plan:
    return Plan(status=_build_status(observed, verdict, now, **fields), requeue_after=requeue)


def _build_status(observed: SavepointObserved, verdict: Verdict, now: datetime, **fields: Any) -> Any:
    status, generation = observed.resource.status, observed.resource.metadata.generation
    conditions = build_conditions(verdict, status.conditions, generation, now)
    return status.replace(
        conditions=conditions, state=verdict.state, observed_generation=generation, **fields
    )
