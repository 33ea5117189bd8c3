"""Changes of a row that have a version: the place in the log of the database that they come from.

A topic has the changes of a key in their order, but a connector that starts again writes the last ones again. So a change does
not replace a row from a later position of the same server's log. A record without a position (a tombstone), from another server, or
from a snapshot during which no changes are written is newer than what comes before it in the topic.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from kappa_pipelines.transforms.truncations import Place, is_truncated


class Change(NamedTuple):
    """A change of a row: `body` is its new value, None for a deletion. `to` is the key that it refers to, in steps that need it.

    `order` is a whole number, or a version in JSON; that of a stored row is a whole number, or its place: see `truncations`.
    """

    order: Any
    body: str | None
    to: str | None = None


def replay(
    row: Change | None, changes: Iterable[Change], truncations: Collection[Place] = ()
) -> Change | None:
    """Return the row after the changes, with the order to store; None if no change replaces it.

    The last change counts: where it is from before a truncation, the row is deleted.
    """
    found = None
    versions = [(json.loads(change.order or "{}"), change) for change in changes]
    stored = row
    for version, change in sorted(versions, key=lambda each: each[0].get("offset", 0)):
        if row is None or not _is_stale(row.order, version):
            row = found = _apply(row, version, change)
    if row is not None and row.body is not None and is_truncated(row.order, truncations):
        return None if stored is None else Change([], None)
    return found


def _is_stale(stored: object, version: dict[str, Any]) -> bool:
    """Return whether a change is older than the stored row."""
    place = find_place(version)
    if version.get("snapshot") or not place or not isinstance(stored, list) or not stored:
        return False
    return bool(stored[0] == place[0] and stored[1] > place[1])


def find_place(version: dict[str, Any]) -> Place:
    """Return the server, the position in its log, and the time if the version has it; empty if the change has no position."""
    position, time = version.get("position"), version.get("time")
    return [] if position is None else [version.get("server", 0), position, *([] if time is None else [time])]


def _apply(row: Change | None, version: dict[str, Any], change: Change) -> Change:
    body = change.body
    unavailable = version.get("unavailable") or []
    if body is not None and row is not None and row.body is not None and unavailable:
        body = fill_unavailable(body, row.body, unavailable)
    return Change(find_place(version), body, change.to)


def fill_unavailable(body: str, former: str, names: Iterable[str]) -> str:
    """Return a packed row with the values that some columns had in the former one. Other text stays as it is."""
    members, before = dict(_split(body)), dict(_split(former))
    members |= {name: before[name] for name in names if name in members and name in before}
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in members.items()) + "}"


def _split(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the texts of the values of a JSON object that Spark wrote, without spaces: numbers stay exact."""
    decoder, at = json.JSONDecoder(), 1
    while at < len(text) and text[at] == '"':
        name, colon = scanstring(text, at + 1, True)
        _, end = decoder.raw_decode(text, colon + 1)
        yield name, text[colon + 1 : end]
        at = end + 1
