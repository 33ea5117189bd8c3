"""How a change begins to take effect: the savepoint before it, from the state that there is, or anew.

Nothing here touches the driver that runs. What is meant to happen is recorded; the old driver is stopped for it afterwards.
"""

from datetime import datetime
from typing import Any

from kappa_crds.pipeline_status import (
    NewCheckpoint,
    PipelineState,
    Restarts,
    Run,
    RunRole,
    UpgradePhase,
    UpgradeStatus,
    put_run,
)
from kappa_crds.reasons import Reason
from kappa_crds.upgrade import Handover, UpgradeMode, UpgradeVerdict
from kappa_operator.engine.actions import CreateObject, EmitEvent, RecordStatus
from kappa_operator.engine.plan import Plan, working
from kappa_operator.pipeline.model import SOON, PipelineObserved, say
from kappa_operator.pipeline.progress import build_progress_fields
from kappa_operator.pipeline.starting import next_generation
from kappa_operator.pipeline.upgrade.change import build_from_empty, next_checkpoint
from kappa_operator.pipeline.verdicts import explain_change
from kappa_operator.savepoint.objects import build_upgrade_savepoint, name_upgrade_savepoint

ANEW_MODES = (UpgradeMode.REPROCESS, UpgradeMode.AUTO)
"""Modes in which a change that does not fit the state begins with an empty one, and with the whole log."""


def hand_over(observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime) -> Plan:
    """Record that the old driver ends its batch; before that, where the mode asks for one, that a savepoint is taken."""
    at = now.replace(microsecond=0)
    if change.mode is UpgradeMode.SAVEPOINT and change.savepoint is None:
        standby = observed.status.standby
        number = next_generation(observed) if standby is None else standby.generation
        name = name_upgrade_savepoint(observed.resource.metadata.name, change, number)
        change = change.replace(phase=UpgradePhase.SAVING, savepoint=name, message=why, since=at)
        return _record(
            observed, change, Reason.UPGRADE_SAVING, f"{why}; savepoint {name} is taken before", now
        )
    change = change.replace(phase=UpgradePhase.HANDING_OVER, message=why, since=at)
    warm = change.handover is Handover.WARM
    follows = "the old driver ends its batch" if warm else "the new driver starts once the old one has ended"
    stopping = {"stopping_since": at} if warm else {}
    return _record(observed, change, Reason.HANDING_OVER, f"{why}; {follows}", now, **stopping)


def go_cold(observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime) -> Plan:
    """Give up the driver that stands by; the old one is stopped, and then the new one started."""
    return hand_over(observed, change.replace(handover=Handover.COLD), why, now)


def save(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan:
    """Have the savepoint taken, and wait for it. Without it the change is refused, and the old driver goes on."""
    metadata, taken = observed.resource.metadata, observed.savepoint
    if taken is None:
        return Plan((CreateObject(build_upgrade_savepoint(metadata, change)),), requeue_after=SOON)
    name = taken.metadata.name
    if taken.spec.pipeline_ref != metadata.name:
        return refuse(observed, change, f"savepoint {name} is there already, of another pipeline", now)
    if taken.metadata.deletion_timestamp is not None:
        return refuse(observed, change, f"savepoint {name} was deleted before the change", now)
    said = taken.status.conditions[0].message if taken.status.conditions else "it was not looked at yet"
    if taken.status.state in ("Failed", "Damaged"):
        why = (
            f"there is no savepoint to go back to ({name}: {said}); repair that and change spec.restartNonce, or choose another"
            " spec.upgrade.mode"
        )
        return refuse(observed, change, why, now)
    if taken.status.taken is not None:
        return hand_over(observed, change, change.message or "the savepoint is taken", now)
    progress = observed.progress
    fields = (
        build_progress_fields(observed.status, progress, observed.resource.spec, now)
        if progress is not None
        else {}
    )
    verdict = working(
        _find_state(observed), Reason.UPGRADE_SAVING, f"savepoint {name} is taken before the change: {said}"
    )
    return Plan((), say(observed, verdict, now, **fields), SOON)


def begin_anew(
    observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime, *, replay: bool
) -> Plan:
    """Record that the new revision begins with an empty checkpoint, and tell it: with `replay` at the first record of all sources."""
    status, spec = observed.status, observed.resource.spec
    number = next_checkpoint(status)
    names = tuple(source.name for source in spec.sources) if replay else ()
    new = NewCheckpoint(checkpoint=number, instead_of=status.checkpoint, from_beginning=names)
    revision = build_from_empty(observed, new).name
    standby = status.standby or Run(role=RunRole.STANDBY, generation=next_generation(observed))
    change = change.replace(
        phase=UpgradePhase.HANDING_OVER,
        revision=revision,
        handover=Handover.COLD,
        new_checkpoint=new,
        since=now.replace(microsecond=0),
    )
    where = explain_replay(observed) if replay else "it begins with an empty state, where its sources say"
    change = change.replace(message=f"{why}; {where}")
    told = EmitEvent(
        Reason.UPGRADE_NEW_CHECKPOINT, change.message or "", warning=change.mode is UpgradeMode.AUTO
    )
    verdict = working(PipelineState.PENDING, Reason.UPGRADE_NEW_CHECKPOINT, change.message or "")
    restarts = Restarts(total=status.restarts.total)
    written = say(
        observed, verdict, now, upgrade=change, last_checkpoint=number, restarts=restarts,
        runs=put_run(_update_runs(observed), standby.replace(revision=revision, checkpoint=number)),
    )  # fmt: skip
    return Plan((told, RecordStatus(written)), requeue=True)


def explain_replay(observed: PipelineObserved) -> str:
    """Say what is read and written again where a pipeline begins with the whole log."""
    spec = observed.resource.spec
    reads = ", ".join(source.reads for source in spec.sources)
    writes = ", ".join(sorted({topic for _, topic in spec.written}))
    return (
        f"it begins with an empty state at the first record that there still is of {reads}, whatever startingOffsets says,"
        f" and what it writes to {writes} is written again"
    )


def refuse(observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime) -> Plan:
    """Record that the change is not made, and why."""
    change = change.replace(phase=UpgradePhase.REFUSED, message=why, since=now.replace(microsecond=0))
    status = say(observed, explain_change(change), now, upgrade=change)
    return Plan((RecordStatus(status),), requeue=True)


def say_verdict(verdict: UpgradeVerdict) -> str:
    """Say a verdict in one line."""
    said = "; ".join(verdict.reasons)
    return verdict.kind.value + (f": {said}" if said else "")


def _record(
    observed: PipelineObserved,
    change: UpgradeStatus,
    reason: Reason,
    said: str,
    now: datetime,
    **fields: Any,
) -> Plan:
    verdict = working(_find_state(observed), reason, said)
    written = say(observed, verdict, now, upgrade=change, runs=_update_runs(observed, **fields))
    return Plan((RecordStatus(written),), requeue=True)


def _update_runs(observed: PipelineObserved, **fields: Any) -> tuple[Run, ...]:
    """Return the runs with these fields of the active one. A driver that was recorded and never created is not created any more."""
    never_created = {"driver": None, "driver_uid": None} if observed.current is None else {}
    return observed.status.update_active(**fields, **never_created)


def _find_state(observed: PipelineObserved) -> PipelineState:
    current = observed.current
    return PipelineState.PENDING if current is None or current.finished else PipelineState.RUNNING
