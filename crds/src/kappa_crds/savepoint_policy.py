"""The schedule of the savepoints of a pipeline, and how long they are kept."""

from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model, PositiveDuration, Rule
from kappa_crds.savepoint import ONE_STORE_EACH, Export

_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY = (
    "[0-5]?[0-9]",
    "([01]?[0-9]|2[0-3])",
    "(0?[1-9]|[12][0-9]|3[01])",
    "(0?[1-9]|1[0-2])",
    "[0-7]",
)


def _write_field(number: str) -> str:
    """Return the pattern of one field: `*`, numbers, ranges and steps, with commas between them."""
    one = f"([*]|{number}(-{number})?)(/[1-9][0-9]?)?"
    return f"{one}(,{one})*"


CRON_PATTERN = "^" + " ".join(map(_write_field, (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY))) + "$"
CronSchedule = Annotated[
    str,
    Field(max_length=128),
    Rule(
        f"self.matches('{CRON_PATTERN}')",
        "must be five fields of numbers as cron has them, such as '0 3 * * *' for three o'clock every night, or '*/15 * * * *'",
    ),
]
"""When something is done, in UTC."""


class SavepointPolicy(Model):
    """Schedule and retention of savepoints. Savepoints with the cause Manual are never deleted by it."""

    schedule: CronSchedule | None = None
    """When a savepoint is taken, in UTC, as cron writes it: minute, hour, day, month, day of the week. One
    that was missed is taken once, none while the pipeline is suspended."""
    exports: Annotated[tuple[Export, ...], Field(max_length=8), ONE_STORE_EACH] = ()
    """Copies in other StateStores of each savepoint that the schedule takes. With deletionPolicy Retain they
    stay when that one is deleted."""
    max_count: Annotated[int | None, Field(ge=1, le=1000)] = None
    """How many of them are kept, the newest ones; all where left out."""
    max_age: PositiveDuration | None = None
    """How long they are kept. The newest savepoint and those that a spec.restore names always are."""
