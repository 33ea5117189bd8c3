"""The change of a pipeline in mode Shadow: the Reprocessing decides on its phase, and the pipeline follows.

The cutover and the rollback exchange the roles of two runs in one write of the status. Everything else follows from the status: which
revision is wanted, which run is at the side, and which topics readers follow.
"""

from datetime import datetime
from typing import Any

from kappa_crds.pipeline_status import (
    PipelineState,
    Restarts,
    Run,
    RunPlace,
    RunRole,
    UpgradePhase,
    UpgradeStatus,
    drop_run,
    put_run,
)
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import ENDS, ReprocessingPhase
from kappa_crds.reprocessing_policy import OutputsPolicy
from kappa_crds.revision import Revision
from kappa_crds.upgrade import SHADOW_MODES, Handover, UpgradeMode
from kappa_operator.engine.actions import CreateObject
from kappa_operator.engine.plan import Plan, Verdict, working
from kappa_operator.pipeline.backfill import find_backfill
from kappa_operator.pipeline.model import PipelineObserved, choose_mode, is_soaking, record, wait
from kappa_operator.pipeline.revision import Place, build_revision, list_outputs
from kappa_operator.pipeline.shadow.model import BESIDE
from kappa_operator.pipeline.tuning import explain_tuning
from kappa_operator.pipeline.upgrade.change import enter, withdraw
from kappa_operator.pipeline.verdicts import explain_change
from kappa_operator.reprocessing.objects import ReprocessingResource, build_reprocessing

_COMPUTED = ("sources", "views", "sinks", "dead_letter", "python_from", "image", "reprocess_nonce")
"""Fields of a spec that decide what is computed, or that request to compute it again."""
_GIVEN_UP = (ReprocessingPhase.FAILED, ReprocessingPhase.ABORTED, ReprocessingPhase.ROLLED_BACK)


def alters_computation(before: Revision | None, after: Revision) -> bool:
    """Return whether a change alters what is computed: sources, views, sinks, Python. `before` is None where it is not known.

    A sink that is added is computed from the start of the log by the active driver, beside the others.
    """
    if before is not None and find_backfill(before, after):
        return False
    return before is None or _describe_computation(before) != _describe_computation(after)


def _describe_computation(revision: Revision) -> tuple[Any, ...]:
    sources = tuple(each.model_copy(update={"starting_offsets": None}) for each in revision.spec.sources)
    others = (getattr(revision.spec, name) for name in _COMPUTED if name != "sources")
    return (sources, *others, revision.modules)


def wants_reprocessing(observed: PipelineObserved, change: UpgradeStatus, revision: Revision) -> bool:
    """Return whether a change is made by a Reprocessing, before a dry run shows whether it fits the state."""
    if change.mode is UpgradeMode.SHADOW:
        return alters_computation(observed.side.running, revision)
    running = observed.side.running
    is_requested = running is not None and running.spec.reprocess_nonce != revision.spec.reprocess_nonce
    return change.mode is UpgradeMode.SHADOW_IF_NEEDED and is_requested


def start_reprocessing(
    observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime, **fields: Any
) -> Plan:
    """Record that a Reprocessing makes the change; the active run continues until its cutover."""
    change = change.replace(
        phase=UpgradePhase.REPROCESSING,
        handover=Handover.WARM,
        previous=observed.status.active.revision,
        declared=observed.declared,
        backfill=(),
        message=why,
        since=now.replace(microsecond=0),
    )
    state = PipelineState.PENDING if observed.alive is None else PipelineState.RUNNING
    scope = observed.resource.spec.upgrade.reprocessing.scope
    message = f"a Reprocessing computes {scope}: {why}"
    verdict = working(state, Reason.UPGRADE_REPROCESSING, message)
    return record(observed, verdict, now, upgrade=change, **fields)


def join_reprocessing(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record that the pipeline takes part in the Reprocessing of another one: the same revision computes its results again from other inputs."""
    joins, requested, status = observed.side.joins, observed.requested, observed.status
    change, dependencies = status.upgrade, observed.dependencies
    if joins is None or requested is None or isinstance(dependencies, Verdict) or status.sides:
        return None
    if observed.is_given_up:
        return None
    if change is not None and change.phase not in (UpgradePhase.DONE, UpgradePhase.WITHDRAWN):
        return None
    is_settled = status.active.content == requested.content and status.checkpoint == status.active.checkpoint
    if not is_settled or dependencies.savepoint is not None or observed.resource.spec.suspend:
        return None
    name = joins.metadata.name
    message = f"Reprocessing {name} of Pipeline {joins.spec.pipeline_ref} includes this one"
    joined = UpgradeStatus(
        phase=UpgradePhase.REPROCESSING, revision=requested.name, intent=requested.intent,
        previous=status.active.revision, mode=UpgradeMode.SHADOW, reprocessing=name, message=message,
        declared=observed.declared,
        since=now.replace(microsecond=0),
    )  # fmt: skip
    return _record(observed, message, now, upgrade=joined)


def await_chain(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Start and change nothing while a Reprocessing of several pipelines has to end for a change of this one."""
    change = observed.status.upgrade
    if change is None or change.phase not in BESIDE or change.leaves is None:
        return None
    message = f"{change.leaves}; the Reprocessing of several Pipelines ends first"
    state = PipelineState.PENDING if observed.alive is None else PipelineState.RUNNING
    return wait(observed, working(state, Reason.RECONCILING, message), now)


def follow_reprocessing(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Take the next step of a change that a Reprocessing makes; None where that decides nothing now."""
    change = observed.status.upgrade
    if change is None or change.phase not in BESIDE:
        return None
    follow = _follow_shadow if change.phase is UpgradePhase.REPROCESSING else _follow_soak
    return follow(observed, change, now)


def _follow_shadow(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan | None:
    requested, side = observed.requested, observed.side
    if side.reprocessing is not None and side.is_chain:
        return _follow_chain(observed, change, side.reprocessing, now)
    if change.reprocessing is not None:
        ended = withdraw(change, "the Reprocessing that it took part in is gone", now)
        return _record(observed, "the Reprocessing is gone; its run ends", now, upgrade=ended)
    if requested is None:
        return None
    if side.phase in _GIVEN_UP and not _is_other(observed, change):
        return _give_up(observed, change, side.reprocessing, now)
    if requested.intent != change.intent or choose_mode(observed, requested) not in SHADOW_MODES:
        ended = withdraw(change, "the spec or its mode was changed during the reprocessing", now)
        return _record(observed, "the spec was changed; its Reprocessing ends", now, upgrade=ended)
    if side.reprocessing is None:
        return _create(observed, change, now)
    if side.phase is ReprocessingPhase.CUTTING_OVER and side.reprocessing.status.cut is not None:
        return _cut_over(observed, change, now)
    return None


def _is_other(observed: PipelineObserved, change: UpgradeStatus) -> bool:
    """Return whether the spec declares something else than that change: other defaults of the operator are no other spec."""
    if change.declared is not None:
        return observed.declared != change.declared
    return observed.requested is not None and observed.requested.intent != change.intent


def _follow_chain(
    observed: PipelineObserved, change: UpgradeStatus, reprocessing: ReprocessingResource, now: datetime
) -> Plan | None:
    """Follow a Reprocessing of several pipelines. It decides for all, so a recorded cut comes first, and a change of the spec only asks it to end."""
    status = reprocessing.status
    if status.phase is ReprocessingPhase.CUTTING_OVER and status.cut is not None:
        return _cut_over(observed, change, now)
    if status.phase in ENDS:
        return _give_up(observed, change, reprocessing, now)
    return _ask_to_leave(observed, change, now)


def _ask_to_leave(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan | None:
    """Record that a Reprocessing of several pipelines has to end, because the spec of this one wants something else."""
    requested, dependencies = observed.requested, observed.dependencies
    if change.leaves is not None or requested is None or isinstance(dependencies, Verdict):
        return None
    is_soaked = change.phase is UpgradePhase.SOAKING and is_soaking(observed)
    is_same = is_soaked or requested.intent == change.intent
    if change.reprocessing is None and change.phase is UpgradePhase.REPROCESSING:
        is_same = is_same and choose_mode(observed, requested) in SHADOW_MODES
    if is_same and dependencies.savepoint is None:
        return None
    why = f"the spec of Pipeline {observed.resource.metadata.name} was changed"
    return _record(observed, why, now, upgrade=change.replace(leaves=why))


def _give_up(
    observed: PipelineObserved,
    change: UpgradeStatus,
    reprocessing: ReprocessingResource | None,
    now: datetime,
) -> Plan:
    """Record that the change is not made, and remember it: only another spec starts it again.

    A member of a chain has no change of its own, and one that asked it to end has another one.
    """
    why = (None if reprocessing is None else reprocessing.status.why) or "no reason was given"
    message = f"its Reprocessing ended as {observed.side.phase}: {why}"
    if change.reprocessing is not None or change.leaves is not None:
        return _record(observed, message, now, upgrade=withdraw(change, message, now))
    refused = enter(change.replace(message=message, given_up=change.declared), UpgradePhase.REFUSED, now)
    return record(observed, explain_change(refused), now, upgrade=refused)


def _create(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan | None:
    if observed.side.failure is not None or change.intent is None or observed.side.is_name_taken:
        return None
    return Plan((CreateObject(build_reprocessing(observed.resource, change.intent)),), requeue_after=1.0)


def _cut_over(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan | None:
    """Record that the shadow run is the active one, and the active one soaks. No driver starts or stops for it."""
    run, side = observed.side_run, observed.side
    if run is None or run.role is not RunRole.SHADOW or (run.stopping_since and not side.is_chain):
        return None
    # The cut of several pipelines is followed also where the spec was changed at the same moment.
    revision = side.revision if side.is_chain else build_shadow_revision(observed, run)
    if revision is None or revision.name != run.revision:
        return None
    change = enter(change.replace(revision=revision.name), UpgradePhase.SOAKING, now)
    message = (
        f"the new version is active, and the previous one soaks; readers follow {_name_topics(revision)}"
    )
    exchanged = exchange_runs(observed, run, RunRole.SOAKING, revision)
    verdict = working(PipelineState.RUNNING, Reason.SOAKING, message)
    return record(observed, verdict, now, upgrade=change, **exchanged)


def _follow_soak(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> Plan | None:
    requested, side = observed.requested, observed.side
    is_chain, is_done = side.is_chain, side.phase is ReprocessingPhase.DONE
    rolls_back = side.phase is ReprocessingPhase.ROLLING_BACK and side.reprocessing is not None
    if is_chain and rolls_back and side.reprocessing and side.reprocessing.status.rollback_cut is not None:
        return _roll_back(observed, change, side.reprocessing.status.why or "it was requested", now)
    if is_chain and not is_done:
        return _ask_to_leave(observed, change, now)
    why = ""
    if side.reprocessing is None or is_done:
        why = "the previous version has soaked"
    elif requested is not None and not is_soaking(observed):
        why = "the spec was changed, so the soak time ends"
    if why:
        return _record(observed, why, now, upgrade=enter(change.replace(message=why), UpgradePhase.DONE, now))
    if not rolls_back or side.reprocessing is None or side.reprocessing.status.rollback_cut is None:
        return None
    return _roll_back(observed, change, side.reprocessing.status.why or "it was requested", now)


def _roll_back(observed: PipelineObserved, change: UpgradeStatus, why: str, now: datetime) -> Plan | None:
    """Record that the soaking run is the active one again, and the new version ends."""
    run, revision = observed.side_run, observed.side.revision
    if run is None or revision is None or run.role is not RunRole.SOAKING:
        return None
    exchanged = exchange_runs(observed, run, RunRole.SHADOW, revision)
    if change.reprocessing is not None or change.leaves is not None:
        message = f"the old version is active again: {why}"
        return _record(observed, message, now, upgrade=withdraw(change, message, now), **exchanged)
    change = enter(change.replace(message=why, given_up=change.declared), UpgradePhase.ROLLED_BACK, now)
    return record(observed, explain_change(change), now, upgrade=change, **exchanged)


def exchange_runs(observed: PipelineObserved, run: Run, role: RunRole, revision: Revision) -> dict[str, Any]:
    """Return the fields of the status where the side run is active, with this revision, and the active run gets another role.

    Its failures from before do not count against it any more: it runs.
    """
    status, place = observed.status, run.place or RunPlace()
    active = run.replace(role=RunRole.ACTIVE, place=None, restarts=None, drops_outputs=False)
    former = status.active.replace(
        role=role,
        reprocessing=run.reprocessing,
        restarts=status.restarts,
        drops_outputs=drops_outputs(observed),
        place=RunPlace(
            restoration=status.restoration,
            from_beginning=status.from_beginning,
            shuffle_partitions=status.shuffle_partitions,
            inputs=None if place.inputs is None else status.inputs,
        ),
    )
    return {
        "runs": put_run(put_run(drop_run(status.runs, run.role), active), former),
        "checkpoint": run.checkpoint,
        "restoration": place.restoration,
        "from_beginning": place.from_beginning,
        "shuffle_partitions": place.shuffle_partitions,
        "inputs": status.inputs if place.inputs is None else place.inputs,
        "restarts": Restarts(total=status.restarts.total),
        "outputs": list_outputs(revision),
        "tuning": explain_tuning(revision.tuning, revision.spec),
        "executors": revision.spec.resources.executors.count,
    }


def drops_outputs(observed: PipelineObserved) -> bool:
    """Return whether the topics of the side run are to go with it."""
    reprocessing = observed.side.reprocessing
    return reprocessing is not None and reprocessing.spec.outputs is OutputsPolicy.DELETE


def build_shadow_revision(observed: PipelineObserved, run: Run) -> Revision | None:
    """Return the revision of the spec in the checkpoint of the shadow run, with its outputs; None where a dependency is missing."""
    if isinstance(observed.dependencies, Verdict):
        return None
    kept = run.place or RunPlace()
    place = Place(
        run.checkpoint,
        kept.restoration,
        kept.shuffle_partitions,
        kept.from_beginning,
        run.outputs,
        observed.status.inputs if kept.inputs is None else kept.inputs,
    )
    return build_revision(observed.resource, observed.dependencies, observed.images, place)


def _name_topics(revision: Revision) -> str:
    return ", ".join(each.topic for each in list_outputs(revision))


def _record(observed: PipelineObserved, message: str, now: datetime, **fields: Any) -> Plan:
    state = PipelineState.PENDING if observed.alive is None else PipelineState.RUNNING
    return record(observed, working(state, Reason.RECONCILING, message), now, **fields)
