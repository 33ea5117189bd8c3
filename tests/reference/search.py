"""What a search means: every query tested against every document, as a plain function over lists."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from kappa_pipelines.transforms.search.document import Document, Fields
from kappa_pipelines.transforms.search.language import QueryError, read_query
from kappa_pipelines.transforms.search.versions import Version, rank

Key = TypeVar("Key")


def match(
    fields: Fields, documents: Iterable[tuple[Key, int, Document]], queries: Sequence[tuple[str, Version]]
) -> list[tuple[Key, str, Version]]:
    """Return each document's key with each query that it matches; documents come with their times."""
    found = []
    for key, time, document in documents:
        for name in {name for name, _ in queries}:
            version = find_version(queries, name, time)
            if version is None or version.deleted:
                continue
            condition = read_query(fields, version.text)
            if not isinstance(condition, QueryError) and condition.matches(document):
                found.append((key, name, version))
    return found


def find_version(queries: Iterable[tuple[str, Version]], name: str, time: int) -> Version | None:
    """Return the newest version of a query that is not younger than a time; of equal times the greatest."""
    versions = (version for key, version in queries if key == name and version.since <= time)
    return max(versions, key=rank, default=None)
