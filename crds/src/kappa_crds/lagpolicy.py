"""`LagPolicy`: how far behind consumer groups and pipelines may be, and what is done about it."""

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.lagalert import AlertStatus
from kappa_crds.lagremediation import Remediation, RemediationStatus
from kappa_crds.lagselector import LagSelector
from kappa_crds.lagstate import LagState, Severity
from kappa_crds.lagwebhook import NotificationStatus
from kappa_crds.model import Duration, Model, PositiveDuration, ResourceName, Rule, Status
from kappa_crds.resource import AGE, READY, STATE, Kind, PrinterColumn, ResourceStatus
from kappa_crds.savepoint_policy import CRON_PATTERN

LAG_HEALTHY = "LagHealthy"
"""The condition that tells whether all that a policy selects keeps its bounds."""
CONSISTENT = "Consistent"
"""The condition that tells whether policies that select the same groups fit each other."""


def _in_ms(duration: str) -> str:
    """Return the CEL expression of a duration in milliseconds; CEL's own durations have no days."""
    units = "".join(f"part.endsWith('{unit}') ? {ms} : " for unit, ms in
                    (("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)))  # fmt: skip
    parts = f"{duration}.findAll('[0-9]{{1,9}}(ms|s|m|h|d|w)')"
    return f"{parts}.map(part, int(part.find('[0-9]{{1,9}}')) * ({units}604800000)).sum()"


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
    """What is too much. Each bound that is given counts, and one that is overstepped is enough."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.lag) || has(self.records) || has(self.timeToLoss)",
            "has no bound; set lag, records, timeToLoss, or several of them",
        ),
    )
    lag: Annotated[
        PositiveDuration | None, Field(description="Age of the oldest record that waits, such as 60s.")
    ] = None
    records: Annotated[int | None, Field(ge=0, description="Records that wait, in one partition.")] = None
    time_to_loss: Annotated[
        PositiveDuration | None,
        Field(description="Shortest time until retention removes a record that waits, such as 6h."),
    ] = None
    for_: Annotated[
        Duration, Field(alias="for", description="How long a bound is overstepped before it counts.")
    ] = "2m"


class MuteWindow(Model):
    """A time in which no Event about lag is written."""

    start: Annotated[
        str,
        Field(
            max_length=128,
            description="When it begins, as cron writes it: minute, hour, day, month, day of the week.",
        ),
        Rule(
            f"self.matches('{CRON_PATTERN}')",
            "must be five fields of numbers as cron has them, such as '0 22 * * *' for ten o'clock every night",
        ),
    ]
    duration: Annotated[PositiveDuration, Field(description="How long it lasts, such as 8h.")]
    time_zone: Annotated[TimeZone, Field(description="The time zone of start.")] = "UTC"


class LagPolicySpec(Model):
    """How far behind consumer groups and pipelines may be, and what is done about it."""

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
    cluster_ref: Annotated[
        ResourceName | None,
        Field(description="Name of the KafkaCluster; may be left out where the namespace has just one."),
    ] = None
    selector: Annotated[LagSelector, Field(description="The consumer groups that the policy is about.")]
    warning: Annotated[Bounds | None, Field(description="What is worth a look.")] = None
    critical: Annotated[Bounds | None, Field(description="What must not last.")] = None
    window: Annotated[
        PositiveDuration,
        Field(
            description="How long an offset does not move, while records wait, before the group is Stalled or Stopped. Longer than a group takes from commit to commit."
        ),
    ] = "5m"
    clear_after: Annotated[
        Duration, Field(description="How long all has to be well again before what was raised is cleared.")
    ] = "2m"
    unknown_after: Annotated[
        PositiveDuration,
        Field(description="How long there is no look that tells enough before the state is Unknown."),
    ] = "5m"
    mute: Annotated[
        tuple[MuteWindow, ...],
        Field(
            max_length=16,
            description="Times in which no Event about lag is written; status tells the truth, and remediations are taken.",
        ),
    ] = ()
    remediation: Annotated[
        Remediation | None, Field(description="What is done about it. Nothing, where it is left out.")
    ] = None


class LaggingPartition(Status):
    """A group in a partition, and how far behind it is."""

    name: Annotated[str, Field(description="Group, topic and partition in one word, for people.")]
    group: Annotated[str, Field(description="The consumer group.")]
    topic: Annotated[
        str | None, Field(description="Topic in Kafka; absent where nothing of the group was seen.")
    ] = None
    partition: Annotated[int | None, Field(ge=0, description="Number of the partition.")] = None
    state: Annotated[LagState, Field(description="The state in one word.")]
    severity: Annotated[Severity, Field(description="How much it matters.")]
    since: Annotated[datetime | None, Field(description="Since when it is so.")] = None
    lag_records: Annotated[int | None, Field(ge=0, description="Records that wait.")] = None
    lag_seconds: Annotated[int | None, Field(ge=0, description="Age of the oldest of them in seconds.")] = (
        None
    )
    time_to_loss_seconds: Annotated[
        int | None, Field(ge=0, description="Seconds until retention removes the oldest of them.")
    ] = None
    why: Annotated[str, Field(description="Why it is so, in words.")] = ""


class LagPolicyStatus(ResourceStatus):
    """What the operator saw of the groups, and what it did."""

    cluster: Annotated[str | None, Field(description="Name of the KafkaCluster.")] = None
    severity: Annotated[Severity, Field(description="How much the worst of it matters.")] = Severity.NONE
    since: Annotated[datetime | None, Field(description="Since when state and severity are as they are.")] = (
        None
    )
    lag: Annotated[str | None, Field(description="The largest lag of a partition, for people.")] = None
    worst: Annotated[LaggingPartition | None, Field(description="The worst of all.")] = None
    lagging: Annotated[
        tuple[LaggingPartition, ...], Field(description="The ten worst, without those that are OK.")
    ] = ()
    groups: Annotated[int, Field(ge=0, description="Groups that the policy selects and that were seen.")] = 0
    group_partitions: Annotated[
        dict[str, int], Field(description="How many partitions of groups are in each state.")
    ] = Field(default_factory=dict)
    missing: Annotated[
        tuple[str, ...],
        Field(description="Groups that are asked for by name and were not seen, ten at most."),
    ] = ()
    muted_until: Annotated[datetime | None, Field(description="Until when Events are muted.")] = None
    last_sampled: Annotated[
        datetime | None,
        Field(description="When Kafka was last looked at, as of the last write of this status."),
    ] = None
    evaluated: Annotated[datetime | None, Field(description="When this status was written.")] = None
    remediations: Annotated[
        tuple[RemediationStatus, ...],
        Field(description="The last remediation of each kind for each Pipeline or Topic."),
    ] = ()
    alerts: Annotated[
        tuple[AlertStatus, ...], Field(description="Alerts that remediations act on, the worst first.")
    ] = ()
    alerts_ended: Annotated[datetime | None, Field(description="When the last of them had ended.")] = None
    notifications: Annotated[
        tuple[NotificationStatus, ...],
        Field(description="What the webhook is still to be told, in order, after the last that it was told."),
    ] = ()
    loads: Annotated[
        dict[str, str],
        Field(
            description="What was measured of the rates of pipelines that may be scaled, by name. For programs."
        ),
    ] = Field(default_factory=dict)
    lag_history: Annotated[
        dict[str, str],
        Field(
            description="What an operator that starts anew goes on from: for the 100 worst partitions of groups that are not plainly OK, by name, what was seen and since when. For programs."
        ),
    ] = Field(default_factory=dict)


_HEALTH = f'.status.conditions[?(@.type=="{LAG_HEALTHY}")]'

LAG_POLICY = Kind(
    name="LagPolicy",
    plural="lagpolicies",
    short_names=("kpl",),
    conditions=(LAG_HEALTHY, CONSISTENT),
    description="How far behind consumer groups and pipelines may be, and what is done about it.",
    spec=LagPolicySpec,
    status=LagPolicyStatus,
    columns=(
        READY,
        STATE,
        PrinterColumn("Severity", ".status.severity", priority=1),
        PrinterColumn("Worst", ".status.worst.name"),
        PrinterColumn("Lag", ".status.lag"),
        PrinterColumn("Reason", f"{_HEALTH}.reason", priority=1),
        PrinterColumn("Message", f"{_HEALTH}.message", priority=1),
        AGE,
    ),
)
