"""What a run of a pipeline needs of the log, from its spec: for each source its topics, its start, and how its records are used."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.view import View
from kappa_operator.log.facts import Edge, Question, Start, Use


def build_questions(
    spec: PipelineSpec, topics: Mapping[str, str], start: Start | None = None
) -> tuple[Question, ...]:
    """Return one question for each source. `topics` are names in Kafka by those of the spec, `start` is one for all sources."""
    return tuple(
        Question(
            source.name,
            tuple(topics.get(name, name) for name in source.topic_names),
            source.topic_pattern,
            find_use(spec, source.name),
            read_start(source.starting_offsets) if start is None else start,
        )
        for source in spec.sources
    )


def read_start(text: str) -> Start:
    """Return the start that a text means: earliest, latest, or a time with its zone (RFC 3339); raise ValueError."""
    if text in (Edge.EARLIEST, Edge.LATEST):
        return Edge(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError(f"{text!r} is neither earliest nor latest nor a time such as 2013-01-01T00:00:00Z")
    return at


def find_use(spec: PipelineSpec, source: str) -> Use:
    """Return how the records of a source are used: as a table only where each reader takes the last record of a key.

    A view between the source and the join may count records, so it makes the source a stream.
    """
    streams = {name for view in spec.views for name in _find_streams(view, source)}
    streams |= {sink.from_ for sink in spec.sinks}
    tables = {name for view in spec.views for name in _find_tables(view)}
    return Use.TABLE if source in tables - streams else Use.STREAM


def _find_tables(view: View) -> Iterator[str]:
    if view.lookup is not None:
        yield view.lookup.table.from_
    if view.table_join is not None:
        yield view.table_join.left.from_
        yield view.table_join.right.from_


def _find_streams(view: View, source: str) -> Iterator[str]:
    """Yield the source where the view may use each of its records. SQL that has its name as a word counts."""
    if view.sql is not None:
        if re.search(rf"\b{re.escape(source)}\b", view.sql, re.IGNORECASE):
            yield source
    elif view.lookup is not None:
        yield view.lookup.from_
    elif view.python is not None:
        yield from view.python.reads
    elif view.as_of is not None:
        yield from (view.as_of.from_, view.as_of.table)
    elif view.search is not None:
        yield from (view.search.from_, view.search.queries.from_)
    elif view.table_join is None:
        yield str(getattr(view.operator, "from_", ""))
