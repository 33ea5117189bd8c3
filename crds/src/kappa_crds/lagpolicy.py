"""`LagPolicy`: how far behind consumer groups and pipelines may be, and what is done about it."""

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.lagremediation import NotificationStatus, Remediation, RemediationStatus
from kappa_crds.lagstate import LagState, Severity
from kappa_crds.model import Duration, Model, PositiveDuration, ResourceName, Rule, Status
from kappa_crds.quantities import MILLISECONDS
from kappa_crds.resource import Kind, PrinterColumn, ResourceStatus, build_columns
from kappa_crds.savepoint_policy import CRON_PATTERN

LAG_HEALTHY = "LagHealthy"
"""The condition that is True if everything that a policy selects keeps its bounds."""
CONSISTENT = "Consistent"
"""The condition that is True if policies with the same groups are consistent."""


def _in_ms(duration: str) -> str:
    """Return the CEL expression of a duration in milliseconds; CEL's own durations have no days."""
    *units, (_, longest) = MILLISECONDS.items()
    factors = "".join(f"part.endsWith('{unit}') ? {factor} : " for unit, factor in units)
    parts = f"{duration}.findAll('[0-9]{{1,9}}(ms|s|m|h|d|w)')"
    return f"{parts}.map(part, int(part.find('[0-9]{{1,9}}')) * ({factors}{longest})).sum()"


def _both(field: str) -> str:
    """Return the CEL condition that one of the two bounds is not given."""
    return " || ".join(f"!has(self.{part}) || !has(self.{part}.{field})" for part in ("warning", "critical"))


TimeZone = Annotated[
    str,
    Field(min_length=1, max_length=64),
    Rule(
        "self.matches('^[A-Za-z]+([/_+-][A-Za-z0-9_+-]+)*$')",
        "must be the name of a time zone, such as UTC or Europe/Berlin",
    ),
]


class Bounds(Model):
    """Limits of lag. Each one that is set applies; exceeding one is enough."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.lag) || has(self.records) || has(self.timeToLoss)",
            "has no bound; set lag, records, timeToLoss, or several of them",
        ),
    )
    lag: PositiveDuration | None = None
    """Age of the oldest unprocessed record, such as 60s."""
    records: Annotated[int | None, Field(ge=0)] = None
    """Unprocessed records in one partition."""
    time_to_loss: PositiveDuration | None = None
    """Minimum time until retention removes an unprocessed record, such as 6h."""
    for_: Annotated[Duration, Field(alias="for")] = "2m"
    """How long a bound must be exceeded before it counts."""


class MuteWindow(Model):
    """A time in which no Event about lag is written."""

    start: Annotated[
        str,
        Field(max_length=128),
        Rule(
            f"self.matches('{CRON_PATTERN}')",
            "must be five fields of numbers as cron has them, such as '0 22 * * *' for ten o'clock every night",
        ),
    ]
    """When it begins, as cron writes it: minute, hour, day, month, day of the week."""
    duration: PositiveDuration
    """How long it lasts, such as 8h."""
    time_zone: TimeZone = "UTC"
    """The time zone of start."""


Glob = Annotated[
    str,
    Field(min_length=1, max_length=255),
    Rule(
        r"self.matches('^[!-~]+$') && !self.matches('[\\[\\]{}]')",
        "must be the name of a group, or a pattern of names, in which only * and ? have a meaning, such as billing-*",
    ),
]
LabelValue = Annotated[str, Field(max_length=63)]


class PipelineSelector(Model):
    """Pipelines of the namespace, by name or by labels."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.names) != has(self.matchLabels)",
            "selector.pipelines takes either names or matchLabels; matchLabels: {} selects all pipelines of the namespace",
        ),
    )
    names: Annotated[tuple[ResourceName, ...] | None, Field(min_length=1, max_length=64)] = None
    """Names of Pipelines."""
    match_labels: Annotated[dict[str, LabelValue] | None, Field(max_length=16)] = None
    """Labels that a Pipeline has to have; all Pipelines where empty."""


class LagSelector(Model):
    """The consumer groups that a policy is about."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.pipelines) || (has(self.groups) && self.groups.size() > 0)",
            "spec.selector selects nothing; set selector.pipelines, selector.groups, or both",
        ),
    )
    pipelines: PipelineSelector | None = None
    """Pipelines, each of which is a group of its own."""
    groups: Annotated[tuple[Glob, ...], Field(max_length=64)] = ()
    """Consumer groups by name; * stands for any letters, ? for one. Groups in which sinks keep their marks
    are left out."""


class LagPolicySpec(Model):
    """Bounds for the lag of consumer groups and pipelines, and automatic remediation."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.warning) || has(self.critical)",
            "spec has no bounds; set spec.warning, spec.critical, or both",
        ),
        Rule(
            f"{_both('lag')} || {_in_ms('self.critical.lag')} >= {_in_ms('self.warning.lag')}",
            "spec.critical.lag is shorter than spec.warning.lag, so it would be critical before it is a warning; make it longer",
        ),
        Rule(
            f"{_both('records')} || self.critical.records >= self.warning.records",
            "spec.critical.records is less than spec.warning.records, so it would be critical before it is a warning; make it more",
        ),
        Rule(
            f"{_both('timeToLoss')} || {_in_ms('self.critical.timeToLoss')} <= {_in_ms('self.warning.timeToLoss')}",
            "spec.critical.timeToLoss is longer than spec.warning.timeToLoss, so it would be critical before it is a warning; make it shorter",
        ),
        Rule(
            "!has(self.remediation) || !(has(self.remediation.scale) || has(self.remediation.raiseBatchLimit)"
            " || has(self.remediation.restartStalled)) || has(self.selector.pipelines)",
            "spec.remediation.scale, raiseBatchLimit and restartStalled act on pipelines, and spec.selector selects none; set selector.pipelines",
        ),
        Rule(
            "!has(self.remediation) || !has(self.remediation.holdRetention) || (has(self.warning) && has(self.warning.timeToLoss))"
            " || (has(self.critical) && has(self.critical.timeToLoss))",
            "spec.remediation.holdRetention acts on timeToLoss, and no bound has it; set warning.timeToLoss or critical.timeToLoss",
        ),
    )
    cluster_ref: ResourceName | None = None
    """Name of the KafkaCluster; may be left out where the namespace has just one."""
    selector: LagSelector
    """The consumer groups that the policy is about."""
    warning: Bounds | None = None
    """Bounds for the severity Warning."""
    critical: Bounds | None = None
    """Bounds for the severity Critical."""
    window: PositiveDuration = "5m"
    """How long an offset may stay unchanged while records wait before the group is Stalled or Stopped. It
    must be longer than the commit interval of the group."""
    clear_after: Duration = "2m"
    """How long all partitions must be healthy before a raised severity is cleared."""
    unknown_after: PositiveDuration = "5m"
    """How long without a sufficient sample until the state is Unknown."""
    mute: Annotated[tuple[MuteWindow, ...], Field(max_length=16)] = ()
    """Times without Events about lag. Status is updated and remediations are applied as usual."""
    remediation: Remediation | None = None
    """Automatic remediation. Default: none."""


class LaggingPartition(Status):
    """A group in a partition, and how far behind it is."""

    name: str
    """Group, topic and partition in one word, for people."""
    group: str
    """The consumer group."""
    topic: str | None = None
    """Topic in Kafka; absent where nothing of the group was seen."""
    partition: Annotated[int | None, Field(ge=0)] = None
    """Number of the partition."""
    state: LagState
    """The state in one word."""
    severity: Severity
    """How much it matters."""
    since: datetime | None = None
    """Since when it is so."""
    lag_records: Annotated[int | None, Field(ge=0)] = None
    """Records that wait."""
    lag_seconds: Annotated[int | None, Field(ge=0)] = None
    """Age of the oldest of them in seconds."""
    time_to_loss_seconds: Annotated[int | None, Field(ge=0)] = None
    """Seconds until retention removes the oldest of them."""
    why: str = ""
    """Why it is so, in words."""


ALERT_PREFIX = "alert.kappa-platform.io/"
"""Annotations of a LagPolicy that begin so hold one alert each, under its fingerprint."""


class AlertStatus(Status):
    """An alert that fires. Remediation are taken as if all that is selected were so."""

    name: str
    """Its alertname."""
    severity: Severity
    """How much it matters."""
    state: LagState = LagState.WARNING
    """The state that it stands for."""
    until: datetime
    """When it expires, if Alertmanager does not send it again."""


class LagPolicyStatus(ResourceStatus):
    """What the operator saw of the groups, and what it did."""

    cluster: str | None = None
    """Name of the KafkaCluster."""
    severity: Severity = Severity.NONE
    """How much the worst of it matters."""
    since: datetime | None = None
    """Since when state and severity are as they are."""
    lag: str | None = None
    """The largest lag of a partition, for people."""
    worst: LaggingPartition | None = None
    """The worst of all."""
    lagging: tuple[LaggingPartition, ...] = ()
    """The ten worst, without those that are OK."""
    groups: Annotated[int, Field(ge=0)] = 0
    """Groups that the policy selects and that were seen."""
    group_partitions: dict[str, int] = Field(default_factory=dict)
    """How many partitions of groups are in each state."""
    missing: tuple[str, ...] = ()
    """Groups that the selector names and that were not observed, at most ten."""
    muted_until: datetime | None = None
    """Until when Events are muted."""
    last_sampled: datetime | None = None
    """When Kafka was last sampled, as of the last write of this status."""
    evaluated: datetime | None = None
    """When this status was written."""
    remediations: tuple[RemediationStatus, ...] = ()
    """The last remediation of each kind for each Pipeline or Topic."""
    alerts: tuple[AlertStatus, ...] = ()
    """Alerts that remediations act on, the worst first."""
    alerts_ended: datetime | None = None
    """When the last of them had ended."""
    notifications: tuple[NotificationStatus, ...] = ()
    """Pending notifications of the webhook, in order, after the last delivered one."""
    loads: dict[str, str] = Field(default_factory=dict)
    """What was measured of the rates of pipelines that may be scaled, by name. For programs."""
    lag_history: dict[str, str] = Field(default_factory=dict)
    """History that a restarted operator continues from: observations of the 100 worst group partitions
    that are not OK, by name. For programs."""


LAG_POLICY = Kind(
    name="LagPolicy",
    plural="lagpolicies",
    short_names=("kpl",),
    conditions=(LAG_HEALTHY, CONSISTENT),
    description="Bounds for the lag of consumer groups and pipelines, and automatic remediation.",
    spec=LagPolicySpec,
    status=LagPolicyStatus,
    columns=build_columns(
        PrinterColumn("Severity", ".status.severity", priority=1),
        PrinterColumn("Worst", ".status.worst.name"),
        PrinterColumn("Lag", ".status.lag"),
        explained=LAG_HEALTHY,
    ),
)
