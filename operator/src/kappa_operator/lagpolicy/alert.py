"""Alerts of Alertmanager beside what a LagPolicy sees itself: each is an annotation that names its own end.

The replica that receives an alert writes the annotation; the active replica acts on it, at each sample, until it ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from pydantic import ValidationError

from kappa_crds.lagpolicy import ALERT_PREFIX, AlertStatus, LagPolicySpec
from kappa_crds.reasons import Reason
from kappa_crds.resource import Metadata
from kappa_operator.engine.actions import EmitEvent
from kappa_operator.lag.evaluate import Verdict
from kappa_operator.lag.groupwise import Judged

MOST_ALERTS = 20
"""How many alerts one policy keeps; the oldest go first."""


def find_alerts(spec: LagPolicySpec, metadata: Metadata, now: datetime) -> tuple[AlertStatus, ...]:
    """Return the alerts that hold now, the worst first; none where the policy does not act on alerts."""
    if spec.remediation is None or not spec.remediation.on_alerts:
        return ()
    found = [each for each in read_alerts(metadata.annotations).values() if each.until > now]
    return tuple(sorted(found, key=lambda each: (-each.severity.rank, -each.state.rank, each.name)))


def read_alerts(annotations: Mapping[str, str]) -> dict[str, AlertStatus]:
    """Return the alerts by their annotations; what cannot be read is left out."""
    found: dict[str, AlertStatus] = {}
    for name, text in annotations.items():
        if name.startswith(ALERT_PREFIX):
            with suppress(ValidationError):
                found[name] = AlertStatus.model_validate_json(text)
    return found


def build_patch(
    annotations: Mapping[str, str], fires: Mapping[str, AlertStatus], resolved: Sequence[str], now: datetime
) -> dict[str, str | None]:
    """Return the change of a policy's annotations: alerts that fire, by fingerprint, and those that go: resolved, out of date, or too many."""
    known = read_alerts(annotations)
    kept = {name: each for name, each in known.items() if each.until > now}
    kept |= {f"{ALERT_PREFIX}{each}": alert for each, alert in fires.items()}
    for each in resolved:
        kept.pop(f"{ALERT_PREFIX}{each}", None)
    newest = sorted(kept, key=lambda name: kept[name].until, reverse=True)[:MOST_ALERTS]
    gone = [name for name in annotations if name.startswith(ALERT_PREFIX) and name not in newest]
    return {**{name: kept[name].model_dump_json() for name in newest}, **dict.fromkeys(gone)}


def raise_judged(judged: Sequence[Judged], alerts: Sequence[AlertStatus]) -> list[Judged]:
    """Return what is judged as the worst alert has it, where that is worse than what was seen; what was not seen stays unknown."""
    if not alerts:
        return list(judged)
    worst = alerts[0]
    wanted = Verdict(worst.state, worst.severity)
    raised = [
        each._replace(verdict=wanted, alert=worst.name)
        if each.sample and each.verdict.rank < wanted.rank
        else each
        for each in judged
    ]
    return sorted(raised, key=lambda each: each.rank, reverse=True)


def build_alert_news(before: Sequence[AlertStatus], after: Sequence[AlertStatus]) -> Iterator[EmitEvent]:
    """Yield an Event for each alert that was not there before."""
    known = {each.name for each in before}
    for alert in after:
        if alert.name not in known:
            known.add(alert.name)
            message = f"alert {alert.name} fires: remediations act as if it were {alert.severity}"
            yield EmitEvent(Reason.ALERT_RECEIVED, message)
