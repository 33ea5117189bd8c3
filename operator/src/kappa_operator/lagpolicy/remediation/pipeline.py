"""Which remediation a pipeline gets now, if any: one at a time, the mildest that helps first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kappa_crds.lagremediation import Remediation, RemediationKind, RemediationStatus, ScaleRemediation
from kappa_crds.quantities import parse_duration
from kappa_operator.lag.groupwise import Judged
from kappa_operator.lag.load import Load
from kappa_operator.lagpolicy.remediation.batch import Pace, decide_limit
from kappa_operator.lagpolicy.remediation.model import PipelineFacts, find_record, is_cooling
from kappa_operator.lagpolicy.remediation.restart import decide_restart
from kappa_operator.lagpolicy.remediation.savepoint import add_savepoint
from kappa_operator.lagpolicy.remediation.scale import count_regrets, decide_executors


@dataclass(frozen=True, slots=True)
class PipelineCase:
    """A pipeline with what is known of it: its judged shares, the worst first and with why, and what was measured of its rates."""

    facts: PipelineFacts
    own: Sequence[Judged]
    why: str
    load: Load | None = None

    @property
    def waits(self) -> int:
        """Return the records that wait in all partitions."""
        return sum(each.sample.lag for each in self.own if each.sample is not None)

    def build_pace(self, load: Load) -> Pace:
        """Return what a decision about its batches needs."""
        return Pace(self.facts, load, self.waits, self.own[0].verdict)


def decide_for_pipeline(
    remediation: Remediation, case: PipelineCase, records: Sequence[RemediationStatus], now: datetime
) -> RemediationStatus | None:
    """Return the remediation to be recorded, or a record that changes; None where all stays as it is."""
    facts = case.facts
    before = {kind: find_record(records, kind, facts.name) for kind in RemediationKind}
    found: RemediationStatus | None = None
    if remediation.restart_stalled is not None:
        last = before[RemediationKind.RESTART_STALLED]
        verdict = case.own[0].verdict
        found = decide_restart(remediation.restart_stalled, facts, verdict, case.why, before=last, now=now)
    if found is None and case.load is not None:
        limit = remediation.raise_batch_limit
        found = decide_limit(
            limit, case.build_pace(case.load), before[RemediationKind.RAISE_BATCH_LIMIT], now
        )
    if (
        found is None
        and remediation.scale is not None
        and case.load is not None
        and not _is_settling(remediation, before, now)
    ):
        found = _decide_scale(
            remediation.scale, case, case.load, before=before[RemediationKind.SCALE], now=now
        )
    if found is None:
        return None
    last = before[found.kind]
    return found if last is not None and last.at == found.at else add_savepoint(remediation, facts, found)


def _is_settling(
    remediation: Remediation, before: Mapping[RemediationKind, RemediationStatus | None], now: datetime
) -> bool:
    """Return whether batches have just got another size: what that is worth comes out before there are other executors."""
    limit = remediation.raise_batch_limit
    last = before[RemediationKind.RAISE_BATCH_LIMIT]
    return limit is not None and is_cooling(last, parse_duration(limit.cool_down), now)


def _decide_scale(
    settings: ScaleRemediation,
    case: PipelineCase,
    load: Load,
    *,
    before: RemediationStatus | None,
    now: datetime,
) -> RemediationStatus | None:
    facts = case.facts
    if not facts.steady or facts.stateless or facts.executors < 1:
        return None
    last, regrets = (before.at, before.count) if before is not None else (None, 0)
    change = decide_executors(settings, load, case.waits, case.own[0].verdict, last=last, regrets=regrets)
    if change is None:
        return None
    if before is not None and change.executors > facts.executors:
        fell = before.at if before.before is not None and int(before.before) > int(before.wanted) else None
        regrets = count_regrets(settings, fell=fell, now=now, regrets=regrets)
    return RemediationStatus(
        kind=RemediationKind.SCALE, target=facts.name, before=str(facts.executors), wanted=str(change.executors),
        at=now.replace(microsecond=0), why=change.why, count=regrets,
    )  # fmt: skip
