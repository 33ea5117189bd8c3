"""Remediations of a LagPolicy: each one is opt-in, bounded, and reported."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.lagstate import LagState, Severity
from kappa_crds.model import Duration, Model, PositiveDuration, Rule, Status
from kappa_crds.resource import SecretRef


class ScaleRemediation(Model):
    """More executors for a pipeline that is behind, and fewer again."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.min <= self.max", "min is more than max; make it at most as many"),
    )
    min: Annotated[int, Field(ge=1, le=1000)] = 1
    """Fewest executors."""
    max: Annotated[int, Field(ge=1, le=1000)]
    """Most executors."""
    drain_within: PositiveDuration = "5m"
    """Target time to process the lag, at the measured rates."""
    cool_down: PositiveDuration = "3m"
    """Minimum time between changes; longer than the start of executors takes."""
    quiet_for: PositiveDuration = "10m"
    """How long the pipeline must be healthy before executors are removed; longer than the usual
    fluctuation of its input. It doubles, up to eight times, when a reduction came too early."""


class BatchLimitRemediation(Model):
    """Larger batches for a pipeline that is behind because spec.trigger.maxRecords bounds them, and the
    bound before again."""

    up_to: Annotated[int, Field(ge=1, le=1_000_000_000)]
    """Most records that a batch may take; what fits into memory."""
    factor: Annotated[int, Field(ge=2, le=10)] = 2
    """How much larger they become at a time."""
    drain_within: PositiveDuration = "5m"
    """Target time to process the lag, at the measured rates."""
    cool_down: PositiveDuration = "3m"
    """Minimum time between changes; each one starts another driver."""
    quiet_for: PositiveDuration = "10m"
    """How long the pipeline must be healthy before the previous limit is restored. It doubles, up to eight
    times, when a reduction came too early."""


class RestartRemediation(Model):
    """Another driver for a pipeline that runs and does not move; its state is kept in every mode."""

    at_most: Annotated[int, Field(ge=1, le=10)] = 3
    """Maximum number of restarts until the pipeline is healthy again."""
    cool_down: PositiveDuration = "10m"
    """Minimum time between restarts."""


class RetentionRemediation(Model):
    """Longer retention of a topic while records that wait would be removed, and the retention before
    afterwards."""

    up_to: PositiveDuration
    """Longest retention, such as 14d."""
    cool_down: Duration = "10m"
    """Minimum time between changes."""


class SavepointWhen(StrEnum):
    """Of which pipelines a savepoint is taken before a remediation gives them another driver."""

    WHERE_KEPT = "WhereKept"
    ALWAYS = "Always"
    NEVER = "Never"


class SavepointBefore(Model):
    """A savepoint before a remediation that gives a pipeline another driver."""

    when: SavepointWhen = SavepointWhen.WHERE_KEPT
    """WhereKept: of pipelines whose spec.savepoints has maxCount or maxAge, so that they go again. Always: of
    all; those of other pipelines stay until a user deletes them. Never: of none."""
    within: PositiveDuration = "2m"
    """How long the remediation waits for it. Then it is applied without the savepoint, and reports it."""


LAG_FINALIZER = "kappa-platform.io/lag-quotas"
"""Holds the deletion of a LagPolicy until the quotas that it set are as they were."""

ClientId = Annotated[
    str,
    Field(min_length=1, max_length=249),
    Rule(
        "!self.matches('[^!-~]')",
        "must be the client.id of producers as they have it, without spaces or wildcards",
    ),
]
User = Annotated[
    str,
    Field(min_length=1, max_length=249),
    Rule(
        "!self.matches('[^ -~]') && !self.contains(' client-id=')",
        "must be a user as Kafka knows it, such as etl or CN=etl,OU=shop",
    ),
]


def _is_same(field: str) -> str:
    """Return the CEL condition that `e` and `other` have the same in a field, or both nothing."""
    return f"has(e.{field}) == has(other.{field}) && (!has(e.{field}) || e.{field} == other.{field})"


class ProducerRef(Model):
    """Producers that obey, as Kafka's quotas name them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.clientId) || has(self.user)", "names no producer; set clientId, user, or both"),
    )
    client_id: ClientId | None = None
    """Their client.id."""
    user: User | None = None
    """The user that they log in as; with clientId only where both are so."""


class ThrottleRemediation(Model):
    """Producers that are slowed down by a quota while it is critical, and have the quota that they had
    before afterwards."""

    producers: Annotated[
        tuple[ProducerRef, ...],
        Field(min_length=1, max_length=16),
        Rule(
            f"self.all(e, self.exists_one(other, {_is_same('clientId')} && {_is_same('user')}))",
            "names a producer twice; leave one of them out",
        ),
    ]
    """The producers to throttle; others are not affected."""
    bytes_per_second: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1024
    """What each of them may still send to one broker. One that has a smaller quota keeps it."""
    at_most: PositiveDuration = "1h"
    """Maximum duration. Then the producers are released, and not throttled again until all groups were
    healthy once."""
    quiet_for: PositiveDuration = "5m"
    """How long all groups must be healthy before producers are released. It doubles, up to eight times,
    when a release came too early."""
    cool_down: Duration = "10m"
    """Minimum time between a release and the next throttling."""


class WebhookLevel(StrEnum):
    """From which severity on a webhook is called."""

    WARNING = "Warning"
    CRITICAL = "Critical"


class TokenSecretRef(SecretRef):
    """A Secret that holds a bearer token."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "token"
    """Key of the Secret that holds the token."""


class UrlSecretRef(SecretRef):
    """A Secret that holds an address."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "url"
    """Key of the Secret that holds the address."""


class Webhook(Model):
    """A server that receives a JSON document by POST. A setting of the operator lists the allowed hosts."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.url) != has(self.urlSecretRef)", "set exactly one of url and urlSecretRef"),
    )
    url: Annotated[
        str | None,
        Field(min_length=8, max_length=2048),
        Rule(
            "self.matches('^https?://[^/@?# ]+([/?][^# ]*)?$')",
            "must be an http or https address without user and password, such as https://hooks.example.com/lag",
        ),
    ] = None
    """Its address. Readers of the policy can read it; an address with a token belongs into a Secret."""
    url_secret_ref: UrlSecretRef | None = None
    """The address, where it has a token."""
    token_secret_ref: TokenSecretRef | None = None
    """The token that is sent as Authorization: Bearer. Its Secret must name the host in its annotation
    secrets.kappa-platform.io/webhook."""
    min_severity: WebhookLevel = WebhookLevel.WARNING
    """Warning: notify of each change of the severity. Critical: of Critical, and of its end."""


class NotificationResult(StrEnum):
    """What became of a notification."""

    PENDING = "Pending"
    DELIVERED = "Delivered"
    FAILED = "Failed"


class NotificationStatus(Status):
    """A notification, recorded before it is sent. It may be delivered twice, with one id."""

    id: str
    """The same in each attempt, and in no other notification."""
    severity: Severity
    """What it is now."""
    before: Severity
    """What it was before."""
    state: LagState
    """The state of the worst."""
    message: str
    """Why, for people."""
    at: datetime
    """When that was seen."""
    result: NotificationResult = NotificationResult.PENDING
    """What became of it."""
    attempts: Annotated[int, Field(ge=0)] = 0
    """How often the webhook was called for it."""
    next_attempt: datetime | None = None
    """When it is called again, after an attempt failed."""
    error: str | None = None
    """Why the last attempt failed."""


class Remediation(Model):
    """What is done about lag."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.scale) || has(self.raiseBatchLimit) || has(self.restartStalled) || has(self.holdRetention)"
            " || has(self.throttleProducers) || has(self.webhook)",
            "spec.remediation has no remediation; set scale, raiseBatchLimit, restartStalled, holdRetention, throttleProducers or webhook, or leave remediation out",
        ),
    )
    scale: ScaleRemediation | None = None
    """Executors of the pipelines that are selected."""
    raise_batch_limit: BatchLimitRemediation | None = None
    """Size of the batches of pipelines that declare trigger.maxRecords."""
    restart_stalled: RestartRemediation | None = None
    """Another driver for a pipeline that is Stalled."""
    hold_retention: RetentionRemediation | None = None
    """Longer retention while time to loss is below a bound, of Topics that declare retention.time."""

    throttle_producers: ThrottleRemediation | None = None
    """A quota for producers that obey, while anything that is selected is Critical."""
    webhook: Webhook | None = None
    """A server that is notified of changes of the severity."""
    on_alerts: bool = False
    """Whether alerts that Alertmanager sends to the operator, with the labels namespace and lagpolicy, set
    the remediations off too."""
    savepoint: SavepointBefore = SavepointBefore()
    """The savepoint before scale, raiseBatchLimit and restartStalled, which give a pipeline another driver."""

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the configured remediations that change a resource."""
        return frozenset(self.to_manifest()) - {"onAlerts", "savepoint", "webhook"}


class RemediationKind(StrEnum):
    """The remediations."""

    SCALE = "Scale"
    RAISE_BATCH_LIMIT = "RaiseBatchLimit"
    RESTART_STALLED = "RestartStalled"
    HOLD_RETENTION = "HoldRetention"
    THROTTLE_PRODUCERS = "ThrottleProducers"


class RemediationResult(StrEnum):
    """What became of a remediation."""

    PENDING = "Pending"
    DONE = "Done"
    REFUSED = "Refused"
    WITHDRAWN = "Withdrawn"


class Saved(StrEnum):
    """How it is with the savepoint before a remediation."""

    TAKING = "Taking"
    TAKEN = "Taken"
    WITHOUT = "Without"


class RemediationStatus(Status):
    """The last time that a remediation was taken for something. It is recorded before it is taken."""

    kind: RemediationKind
    """The remediation."""
    target: str
    """Name of the Pipeline or Topic, or the producer as Kafka's quotas name it."""
    cluster: str | None = None
    """Name of the KafkaCluster, where the target is in Kafka alone."""
    wanted: str
    """What it is brought to: executors, records of a batch, a restartNonce, a retention with its end, or
    bytes a second."""
    before: str | None = None
    """What it was before."""
    original: str | None = None
    """The value to restore when everything is healthy; absent if it is already restored."""
    rates: tuple[float, ...] = ()
    """Records a second that were taken before each step away from that. For programs."""
    at: datetime
    """When it was decided."""
    why: str
    """Why, with the figures that it was decided on."""
    result: RemediationResult = RemediationResult.PENDING
    """What became of it."""
    message: str | None = None
    """Why it was refused, or has no effect."""
    savepoint: str | None = None
    """Name of the Savepoint that is taken before."""
    saved: Saved | None = None
    """Whether it was taken; the message has the cause if not."""
    count: Annotated[int, Field(ge=0)] = 1
    """Restarts since the pipeline was well; times that fewer executors, smaller batches or an end of the
    pause were too soon."""
    exhausted: bool = False
    """Whether it lasted as long as it may; it is taken again once all has been well."""
