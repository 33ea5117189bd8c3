"""What windows and event times mean, over lists."""

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

Event = TypeVar("Event")
Value = TypeVar("Value")


def slide(
    events: Sequence[Event],
    key: Callable[[Event], Hashable],
    time: Callable[[Event], datetime],
    length: timedelta,
    aggregate: Callable[[Sequence[Event]], Value],
) -> list[tuple[Event, Value]]:
    """Return what the statement computes: each event with the aggregate over its window."""
    return [
        (
            event,
            aggregate(
                [
                    other
                    for other in events
                    if key(other) == key(event) and time(event) - length <= time(other) <= time(event)
                ]
            ),
        )
        for event in events
    ]


def correct(
    arrivals: Sequence[tuple[datetime, Event]],
    end: datetime,
    delays: Sequence[timedelta],
    aggregate: Callable[[Sequence[Event]], Value],
) -> list[tuple[int, bool, Value]]:
    """Return what comes out of one window of one key: revision, whether it is a retraction, result.

    Each event arrives with the watermark at that moment. `delays` begin with 0, the first result. What the plan computes.
    """
    said: list[tuple[int, bool, Value]] = []
    before: Value | None = None
    for revision, delay in enumerate(delays):
        events = [event for watermark, event in arrivals if watermark < end + delay]
        result = aggregate(events) if events else None
        if result is not None and result != before:
            said += [] if before is None else [(revision, True, before)]
            said.append((revision, False, result))
        before = result
    return said


def correct_clock(
    occurred: datetime, sent: datetime | None, received: datetime | None, longest: timedelta
) -> datetime:
    """Return the event time of one record: what the plan computes, said in Python. Without two times nothing is corrected."""
    if sent is None or received is None:
        return occurred
    return occurred + max(-longest, min(longest, received - sent))
