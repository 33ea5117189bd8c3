"""What a source is going to read, as the rules need it."""

from dataclasses import dataclass

from kappa_operator.cdc.patterns import TablePattern

DAY = 86400


@dataclass(frozen=True)
class Request:
    """The requested tables, the publication of PostgreSQL, and how long a connector may be stopped (seconds).

    `slot` is the slot of the connector itself, where it has one already: it needs no other, and is not reported as one without consumer.
    `failover` is whether the slot is to survive a failover.
    `marks` are files and positions of the binary log to ask for.
    """

    patterns: tuple[TablePattern, ...]
    publication: str = "kappa"
    retention: int = 3 * DAY
    slot: str = ""
    failover: bool = False
    marks: tuple[tuple[str, int], ...] = ()
