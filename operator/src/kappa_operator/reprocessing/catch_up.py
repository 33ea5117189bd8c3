"""How far the new version is: lag and estimate for people, and whether it has caught up."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.pipeline_status import UpgradePhase
from kappa_crds.progress import Progress
from kappa_crds.quantities import format_duration
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import CatchUp, PartitionCatchUp
from kappa_operator.lag.model import Partition
from kappa_operator.log.eta import Eta, ReplaySample
from kappa_operator.reprocessing.model import ReprocessingObserved
from kappa_operator.reprocessing.objects import find_replay_executors
from kappa_operator.reprocessing.quota import explain_quota

MOST_PARTITIONS = 50
_AT_REST = (UpgradePhase.DONE, UpgradePhase.WITHDRAWN)
STEADY = 20.0
"""Seconds for which the new version has to be near to the end of the log."""


def list_positions(progress: Progress, at: datetime) -> dict[Partition, ReplaySample]:
    """Return for each partition the lowest offset of all queries that read it, and the end of its log."""
    found: dict[Partition, ReplaySample] = {}
    for query in progress.queries:
        for source in query.sources:
            for topic, ends in source.latest_offsets.items():
                for number, end in ends.items():
                    position = source.end_offsets.get(topic, {}).get(number, 0)
                    key = Partition(topic, number)
                    known = found.get(key)
                    lowest = position if known is None else min(position, known.position)
                    found[key] = ReplaySample(at, lowest, end if known is None else max(end, known.end))
    return found


def measure(observed: ReprocessingObserved, now: datetime) -> CatchUp | None:
    """Return how far the new version is, None before its driver reports."""
    side, active = observed.side, observed.active
    if side is None or side.progress is None:
        return None
    progress, eta = side.progress, observed.eta
    times = _list_etas(eta, now)
    partitions = [
        PartitionCatchUp(
            topic=key.topic,
            partition=key.number,
            offset=each.position,
            end=each.end,
            eta_seconds=times.get(key),
        )
        for key, each in list_positions(progress, now).items()
    ]
    partitions.sort(key=lambda each: (each.offset - each.end, each.topic, each.partition))
    at = None if eta is None else eta.at
    return CatchUp(
        lag=progress.lag,
        active_lag=active.progress.lag if active is not None and active.progress is not None else 0,
        records_per_second=round(sum(query.processed_rows_per_second for query in progress.queries), 1),
        executors=progress.executors,
        wanted_executors=_find_executors(observed, replays=progress.replaying),
        eta=None if at is None else format_duration(max(0.0, (at - now).total_seconds())),
        measured=now.replace(microsecond=0),
        partitions=tuple(partitions[:MOST_PARTITIONS]),
        overtake=observed.overtakes[0].describe(now) if observed.overtakes else None,
    )


def _find_executors(observed: ReprocessingObserved, *, replays: bool) -> int:
    if observed.pipeline is None:
        return 0
    spec = observed.pipeline.spec
    return (find_replay_executors(spec) if replays else None) or spec.resources.executors.count


def _list_etas(eta: Eta | None, now: datetime) -> dict[Partition, int]:
    found = () if eta is None else eta.partitions
    return {each.partition: round((each.at - now).total_seconds()) for each in found if each.at is not None}


def is_near(progress: Progress | None, active_lag: int) -> bool:
    """Return whether the new version is at most one batch behind the active one, by what both reported last."""
    if progress is None or not progress.queries or progress.replaying:
        return False
    if not all(source.latest_offsets for query in progress.queries for source in query.sources):
        return False
    if any(query.batch_id < 0 and source.lag > 0 for query in progress.queries for source in query.sources):
        return False
    batch = max((query.input_rows for query in progress.queries), default=0)
    return progress.lag <= active_lag + batch


@dataclass(frozen=True, slots=True)
class PartyState:
    """How far a new version is: what its status gets, and why it is not ready, empty where it is."""

    fields: dict[str, Any]
    message: str = ""
    reason: Reason = Reason.CATCHING_UP


def judge_party(party: ReprocessingObserved, now: datetime) -> PartyState:
    """Return how far the new version of one pipeline is."""
    side, measured, since = party.side, measure(party, now), party.status.caught_up_since
    fields: dict[str, Any] = {"catch_up": party.status.catch_up, "caught_up_since": None}
    where = f"Pipeline {party.name}: " if party.is_chain else ""
    if party.member is not None:
        fields["joined"] = party.member.joined or party.change is not None
    if side is None or side.progress is None or measured is None:
        return PartyState(fields, f"{where}{explain_start(party)}", Reason.SIDE_RUN_BLOCKED)
    fields["catch_up"] = measured
    if not is_near(side.progress, measured.active_lag):
        estimate = "" if party.eta is None else f"; {party.eta.message}"
        message = f"{where}{measured.lag} records behind{estimate}{explain_quota(party)}"
        overtake = "" if measured.overtake is None else f"; {measured.overtake}"
        return PartyState(fields, f"{message}{overtake}")
    fields["caught_up_since"] = since or now.replace(microsecond=0)
    if since is None or (now - since).total_seconds() < STEADY:
        return PartyState(fields, f"{where}caught up; it is observed for some seconds")
    return PartyState(fields)


def explain_start(party: ReprocessingObserved) -> str:
    """Return why the driver of a new version does not report yet."""
    side, pipeline = party.side, party.pipeline
    if side is None and party.member is not None:
        change = None if pipeline is None else pipeline.status.upgrade
        if party.change is None and change is not None and change.phase not in _AT_REST:
            return f"it has a change in phase {change.phase}, which has to end first"
        return f"its new version starts when those of {', '.join(party.member.after)} have caught up"
    if side is None:
        return "the Pipeline creates the topics and the run of the new version"
    restarts, pod = side.run.restarts, side.pod
    if pod is not None and pod.waiting is not None:
        return pod.waiting[1]
    if pod is None and restarts is not None and restarts.last_failure is not None:
        return f"the driver of the new version failed, and starts again after a back-off: {restarts.last_failure}"
    return "the driver of the new version starts"
