"""Caches of a worker process: an index of the stored queries, and their last change.

The keys are digests of the queries in a key group, which are the same in all key groups. So the caches are also valid after a restart,
a failure or a rewind: the digest is different then.
"""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from kappa_pipelines.transforms.search.document import Fields
from kappa_pipelines.transforms.search.index import Index
from kappa_pipelines.transforms.search.versions import Version, add_versions, decode, encode, list_valid

_held: dict[tuple[str, Fields], tuple[str, Index]] = {}
_grown: dict[str, tuple["Change", bytes, str]] = {}

Load = Callable[[], bytes]
"""Reads the encoded queries of a key group, on a cache miss."""


class Change(NamedTuple):
    """A change of the queries with a digest, None for no queries; see `add_versions`."""

    digest: str | None
    new: frozenset[tuple[str, Version]]
    passed: int


def grow(view: str, change: Change, load: Load) -> tuple[bytes, str]:
    """Return the encoded queries after a change, and their digest; computed once for all key groups of a process."""
    known = _grown.get(view)
    if known is None or known[0] != change:
        stored = {} if change.digest is None else decode(load())
        content = encode(add_versions(stored, change.new, change.passed))
        known = _grown[view] = change, content, hashlib.sha256(content).hexdigest()
    return known[1:]


def hold_index(view: str, fields: Fields, digest: str, load: Load) -> Index:
    """Return this process's index of a view, holding the queries of the digest."""
    held, index = _held.pop((view, fields), (None, Index(fields)))
    if held != digest:
        index.hold(list_valid(decode(load())))
    _held[view, fields] = digest, index
    return index


def forget() -> None:
    """Clear the caches, as in a new process."""
    _held.clear()
    _grown.clear()
