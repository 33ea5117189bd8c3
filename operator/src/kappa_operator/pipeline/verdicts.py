"""Verdicts on a pipeline: on the start of its driver, its progress, its change, its deletion and what is missing."""

from dataclasses import replace
from datetime import datetime

from kappa_crds.pipeline_status import PipelineState, Restarts, UpgradePhase, UpgradeStatus
from kappa_crds.progress import DriverState, Progress
from kappa_crds.reasons import Reason
from kappa_operator.engine.plan import Verdict, ready, stalled, working
from kappa_operator.pipeline.driver import DriverPod


def explain_missing(missing: Verdict, restarts: Restarts) -> Verdict:
    """Return the verdict on a missing dependency; for a topic that was deleted under a driver, with the driver's message."""
    if missing.reason != Reason.TOPIC_NOT_FOUND or restarts.last_reason != Reason.SOURCE_TOPIC_DELETED:
        return missing
    message = restarts.last_failure or missing.message
    return replace(missing, reason=Reason.SOURCE_TOPIC_DELETED, message=message)


def judge_start(current: DriverPod) -> Verdict:
    """Return the verdict on a driver that does not report yet, by its pod."""
    if current.waiting is not None:
        return working(PipelineState.PENDING, *current.waiting)
    name = current.ref.name
    if current.phase == "Pending":
        return working(PipelineState.PENDING, Reason.DRIVER_SCHEDULING, f"driver {name} is being scheduled")
    if current.ready:
        message = f"driver {name} does not answer its control port"
        return Verdict(PipelineState.RUNNING, Reason.DRIVER_UNRESPONSIVE, message, "Unknown")
    return working(PipelineState.STARTING, Reason.DRIVER_STARTING, f"driver {name} is starting Spark")


def judge_progress(progress: Progress, shortage: str | None) -> Verdict:
    """Return the verdict on a driver that reports, but does not run."""
    if progress.state is DriverState.WAITING_FOR_EXECUTORS:
        why = progress.refusal or shortage
        more = f"more executors; executors that run: {progress.executors}"
        awaited = more if progress.executors else "its first executor"
        message = f"the driver waits for {awaited}" + (f"; {why}" if why else "")
        reason = Reason.EXECUTORS_REFUSED if progress.refusal else Reason.WAITING_FOR_EXECUTORS
        return working(PipelineState.STARTING, reason, message)
    if progress.state in (DriverState.STOPPING, DriverState.STOPPED):
        return working(PipelineState.PENDING, Reason.DRIVER_STOPPED, "the driver is stopping")
    message = progress.error.message if progress.error else "the driver loads the pipeline"
    return working(PipelineState.STARTING, Reason.DRIVER_STARTING, message)


def judge_deletion(alive: list[DriverPod]) -> Verdict:
    """Return the verdict on a pipeline that is deleted while drivers are alive."""
    names = ", ".join(pod.ref.name for pod in alive)
    message = f"deletion waits until driver {names} ends its batch; if its node is lost, delete the pod with --force"
    return working(PipelineState.PENDING, Reason.DELETION_BLOCKED, message)


def judge_running(
    change: UpgradeStatus | None, message: str, pause: datetime | None = None, scope: str = ""
) -> Verdict:
    """Return the verdict on a driver that runs: ready, unless it replaces the revision of the spec, or its batches stopped at `pause`.

    `scope` is what a Reprocessing of the spec computes.
    """
    if change is not None and change.phase in (UpgradePhase.REFUSED, UpgradePhase.ROLLED_BACK):
        return explain_change(change)
    if pause is not None:
        since = f"no batch committed since {pause:%Y-%m-%d %H:%M:%S} UTC, and there is lag; {message}"
        return Verdict(PipelineState.RUNNING, Reason.NO_PROGRESS, since, "Unknown")
    if change is not None and change.phase is UpgradePhase.REPROCESSING:
        is_member = change.reprocessing is not None
        why = f"a Reprocessing computes {scope} beside this version ({change.message})"
        beside = f"{change.message if is_member else why}; {message}"
        return ready(PipelineState.RUNNING, Reason.UPGRADE_REPROCESSING, beside)
    if change is not None and change.phase is UpgradePhase.SOAKING:
        soaking = f"the previous version soaks beside this one; {message}"
        return ready(PipelineState.RUNNING, Reason.SOAKING, soaking)
    return ready(PipelineState.RUNNING, Reason.RUNNING, message)


def add_refusal(verdict: Verdict, progress: Progress) -> Verdict:
    """Return the verdict on a driver that runs, with why it has fewer executors than it requests."""
    if not progress.refusal:
        return verdict
    reason = Reason.EXECUTORS_REFUSED if verdict.reason == Reason.RUNNING else verdict.reason
    message = f"{verdict.message}; executors that run: {progress.executors}, as {progress.refusal}"
    return replace(verdict, reason=reason, message=message)


def explain_change(change: UpgradeStatus) -> Verdict:
    """Return the verdict on a pipeline that runs the previous revision."""
    reason, message = Reason.ROLLED_BACK, "the change failed and the previous revision has taken over again"
    if change.phase is UpgradePhase.REFUSED:
        reason, message = Reason.UPGRADE_REFUSED, "the change is refused and the previous revision continues"
    message = f"{message}: {change.message or 'no reason was given'}"
    return stalled(PipelineState.RUNNING, reason, message)


def explain_dead_end(change: UpgradeStatus | None) -> Verdict:
    """Return the verdict on a change that cannot be made, where there is no previous revision to run."""
    why = change.message if change is not None and change.message else "the change cannot run"
    message = f"{why}; no previous revision can run; correct the spec, or choose another spec.upgrade.mode"
    return stalled(PipelineState.FAILED, Reason.UPGRADE_REFUSED, message)
