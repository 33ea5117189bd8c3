"""What the pipeline must compute, by an engine that shares nothing with it: DuckDB over the flights themselves.

The query starts from the package's own columns (`time_hour`, `minute`), not from the records, so a mistake in making
the records shows up as a difference too.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import duckdb

from demo.flights import Frame

QUERY = """
SELECT origin,
       date_trunc('hour', strptime(time_hour, '%Y-%m-%dT%H:%M:%SZ') + to_minutes(minute)) AS hour,
       count(*)       AS departures,
       avg(dep_delay) AS mean_delay,
       max(dep_delay) AS max_delay
FROM flights
GROUP BY ALL
ORDER BY ALL
"""


@dataclass(frozen=True, order=True)
class Key:
    """An airport and the begin of an hour, in UTC."""

    origin: str
    hour: datetime

    def __str__(self) -> str:
        return f"{self.origin} {self.hour:%Y-%m-%d %H:%M}Z"


@dataclass(frozen=True)
class Row:
    """Departures of an hour and their delays in minutes; None where every flight was cancelled."""

    departures: int
    mean_delay: float | None
    max_delay: float | None


def compute_expected(frame: Frame) -> dict[Key, Row]:
    """Return the result for these flights."""
    with duckdb.connect() as connection:
        connection.register("flights", frame)
        rows = connection.execute(QUERY).fetchall()
    return {
        Key(origin, hour.replace(tzinfo=UTC)): Row(departures, mean, largest)
        for origin, hour, departures, mean, largest in rows
    }
