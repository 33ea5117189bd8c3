"""The messages about a group partition: its state with the figures, and the field of the bound."""

from datetime import datetime

from kappa_crds.lagstate import LagState
from kappa_crds.quantities import format_count, format_duration
from kappa_operator.lag.comparison import count_lost, has_work
from kappa_operator.lag.groupwise import Judged
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.model import GroupPartition, Sample
from kappa_operator.lag.rules import Rules, Threshold


def name_pair(pair: GroupPartition) -> str:
    """Return the name of a group partition: `billing orders[3]`."""
    return f"{pair.group} {pair.partition.topic}[{pair.partition.number}]"


def render_lag(sample: Sample) -> str:
    """Return a lag as text: `1.2k records, 1m20s`."""
    records = f"{format_count(sample.lag)} records" if sample.lag != 1 else "1 record"
    return records if sample.behind is None else f"{records}, {format_duration(sample.behind)}"


def explain(judged: Judged, rules: Rules, now: datetime) -> str:
    """Return why a group partition has its verdict."""
    history, sample = judged.history, judged.sample
    if judged.alert is not None:
        return f"alert {judged.alert} fires"
    match judged.verdict.state:
        case LagState.OK:
            return "lag is within the bounds"
        case LagState.UNKNOWN:
            return _explain_unknown(judged, rules, now)
        case LagState.REWOUND:
            return f"the committed offset went back from {history.rewound_from} and is {history.committed}"
        case LagState.LOSING:
            return _explain_loss(history, sample)
        case LagState.STALLED:
            return f"{_explain_standstill(history, sample, now)}, but the group is alive: it moves in other partitions, or its pipeline runs"
        case LagState.STOPPED:
            return f"{_explain_standstill(history, sample, now)}; no committed offset of the group moves"
        case _:
            return _explain_lag(history, sample, rules)


def _explain_unknown(judged: Judged, rules: Rules, now: datetime) -> str:
    history, sample = judged.history, judged.sample
    if sample is None or abs((now - sample.at).total_seconds()) > rules.silence:
        why = "" if judged.unseen is None else f": {judged.unseen}"
        return f"last sample at {history.at:%Y-%m-%d %H:%M:%S} UTC{why}"
    if sample.committed is None:
        return f"the group has no committed offset, and the partition has {format_count(sample.log.stable - sample.log.start)} records"
    if sample.ahead:
        return f"the committed offset {sample.committed} is past the end {sample.log.end}: the topic was recreated"
    if sample.behind is None:
        return f"lag of {render_lag(sample)}; the age of the oldest record is unknown"
    return f"lag of {render_lag(sample)} over a bound, for an unknown time"


def _explain_loss(history: LagHistory, sample: Sample | None) -> str:
    if sample is None:
        return "records were removed, or about to be, at the last sample"
    lost = count_lost(history, sample)
    if lost:
        return f"{lost} offsets before {sample.log.start} were removed before the group read them; its committed offset is {sample.committed}"
    if sample.loss is None or not has_work(history, sample):
        return "records were about to be removed; now they are not, for less than spec.clearAfter"
    return f"retention removes the oldest of {render_lag(sample)} in {format_duration(sample.loss)}"


def _explain_standstill(history: LagHistory, sample: Sample | None, now: datetime) -> str:
    if history.still is None or sample is None:
        return "it moves again, for less than spec.clearAfter"
    still = format_duration(max(0.0, (now - history.still).total_seconds()))
    return f"the committed offset {history.committed} has not moved for {still} with a lag of {render_lag(sample)}"


def _explain_lag(history: LagHistory, sample: Sample | None, rules: Rules) -> str:
    if sample is None:
        return "lag was over a bound at the last sample"
    for name, bound, since in (
        ("critical", rules.critical, history.over_critical),
        ("warning", rules.warning, history.over_warning),
    ):
        if bound is not None and since is not None:
            return f"lag of {render_lag(sample)} over spec.{name}.{_find_field(bound, sample)}"
    return f"lag of {render_lag(sample)} within the bounds, for less than spec.clearAfter"


def _find_field(bound: Threshold, sample: Sample) -> str:
    if bound.records is not None and sample.lag > bound.records:
        return f"records ({bound.records})"
    return "lag" if bound.lag is None else f"lag ({format_duration(bound.lag)})"
