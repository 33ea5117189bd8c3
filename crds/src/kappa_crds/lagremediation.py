"""What a LagPolicy may do by itself about lag: each remediation is asked for, has bounds, and is told of."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.lagthrottle import ThrottleRemediation
from kappa_crds.lagwebhook import Webhook
from kappa_crds.model import Duration, Model, PositiveDuration, Rule, Status


class ScaleRemediation(Model):
    """More executors for a pipeline that is behind, and fewer again."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.min <= self.max", "min is more than max; make it at most as many"),
    )
    min: Annotated[int, Field(ge=1, le=1000, description="Fewest executors.")] = 1
    max: Annotated[int, Field(ge=1, le=1000, description="Most executors.")]
    drain_within: Annotated[
        PositiveDuration,
        Field(description="How soon all that waits should be processed, at the rates that were measured."),
    ] = "5m"
    cool_down: Annotated[
        PositiveDuration,
        Field(description="Shortest time from one change to the next; longer than executors take to start."),
    ] = "3m"
    quiet_for: Annotated[
        PositiveDuration,
        Field(
            description="How long all is well before there are fewer; longer than what comes in goes up and down by itself. It doubles each time"
            " that more were needed soon after, up to eight times."
        ),
    ] = "10m"


class BatchLimitRemediation(Model):
    """Larger batches for a pipeline that is behind because spec.trigger.maxRecords bounds them, and the bound before again."""

    up_to: Annotated[
        int,
        Field(
            ge=1, le=1_000_000_000, description="Most records that a batch may take; what fits into memory."
        ),
    ]
    factor: Annotated[int, Field(ge=2, le=10, description="How much larger they become at a time.")] = 2
    drain_within: Annotated[
        PositiveDuration,
        Field(description="How soon all that waits should be processed, at the rates that were measured."),
    ] = "5m"
    cool_down: Annotated[
        PositiveDuration,
        Field(description="Shortest time from one change to the next, each of which is another driver."),
    ] = "3m"
    quiet_for: Annotated[
        PositiveDuration,
        Field(
            description="How long all is well before the bound is what it was. It doubles each time that it was too small soon after, up to eight times."
        ),
    ] = "10m"


class RestartRemediation(Model):
    """Another driver for a pipeline that runs and does not move; its state is kept in every mode."""

    at_most: Annotated[
        int, Field(ge=1, le=10, description="How often, until the pipeline has been well again.")
    ] = 3
    cool_down: Annotated[
        PositiveDuration, Field(description="Shortest time from one restart to the next.")
    ] = "10m"


class RetentionRemediation(Model):
    """Longer retention of a topic while records that wait would be removed, and the retention before afterwards."""

    up_to: Annotated[PositiveDuration, Field(description="Longest retention, such as 14d.")]
    cool_down: Annotated[Duration, Field(description="Shortest time from one change to the next.")] = "10m"


class SavepointWhen(StrEnum):
    """Of which pipelines a savepoint is taken before a remediation gives them another driver."""

    WHERE_KEPT = "WhereKept"
    ALWAYS = "Always"
    NEVER = "Never"


class SavepointBefore(Model):
    """A savepoint before a remediation that gives a pipeline another driver."""

    when: Annotated[
        SavepointWhen,
        Field(
            description="WhereKept: of pipelines whose spec.savepoints has maxCount or maxAge, so that they go again. Always: of all; those"
            " of other pipelines stay until somebody deletes them. Never: of none."
        ),
    ] = SavepointWhen.WHERE_KEPT
    within: Annotated[
        PositiveDuration,
        Field(description="How long the remediation waits for it. Then it is taken without, and says so."),
    ] = "2m"


class Remediation(Model):
    """What is done about lag."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.scale) || has(self.raiseBatchLimit) || has(self.restartStalled) || has(self.holdRetention)"
            " || has(self.throttleProducers) || has(self.webhook)",
            "spec.remediation has no remediation; set scale, raiseBatchLimit, restartStalled, holdRetention, throttleProducers or webhook, or leave remediation out",
        ),
    )
    scale: Annotated[
        ScaleRemediation | None, Field(description="Executors of the pipelines that are selected.")
    ] = None
    raise_batch_limit: Annotated[
        BatchLimitRemediation | None,
        Field(description="Size of the batches of pipelines that declare trigger.maxRecords."),
    ] = None
    restart_stalled: Annotated[
        RestartRemediation | None, Field(description="Another driver for a pipeline that is Stalled.")
    ] = None
    hold_retention: Annotated[
        RetentionRemediation | None,
        Field(
            description="Longer retention while time to loss is below a bound, of Topics that declare retention.time."
        ),
    ] = None

    throttle_producers: Annotated[
        ThrottleRemediation | None,
        Field(description="A quota for producers that obey, while anything that is selected is Critical."),
    ] = None
    webhook: Annotated[Webhook | None, Field(description="Who is told when it gets worse or better.")] = None
    on_alerts: Annotated[
        bool,
        Field(
            description="Whether alerts that Alertmanager tells the operator of, with the labels namespace and lagpolicy, set the remediations off too."
        ),
    ] = False
    savepoint: Annotated[
        SavepointBefore,
        Field(
            description="The savepoint before scale, raiseBatchLimit and restartStalled, which give a pipeline another driver."
        ),
    ] = SavepointBefore()

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the remediations that are asked for, and that change something."""
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

    kind: Annotated[RemediationKind, Field(description="The remediation.")]
    target: Annotated[
        str, Field(description="Name of the Pipeline or Topic, or the producer as Kafka's quotas name it.")
    ]
    cluster: Annotated[
        str | None, Field(description="Name of the KafkaCluster, where the target is in Kafka alone.")
    ] = None
    wanted: Annotated[
        str,
        Field(
            description="What it is brought to: executors, records of a batch, a restartNonce, a retention with its end, or bytes a second."
        ),
    ]
    before: Annotated[str | None, Field(description="What it was before.")] = None
    original: Annotated[
        str | None, Field(description="What it is brought back to when all is well; absent where it is so.")
    ] = None
    rates: Annotated[
        tuple[float, ...],
        Field(description="Records a second that were taken before each step away from that. For programs."),
    ] = ()
    at: Annotated[datetime, Field(description="When it was decided.")]
    why: Annotated[str, Field(description="Why, with the figures that it was decided on.")]
    result: Annotated[RemediationResult, Field(description="What became of it.")] = RemediationResult.PENDING
    message: Annotated[str | None, Field(description="Why it was refused, or has no effect.")] = None
    savepoint: Annotated[str | None, Field(description="Name of the Savepoint that is taken before.")] = None
    saved: Annotated[Saved | None, Field(description="Whether it was taken; the message says why not.")] = (
        None
    )
    count: Annotated[
        int,
        Field(
            ge=0,
            description="Restarts since the pipeline was well; times that fewer executors, smaller batches or an end of the pause were too soon.",
        ),
    ] = 1
    exhausted: Annotated[
        bool,
        Field(description="Whether it lasted as long as it may; it is taken again once all has been well."),
    ] = False
