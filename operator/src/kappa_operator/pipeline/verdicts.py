"""What is said of a pipeline: verdicts on its driver's start, its progress, its deletion and what it misses."""

from dataclasses import replace
from datetime import datetime

from kappa_crds.pipeline_status import PipelineState, Restarts, UpgradePhase, UpgradeStatus
from kappa_crds.progress import DriverState, Progress
from kappa_crds.reasons import Reason
from kappa_operator.engine.plan import Verdict, ready, stalled, working
from kappa_operator.pipeline.driver import DriverPod


def explain_missing(missing: Verdict, restarts: Restarts) -> Verdict:
    """A topic that a driver had read before it was gone is not just missing: say what the driver said."""
    if missing.reason != Reason.TOPIC_NOT_FOUND or restarts.last_reason != Reason.SOURCE_TOPIC_DELETED:
        return missing
    message = restarts.last_failure or missing.message
    return replace(missing, reason=Reason.SOURCE_TOPIC_DELETED, message=message)


def judge_start(current: DriverPod) -> Verdict:
    """A driver that does not report yet, by what its pod says."""
    if current.waiting is not None:
        return working(PipelineState.PENDING, *current.waiting)
    if current.phase == "Pending":
        return working(
            PipelineState.PENDING, Reason.DRIVER_SCHEDULING, f"driver {current.ref.name} is being scheduled"
        )
    if current.ready:
        return Verdict(
            PipelineState.RUNNING,
            Reason.DRIVER_UNRESPONSIVE,
            f"driver {current.ref.name} does not answer its control port",
            "Unknown",
        )
    return working(
        PipelineState.STARTING, Reason.DRIVER_STARTING, f"driver {current.ref.name} is starting Spark"
    )


def judge_progress(progress: Progress, shortage: str | None) -> Verdict:
    """A driver that reports, but does not run yet or no more."""
    if progress.state is DriverState.WAITING_FOR_EXECUTORS:
        message = "the driver waits for its first executor" + (f"; {shortage}" if shortage else "")
        return working(PipelineState.STARTING, Reason.WAITING_FOR_EXECUTORS, message)
    if progress.state in (DriverState.STOPPING, DriverState.STOPPED):
        return working(PipelineState.PENDING, Reason.DRIVER_STOPPED, "the driver is stopping")
    message = progress.error.message if progress.error else "the driver loads the pipeline"
    return working(PipelineState.STARTING, Reason.DRIVER_STARTING, message)


def judge_deletion(alive: list[DriverPod]) -> Verdict:
    """A pipeline that is deleted while drivers are alive."""
    names = ", ".join(pod.ref.name for pod in alive)
    return working(
        PipelineState.PENDING,
        Reason.DELETION_BLOCKED,
        f"deletion waits for driver {names} to end its batch; if its node is lost, delete the pod with --force",
    )


def judge_running(change: UpgradeStatus | None, message: str, pause: datetime | None = None) -> Verdict:
    """Return the verdict on a driver that runs: ready, unless it replaces what the spec asks for, or its batches stopped at `pause`."""
    if change is not None and change.phase in (UpgradePhase.REFUSED, UpgradePhase.ROLLED_BACK):
        return explain_change(change)
    if pause is not None:
        since = f"no batch committed since {pause:%Y-%m-%d %H:%M:%S} UTC, and there is lag; {message}"
        return Verdict(PipelineState.RUNNING, Reason.NO_PROGRESS, since, "Unknown")
    return ready(PipelineState.RUNNING, Reason.RUNNING, message)


def explain_change(change: UpgradeStatus) -> Verdict:
    """Return the verdict on a pipeline that runs, but not what its spec says."""
    if change.phase is UpgradePhase.REFUSED:
        reason, said = Reason.UPGRADE_REFUSED, "the change is refused and the revision before goes on"
    else:
        reason, said = Reason.ROLLED_BACK, "the change failed and the revision before has taken over again"
    return stalled(PipelineState.RUNNING, reason, f"{said}: {change.message or 'no reason was given'}")
