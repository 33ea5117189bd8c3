"""How a reprocessing proceeds: in the spec of a Pipeline for those that it creates, and in the spec of each."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from kappa_crds.comparison import StreamWindows, Tolerance
from kappa_crds.model import UNIQUE, Duration, Model, PositiveDuration, Rule
from kappa_crds.quantities import parse_duration

_MOST_SHOWN = 200
"""Characters of a condition in a message."""


class Gate(StrEnum):
    """Who passes a gate."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class CutGate(StrEnum):
    """Who passes the gate of the cutover."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"
    NEVER = "Never"


class Gates(Model):
    """Which steps follow automatically, and which wait for a request of a person."""

    compare: Gate = Gate.AUTOMATIC
    """The comparison, once the new version has caught up."""
    cut: CutGate = CutGate.MANUAL
    """The cutover, after the comparison. Automatic needs a comparison without too many unexpected differences.
    Never is for runs that only show what would change: the new version continues until it is aborted."""
    rollback: Gate = Gate.AUTOMATIC
    """The rollback of a new version that is unhealthy while the old one soaks: its drivers crash, or its lag is above
    that of the old version and grows for longer than `healthTimeout` of the Pipeline's upgrade."""
    finish: Gate = Gate.AUTOMATIC
    """The end of the soak time, after which the old version is gone."""


class Comparison(Model):
    """How the outputs of both versions are compared."""

    tolerance: Tolerance = Tolerance()
    """Which differences are accepted, or expected."""
    windows: StreamWindows | None = None
    """Windows of event time in which streams are compared: differences are shown by window, and where retention
    has deleted the oldest records, the comparison starts at the first window that both versions still have."""
    max_unexpected: Annotated[int, Field(ge=0)] = 0
    """Rows that may differ beyond that; with more, the cutover waits for a person."""


GroupId = Annotated[str, Field(min_length=1, max_length=249)]
"""The id of a consumer group in Kafka."""


class OutputsPolicy(StrEnum):
    """What happens to the topics of a version that is not active any more."""

    KEEP = "Keep"
    DELETE = "Delete"


class Downstream(StrEnum):
    """What happens to the Pipelines that read the outputs of a reprocessed one."""

    MOVE = "Move"
    REPROCESS = "Reprocess"


class Replay(Model):
    """How fast the new version reads the log until it is near its end."""

    max_records: Annotated[int | None, Field(ge=1)] = None
    """Maximum number of records in a batch, over all sources. Default: 4,000,000; for a Pipeline with a
    sink that writes exactly once, the maxRecords of its trigger. Otherwise the trigger does not count meanwhile."""
    max_bytes_per_second: Annotated[int | None, Field(ge=1024, le=1_000_000_000_000)] = None
    """Bytes per second that each broker sends to it at most: a quota in Kafka, for which the operator needs
    DescribeConfigs and AlterConfigs on the cluster. Default: as fast as its CPU allows."""


class PipelineReplay(Replay):
    """How fast a new version of this Pipeline reads the log until it is near its end."""

    executors: Annotated[int | None, Field(ge=1, le=1000)] = None
    """Executors of the new version while it has more than a batch left to read; afterwards it has those of
    spec.resources again, without a restart. A smaller number than that of spec.resources has no effect. The
    limits of the namespace count it beside the executors of the active version."""


def _check_time(text: str) -> str:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or at.timestamp() < 0:  # negative times mean ends of the log in Kafka
        raise ValueError(f"{text!r} has no time zone, or is before 1970")
    return text


StartTime = Annotated[
    str,
    Field(max_length=64),
    AfterValidator(_check_time),
    Rule(
        "self.matches('^(19[7-9][0-9]|2[0-9]{3})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$')",
        "must be a time such as 2026-01-01T00:00:00Z",
    ),
]


class ReprocessingPolicy(Model):
    """How a reprocessing proceeds."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.from) || (has(self.gates) && has(self.gates.cut) && self.gates.cut == 'Never')",
            "from needs gates.cut Never: the new topics have no earlier results, so their readers would lose them",
        ),
        Rule(
            "!has(self.from) || !has(self.downstream) || self.downstream == 'Move'",
            "from does not go with downstream Reprocess: the Pipelines that read the outputs would miss earlier results",
        ),
        Rule(
            "!has(self.only) || (has(self.gates) && has(self.gates.cut) && self.gates.cut == 'Never')",
            "only needs gates.cut Never: the new topics lack all other rows, so their readers would lose them",
        ),
        Rule(
            "!has(self.only) || !has(self.downstream) || self.downstream == 'Move'",
            "only does not go with downstream Reprocess: the Pipelines that read the outputs would miss all other rows",
        ),
        Rule(
            "!has(self.warmUp) || (has(self.from) && has(self.comparison) && has(self.comparison.windows))",
            "warmUp needs from and comparison.windows: it is the time after from at which the first window is compared",
        ),
    )
    from_: Annotated[StartTime | None, Field(alias="from")] = None
    """Read only records with this Kafka timestamp or a later one: in each partition from the first such record
    on. It shows what a change does to recent results, and never cuts over. Queries must keep no state, unless
    warmUp is set. Default: the whole log."""
    warm_up: PositiveDuration | None = None
    """Time after `from` in which results may still need earlier records, and are not compared: of a window its
    length, of a join its bound. With it, queries may keep state that the watermark removes."""
    only: Annotated[str | None, Field(min_length=1, max_length=10_000)] = None
    """Compute and compare only the rows of the outputs for which this condition in SQL is true, such as
    `customer_id IN ('a', 'b')`. It shows what a change does to some keys, and never cuts over. In outputs whose
    rows replace or delete each other it has columns of the key only. Default: all rows."""
    gates: Gates = Gates()
    """Which steps wait for a person."""
    comparison: Comparison = Comparison()
    """How the outputs are compared."""
    replay: Replay = Replay()
    """How fast the log is read again."""
    soak: Duration = "1h"
    """How long the old version keeps running after the cutover, ready to take over again."""
    outputs: OutputsPolicy = OutputsPolicy.KEEP
    """What happens to the topics of the version that is not active in the end: Keep, or Delete with all their
    records. Topics that the spec names are never deleted."""
    downstream: Downstream = Downstream.MOVE
    """What happens to the Pipelines of the namespace that read the outputs. Move: at the cutover they continue
    in the new topics, with their state. Reprocess: they are members of the reprocessing, and so are those that
    read their outputs. A second run of each computes its results again from the new topics, and all are cut
    over, and rolled back, as one. The members are those at the start."""
    groups: Annotated[tuple[GroupId, ...], Field(max_length=32), UNIQUE] = ()
    """Consumer groups that read the outputs. At the cutover each has to have committed the ends of the old
    topics, and to have no members; then the operator commits where it continues in the new topics."""
    deadline: PositiveDuration = "7d"
    """How long it may take until the cutover; later it fails, and the active version stays."""

    @property
    def start(self) -> datetime | None:
        """Return the time from which records are read; None for the whole log."""
        return None if self.from_ is None else datetime.fromisoformat(self.from_)

    @property
    def rows(self) -> str:
        """Return which rows are computed, for people in one line; empty for all."""
        if self.only is None:
            return ""
        text = " ".join(self.only.split())
        return f"only rows where {text if len(text) <= _MOST_SHOWN else f'{text[:_MOST_SHOWN]} …'}"

    @property
    def scope(self) -> str:
        """Return of which part of the log which rows are computed, for people in one line."""
        log = "whole log" if self.from_ is None else f"log from {self.from_} on"
        return f"the {log} again{self.rows and f', {self.rows}'}"

    @property
    def compared_since(self) -> datetime | None:
        """Return the time from which results need no earlier record; None for the whole log."""
        seconds = 0.0 if self.warm_up is None else parse_duration(self.warm_up)
        return None if self.start is None else self.start + timedelta(seconds=seconds)


class PipelineReprocessing(ReprocessingPolicy):
    """How the reprocessings of a Pipeline proceed. The Pipelines of a chain have executors of their own (ADR 95)."""

    replay: PipelineReplay = PipelineReplay()
    """How fast the log is read again."""
