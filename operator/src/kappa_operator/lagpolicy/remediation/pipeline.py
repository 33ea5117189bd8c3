"""Which remediation a pipeline gets now, if any: one at a time, the mildest that helps first."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from kappa_crds.lagremediation import Remediation, RemediationKind, RemediationStatus
from kappa_crds.quantities import parse_duration
from kappa_operator.lagpolicy.remediation.batch import decide_limit
from kappa_operator.lagpolicy.remediation.model import PipelineCase, find_record, is_cooling
from kappa_operator.lagpolicy.remediation.restart import decide_restart
from kappa_operator.lagpolicy.remediation.savepoint import add_savepoint
from kappa_operator.lagpolicy.remediation.scale import count_regrets, decide_executors


def decide_for_pipeline(
    remediation: Remediation, case: PipelineCase, records: Sequence[RemediationStatus], now: datetime
) -> RemediationStatus | None:
    """Return the remediation to be recorded, or a record that changes; None where all stays as it is."""
    before = {kind: find_record(records, kind, case.facts.name) for kind in RemediationKind}
    found = (
        decide_restart(remediation.restart_stalled, case, before[RemediationKind.RESTART_STALLED], now)
        or decide_limit(remediation.raise_batch_limit, case, before[RemediationKind.RAISE_BATCH_LIMIT], now)
        or _decide_scale(remediation, case, before, now)
    )
    if found is None:
        return None
    last = before[found.kind]
    return (
        found if last is not None and last.at == found.at else add_savepoint(remediation, case.facts, found)
    )


def _is_settling(remediation: Remediation, last: RemediationStatus | None, now: datetime) -> bool:
    """Return whether batches have just got another size: what that is worth comes out before there are other executors."""
    limit = remediation.raise_batch_limit
    return limit is not None and is_cooling(last, parse_duration(limit.cool_down), now)


def _decide_scale(
    remediation: Remediation,
    case: PipelineCase,
    records: Mapping[RemediationKind, RemediationStatus | None],
    now: datetime,
) -> RemediationStatus | None:
    settings, facts, before = remediation.scale, case.facts, records[RemediationKind.SCALE]
    if settings is None or case.load is None or not facts.steady or facts.stateless or facts.executors < 1:
        return None
    if _is_settling(remediation, records[RemediationKind.RAISE_BATCH_LIMIT], now):
        return None
    last, regrets = (before.at, before.count) if before is not None else (None, 0)
    change = decide_executors(settings, case.load, case.waits, case.verdict, last=last, regrets=regrets)
    if change is None:
        return None
    if before is not None and change.executors > facts.executors:
        fell = before.at if before.before is not None and int(before.before) > int(before.wanted) else None
        regrets = count_regrets(settings, fell=fell, now=now, regrets=regrets)
    return RemediationStatus(
        kind=RemediationKind.SCALE, target=facts.name, before=str(facts.executors), wanted=str(change.executors),
        at=now.replace(microsecond=0), why=change.why, count=regrets,
    )  # fmt: skip
