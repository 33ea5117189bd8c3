"""Another driver for a pipeline that runs and does not move: a few times, with pauses, and then it is left to people."""

from datetime import datetime

from kappa_crds.lagremediation import RemediationKind, RemediationStatus, RestartRemediation
from kappa_crds.lagstate import LagState
from kappa_crds.pipeline_status import PipelineState
from kappa_crds.quantities import parse_duration
from kappa_operator.lag.groupwise import Judged
from kappa_operator.lagpolicy.remediation.model import PipelineCase, is_cooling


def decide_restart(
    settings: RestartRemediation | None,
    case: PipelineCase,
    before: RemediationStatus | None,
    now: datetime,
) -> RemediationStatus | None:
    """Return the restart to be recorded, or the last one with its count reset or given up; None where nothing changes."""
    if settings is None:
        return None
    facts, verdict = case.facts, case.verdict
    if verdict.state is LagState.OK and before is not None and before.count:
        return before.replace(count=0, message=None)
    is_running = facts.state == PipelineState.RUNNING.value and facts.steady
    if (
        verdict.state is not LagState.STALLED
        or not is_running
        or is_cooling(before, parse_duration(settings.cool_down), now)
    ):
        return None
    count = 0 if before is None else before.count
    if before is not None and count >= settings.at_most:
        message = f"given up after {count} restarts; find the record that it cannot process"
        return None if before.message == message else before.replace(message=message)
    return RemediationStatus(
        kind=RemediationKind.RESTART_STALLED, target=facts.name, before=facts.nonce or None, wanted=f"lag-{now:%Y%m%d%H%M%S}",
        at=now.replace(microsecond=0), why=f"restart {count + 1} of {settings.at_most}: {case.why}", count=count + 1,
    )  # fmt: skip


def has_moved(worst: Judged, since: datetime) -> bool:
    """Return whether a stalled group has moved since the decision to restart: its state is cleared only later."""
    moved = worst.history.moved
    return worst.verdict.state is not LagState.STALLED or (moved is not None and moved > since)
