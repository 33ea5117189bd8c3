"""When a pipeline's batches start, or that no record waits for one."""

from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Duration, Model, PositiveDuration, Rule


class RealTime(Model):
    """Each record is processed separately, within milliseconds; batches only record the progress."""

    checkpoint_interval: PositiveDuration = "1m"
    """How long a batch lasts, 5s or more; its offsets are kept when it ends. A stop waits for that, and after
    a crash the rows of this time are written again."""


class Trigger(Model):
    """When a batch starts, and how much it takes; or, in real time, that no record waits for one."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.realTime) || (!has(self.interval) && !has(self.maxRecords))",
            "realTime goes with neither interval nor maxRecords: no record waits for a batch; leave them out",
        ),
    )
    interval: Duration | None = None
    """Interval between batches. Default: as soon as possible."""
    max_records: Annotated[int | None, Field(ge=1)] = None
    """Maximum number of records in a batch, over all sources."""
    real_time: RealTime | None = None
    """Real-time mode, for pipelines without state: a record waits for no batch."""
