"""What joins mean, over lists."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

Event = TypeVar("Event")
Version = TypeVar("Version")


def join_as_of(
    events: Sequence[Event],
    versions: Sequence[Version],
    *,
    key: Callable[[Event], Hashable],
    time: Callable[[Event], datetime],
    version_key: Callable[[Version], Hashable],
    since: Callable[[Version], datetime],
    columns: Callable[[Version], Any],
    max_age: timedelta | None = None,
) -> list[tuple[Event, Version | None]]:
    """Return what the statement computes: each event with its version, None where there is none."""

    def is_valid(event: Event, version: Version) -> bool:
        age = time(event) - since(version)
        same = key(event) is not None and key(event) == version_key(version)
        return same and age >= timedelta(0) and (max_age is None or age <= max_age)

    found = []
    for event in events:
        valid = [version for version in versions if is_valid(event, version)]
        newest = max(valid, key=lambda version: (since(version), columns(version)), default=None)
        found.append((event, newest))
    return found


def join_tables(
    left: Mapping[str, tuple[str | None, str]], right: Mapping[str, str], *, inner: bool
) -> dict[str, tuple[str, str | None]]:
    """Return what the last rows that came out add up to: each left row, a pair (to, body), with the right row's body."""
    joined = {key: (body, right.get(to) if to is not None else None) for key, (to, body) in left.items()}
    return {key: pair for key, pair in joined.items() if pair[1] is not None or not inner}
