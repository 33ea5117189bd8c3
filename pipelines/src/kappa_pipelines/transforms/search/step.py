"""Search on a stream: documents wait until the watermark has passed them, then meet the queries that were valid at their time.

Documents are spread over the buckets; every bucket is told every version of every query, so all keep the same. What
they keep of queries is stored apart and read by a worker only where its memory is of other queries.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from kappa_pipelines.transforms.key_groups import Kept, Row
from kappa_pipelines.transforms.search.document import Fields, read_document
from kappa_pipelines.transforms.search.index import Index
from kappa_pipelines.transforms.search.language import QueryError, read_query
from kappa_pipelines.transforms.search.memory import Change, grow, hold_index
from kappa_pipelines.transforms.search.versions import Version

STORED = "queries"
"""The part of what is kept that is stored apart."""
_DIGEST = "digest"
_WAITING = "waiting"
_PASSED = "passed"
"""The watermark when versions came last: no document up to it is still to be answered, neither here nor in other buckets."""


class Role(StrEnum):
    """What a row is for. A query's row comes twice: as a version to every bucket, and to one, which tells what is wrong with it."""

    DOCUMENT = "document"
    VERSION = "version"
    CHECK = "check"


class Given(NamedTuple):
    """A row as the step gets it. `packed` are a document's columns, or those of a query that go with it."""

    role: str
    time: int
    id: str | None
    text: str | None
    deleted: bool | None
    packed: str


class Found(NamedTuple):
    """A row that comes out: a document with a query that it matches, or a query with what is wrong with it."""

    time: int
    document: str | None
    query: str
    error: str | None


@dataclass(frozen=True)
class Search:
    """The step of one view."""

    view: str
    fields: Fields

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterable[Row]:
        """Add the versions among the rows, and return what has waited for the watermark and come to its end."""
        given = [Given(*row) for row in rows]
        new = frozenset(_read_version(row) for row in given if row.role == Role.VERSION)
        if new:
            change = Change(kept.get(_DIGEST), new, kept.get(_PASSED, 0))
            kept[STORED], kept[_DIGEST] = grow(self.view, change, lambda: kept[STORED])
            kept[_PASSED] = watermark
        waiting = [*kept.get(_WAITING, ()), *(tuple(row) for row in given if row.role != Role.VERSION)]
        kept[_WAITING] = [row for row in waiting if row[1] > watermark]
        return self._answer(kept, [Given(*row) for row in waiting if row[1] <= watermark])

    def find_wake(self, kept: Kept) -> int | None:
        """Return the time of the first that waits."""
        return min((row[1] for row in kept[_WAITING]), default=None)

    def _answer(self, kept: Kept, ready: Sequence[Given]) -> Iterator[Row]:
        for row in ready:
            if row.role == Role.CHECK:
                yield from self._check(row)
        documents = [row for row in ready if row.role == Role.DOCUMENT]
        if documents and _DIGEST in kept:
            index = hold_index(self.view, self.fields, kept[_DIGEST], lambda: kept[STORED])
            for row in documents:
                yield from self._match(index, row)

    def _check(self, row: Given) -> Iterator[Row]:
        read = read_query(self.fields, row.text)
        if isinstance(read, QueryError):
            yield Found(row.time, None, row.packed, str(read))

    def _match(self, index: Index, row: Given) -> Iterator[Row]:
        document = read_document(self.fields, read_columns(row.packed))
        for query in index.find(document, row.time):
            yield Found(row.time, row.packed, query.packed, None)


def read_columns(packed: str) -> dict[str, Any]:
    """Return packed columns by names in small letters, numbers as text."""
    columns = json.loads(packed, parse_float=str, parse_int=str)
    return {name.lower(): value for name, value in columns.items()}


def _read_version(row: Given) -> tuple[str, Version]:
    assert row.id is not None  # noqa: S101 - rows without id are left out before
    return row.id, Version(row.time, bool(row.deleted), row.text, row.packed)
