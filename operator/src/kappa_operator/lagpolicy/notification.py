"""Notifications of a LagPolicy's webhook: each change of severity is delivered in order, at least once, with a bounded number of attempts.

A notification is recorded before the webhook is called, and each attempt too. The call runs beside the reconciles; a later one finds
its result. One that was cut short is made again with the same id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from kappa_crds.lagremediation import NotificationResult, NotificationStatus, Webhook, WebhookLevel
from kappa_crds.lagstate import LagState, Severity
from kappa_crds.reasons import Reason
from kappa_crds.resource import Metadata
from kappa_operator import backoff
from kappa_operator.engine.actions import Action, CallWebhook, EmitEvent
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.plan import Failure

MOST_ATTEMPTS = 8
_MOST_WAITING = 10
"""The most notifications that wait; of more, the oldest are dropped, as newer ones have the present state."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What came of an attempt: `error` is None where the webhook took it."""

    id: str
    attempt: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Notified:
    """The notifications as they are to be in status, and what is to be done once they are."""

    records: tuple[NotificationStatus, ...] = ()
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Outlook:
    """The state of a policy at a time, for its notifications. There are none while it is `muted`."""

    policy: Metadata
    now: datetime
    severity: Severity
    state: LagState
    message: str
    cluster: str | None = None
    muted: bool = False
    deliveries: Sequence[Delivery] = ()


def decide_notifications(
    webhook: Webhook | None, outlook: Outlook, before: Sequence[NotificationStatus]
) -> Notified:
    """Return the notifications after a sample. Without a webhook, waiting ones are dropped."""
    waiting = [each for each in before if each.result is NotificationResult.PENDING]
    done = [each for each in before if each.result is not NotificationResult.PENDING]
    if webhook is None:
        return Notified(tuple(done))
    last = before[-1].severity if before else Severity.NONE
    news = _find_news(webhook, outlook, last)
    waiting = [*waiting, *news][-_MOST_WAITING:]
    if not waiting:
        return Notified(tuple(done[-1:]))
    head, actions = _deliver(webhook, outlook, waiting[0])
    if head.result is not NotificationResult.PENDING:
        done, waiting = [head], waiting[1:]
        return Notified((head, *waiting), (_tell(webhook, head),))
    return Notified((*done[-1:], head, *waiting[1:]), actions)


def _find_news(webhook: Webhook, outlook: Outlook, last: Severity) -> list[NotificationStatus]:
    """Return the notification of a change, if there is one. A recovery is notified where it is known."""
    severity = outlook.severity
    if webhook.min_severity is WebhookLevel.CRITICAL and severity is not Severity.CRITICAL:
        severity = Severity.NONE
    is_vague = outlook.severity is Severity.NONE and outlook.state is not LagState.OK
    if outlook.muted or severity is last or is_vague:
        return []
    at = outlook.now.replace(microsecond=0)
    name = f"{outlook.policy.uid}-{at:%Y%m%dT%H%M%SZ}-{severity}"
    return [
        NotificationStatus(
            id=name, severity=severity, before=last, state=outlook.state, message=outlook.message, at=at
        )
    ]


def _deliver(
    webhook: Webhook, outlook: Outlook, head: NotificationStatus
) -> tuple[NotificationStatus, tuple[Action, ...]]:
    """Return the first that waits, with what came of its attempt, and the next call where one is due."""
    if head.next_attempt is not None and outlook.now < head.next_attempt:
        return head, ()
    if head.attempts == 0 or head.next_attempt is not None:
        head = head.replace(attempts=head.attempts + 1, next_attempt=None)
    attempt = head.id, head.attempts
    found = next((each for each in outlook.deliveries if (each.id, each.attempt) == attempt), None)
    if found is None:
        return head, (_build_call(webhook, outlook, head),)
    if found.error is None:
        return head.replace(result=NotificationResult.DELIVERED, error=None), ()
    if head.attempts >= MOST_ATTEMPTS:
        return head.replace(result=NotificationResult.FAILED, error=found.error), ()
    pause = round(backoff.WEBHOOK.pause(head.attempts, head.id))
    due = outlook.now.replace(microsecond=0) + timedelta(seconds=pause)
    return head.replace(next_attempt=due, error=found.error), ()


def _build_call(webhook: Webhook, outlook: Outlook, head: NotificationStatus) -> CallWebhook:
    ref, address, policy = webhook.token_secret_ref, webhook.url_secret_ref, outlook.policy
    document = {
        "version": "v1",
        "id": head.id,
        "policy": {"namespace": policy.namespace, "name": policy.name, "uid": policy.uid},
        "cluster": outlook.cluster,
        "severity": head.severity.value,
        "before": head.before.value,
        "state": head.state.value,
        "message": head.message,
        "at": head.at.isoformat().replace("+00:00", "Z"),
    }
    return CallWebhook(
        Key("LagPolicy", policy.namespace, policy.name), webhook.url or "", head.id, head.attempts, document,
        None if ref is None else ObjectRef("v1", "Secret", policy.namespace, ref.name),
        "" if ref is None else ref.key,
        None if address is None else ObjectRef("v1", "Secret", policy.namespace, address.name),
        "" if address is None else address.key,
    )  # fmt: skip


def _tell(webhook: Webhook, head: NotificationStatus) -> EmitEvent:
    host = "the webhook" if webhook.url is None else urlsplit(webhook.url).hostname
    if head.result is NotificationResult.DELIVERED:
        return EmitEvent(Reason.WEBHOOK_DELIVERED, f"{host} was notified: {head.before} to {head.severity}")
    message = f"{host} was not notified ({head.before} to {head.severity}), given up after {head.attempts} attempts: {head.error}"
    return EmitEvent(Reason.WEBHOOK_FAILED, message, warning=True)


def find_failed_calls(failures: Sequence[Failure]) -> list[Delivery]:
    """Return the attempts that could not even be begun: the host may not be called, or the Secret is not there."""
    return [
        Delivery(each.action.id, each.action.attempt, each.error.message)
        for each in failures
        if isinstance(each.action, CallWebhook)
    ]
