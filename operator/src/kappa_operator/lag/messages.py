"""What is said of a share to people: what is the case, with the figures, and where the bound stands."""

from datetime import datetime

from kappa_crds.lagstate import LagState
from kappa_crds.quantities import format_count, format_duration
from kappa_operator.lag.groupwise import Judged
from kappa_operator.lag.history import Standing
from kappa_operator.lag.model import Sample, Share
from kappa_operator.lag.rules import Rules, Threshold
from kappa_operator.lag.sample import count_lost, has_work


def name_share(share: Share) -> str:
    """Say a share in one word: `billing orders[3]`."""
    return f"{share.group} {share.partition.topic}[{share.partition.number}]"


def render_lag(sample: Sample) -> str:
    """Say a lag shortly: `1.2k records, 1m20s`."""
    records = f"{format_count(sample.lag)} records" if sample.lag != 1 else "1 record"
    return records if sample.behind is None else f"{records}, {format_duration(sample.behind)}"


def explain(judged: Judged, rules: Rules, now: datetime) -> str:
    """Say why a share is judged so."""
    standing, sample = judged.standing, judged.sample
    if judged.alert is not None:
        return f"alert {judged.alert} fires"
    match judged.verdict.state:
        case LagState.OK:
            return "all bounds are kept"
        case LagState.UNKNOWN:
            return _explain_unknown(judged, rules, now)
        case LagState.REWOUND:
            return f"the committed offset went back from {standing.rewound_from} and is {standing.committed}"
        case LagState.LOSING:
            return _explain_loss(standing, sample)
        case LagState.STALLED:
            return f"{_say_standstill(standing, sample, now)}, though the group lives: it moves elsewhere, or its pipeline runs"
        case LagState.STOPPED:
            return f"{_say_standstill(standing, sample, now)}; nothing of the group moves"
        case _:
            return _explain_lag(standing, sample, rules)


def _explain_unknown(judged: Judged, rules: Rules, now: datetime) -> str:
    standing, sample = judged.standing, judged.sample
    if sample is None or abs((now - sample.at).total_seconds()) > rules.silence:
        why = "" if judged.unseen is None else f": {judged.unseen}"
        return f"it was seen last at {standing.at:%Y-%m-%d %H:%M:%S} UTC{why}"
    if sample.committed is None:
        return f"the group has committed nothing, and {format_count(sample.log.stable - sample.log.start)} records are there"
    if sample.ahead:
        return f"the committed offset {sample.committed} is past the end {sample.log.end}: the topic was made anew"
    if sample.behind is None:
        return f"{render_lag(sample)} wait, and it is not known how old the oldest one is"
    return f"{render_lag(sample)} wait, over a bound, and it is not known for how long"


def _explain_loss(standing: Standing, sample: Sample | None) -> str:
    if sample is None:
        return "records were removed, or about to be, when it was seen last"
    lost = count_lost(standing, sample)
    if lost:
        return f"{lost} offsets before {sample.log.start} were removed before the group came to them; it is at {sample.committed}"
    if sample.loss is None or not has_work(standing, sample):
        return "records were about to be removed; it is well again, but not for spec.clearAfter yet"
    return f"retention removes the oldest of {render_lag(sample)} in {format_duration(sample.loss)}"


def _say_standstill(standing: Standing, sample: Sample | None, now: datetime) -> str:
    if standing.still is None or sample is None:
        return "it moves again, but not for spec.clearAfter yet"
    still = format_duration(max(0.0, (now - standing.still).total_seconds()))
    return (
        f"the committed offset {standing.committed} has not moved for {still} while {render_lag(sample)} wait"
    )


def _explain_lag(standing: Standing, sample: Sample | None, rules: Rules) -> str:
    if sample is None:
        return "it was over a bound when it was seen last"
    for name, bound, since in (
        ("critical", rules.critical, standing.over_critical),
        ("warning", rules.warning, standing.over_warning),
    ):
        if bound is not None and since is not None:
            return f"{render_lag(sample)} wait, over spec.{name}.{_find_field(bound, sample)}"
    return f"{render_lag(sample)} wait, within the bounds, but not for spec.clearAfter yet"


def _find_field(bound: Threshold, sample: Sample) -> str:
    if bound.records is not None and sample.lag > bound.records:
        return f"records ({bound.records})"
    return "lag" if bound.lag is None else f"lag ({format_duration(bound.lag)})"
