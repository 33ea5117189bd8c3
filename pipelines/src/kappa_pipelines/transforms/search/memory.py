"""What a worker process remembers of stored queries from call to call: an index of them, and the last change.

Everything is known by a digest of the queries that a bucket keeps, which are the same in all buckets. So it is right after a
restart, a failure or a rewinding too: then the digest is another one.
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
"""Reads the encoded queries of a bucket, where they are not known."""


class Change(NamedTuple):
    """What happens to the queries of a digest, None for no queries; see `add_versions`."""

    digest: str | None
    new: frozenset[tuple[str, Version]]
    passed: int


def grow(view: str, change: Change, load: Load) -> tuple[bytes, str]:
    """Return the encoded queries after a change, and their digest; computed once for all buckets that a process serves."""
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
    """Forget all, as a new process has."""
    _held.clear()
    _grown.clear()
