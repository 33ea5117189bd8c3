"""The validity of queries: from the event time of a version until that of the next version with the same id.

A deletion is a version too. Of two versions with the same time a deletion has precedence, then the greater text.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

END = 1 << 62
"""Later than any time, in microseconds."""


class Version(NamedTuple):
    """A query from a time on, in microseconds; `packed` are its further columns."""

    since: int
    deleted: bool
    text: str | None
    packed: str


class Valid(NamedTuple):
    """A version with its validity, the end excluded."""

    id: str
    since: int
    until: int
    text: str | None
    packed: str


Versions = dict[str, list[Version]]
"""Versions by id, in order of their times, none at the same time."""


def add_versions(stored: Versions, new: Iterable[tuple[str, Version]], passed: int) -> Versions:
    """Return the versions with new ones, without those that no document after the time `passed` can match."""
    grown = {key: list(versions) for key, versions in stored.items()}
    for key, version in new:
        grown.setdefault(key, []).append(version)
    needed = {key: _drop_old(versions, passed) for key, versions in grown.items()}
    return {key: versions for key, versions in needed.items() if versions}


def _drop_old(versions: list[Version], passed: int) -> list[Version]:
    by_time = {version.since: version for version in sorted(versions, key=rank)}
    kept = list(by_time.values())
    while len(kept) > 1 and kept[1].since <= passed:
        del kept[0]
    return [] if kept[0].deleted and (len(kept) == 1 and kept[0].since <= passed) else kept


def rank(version: Version) -> tuple[int, bool, bool, str, str]:
    """Return the sort key of a query's versions: the greatest up to a document's time is valid for it."""
    return version.since, version.deleted, version.text is not None, version.text or "", version.packed


def list_valid(stored: Versions) -> list[Valid]:
    """Return all versions that are not deletions."""
    return [
        Valid(key, version.since, until, version.text, version.packed)
        for key, versions in stored.items()
        for version, until in zip(versions, [*(v.since for v in versions[1:]), END], strict=True)
        if not version.deleted
    ]


def encode(stored: Versions) -> bytes:
    """Return the versions as bytes; equal versions are equal bytes."""
    return json.dumps(sorted(stored.items()), ensure_ascii=False, separators=(",", ":")).encode()


def decode(content: bytes) -> Versions:
    """Return the versions that were encoded."""
    return {key: [Version(*version) for version in versions] for key, versions in json.loads(content)}
