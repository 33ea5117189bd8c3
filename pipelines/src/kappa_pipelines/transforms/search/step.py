"""Search on a stream: documents wait until the watermark has passed them, then meet the queries that were valid at their time.

Documents are distributed over the key groups. Every key group gets all versions of all queries, so all have the same queries.
These are stored in a separate value, which a worker reads only if its cached index has other queries.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from kappa_pipelines.transforms.key_groups import Row
from kappa_pipelines.transforms.search.document import Fields, read_document
from kappa_pipelines.transforms.search.index import Index
from kappa_pipelines.transforms.search.language import QueryError, read_query
from kappa_pipelines.transforms.search.memory import Change, grow, hold_index
from kappa_pipelines.transforms.search.versions import Version
from kappa_pipelines.transforms.stored import Kept

STORED = "queries"
"""Key of the state that is stored in a value of its own."""
_DIGEST = "digest"
_WAITING = "waiting"
_PASSED = "passed"
"""The watermark at the last change of queries: all documents up to it have been matched in all key groups."""


class Role(StrEnum):
    """The role of a row. A query's row comes twice: as a version to every key group, and as a check to one, which reports errors."""

    DOCUMENT = "document"
    VERSION = "version"
    CHECK = "check"


class Given(NamedTuple):
    """An input row. `packed` are a document's columns, or further columns of a query."""

    role: str
    time: int
    id: str | None
    text: str | None
    deleted: bool | None
    packed: str


class Found(NamedTuple):
    """An output row: a document with a query that it matches, or a query with its error."""

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
        """Add the versions among the rows, and return the matches of the documents that the watermark has passed."""
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
        """Return the time of the first waiting row."""
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
    """Return packed columns by names in lower case, numbers as text."""
    columns = json.loads(packed, parse_float=str, parse_int=str)
    return {name.lower(): value for name, value in columns.items()}


def _read_version(row: Given) -> tuple[str, Version]:
    assert row.id is not None  # noqa: S101 - rows without id are left out before
    return row.id, Version(row.time, bool(row.deleted), row.text, row.packed)
