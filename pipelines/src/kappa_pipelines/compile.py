"""A revision as Spark queries: sources and views become temporary views, each sink a query that is ready to start.

Spark analyses every view by itself, so an error names the view it is in. A source that one query reads more than
once (a self-join, a union of two parts) would appear twice in its plan under one name, which named sources do not
allow; such a query is built again as one statement with the views as common table expressions, where Spark sees a
single source.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.pipeline import PipelineSpec, Sink, View
from kappa_crds.revision import Revision
from kappa_pipelines.classify import explain_sql_error
from kappa_pipelines.failures import read_sql_failure
from kappa_pipelines.graph import assign_owners, check_names, names_before
from kappa_pipelines.sinks.kafka import build_records, build_writer
from kappa_pipelines.sources.kafka import KafkaSource, build_source, read_stream

_SOURCE_PREFIX = "__kappa_source_"
_SOURCE_IN_PLAN = re.compile(r'StreamingRelationV2 .* name="([a-z][a-z0-9_]*)"$', re.MULTILINE)


@dataclass(frozen=True)
class CompiledSink:
    """A sink's query, not started yet, and the sources it reads, in the order of its plan."""

    sink: Sink
    writer: DataStreamWriter
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Compiled:
    """All that a revision became."""

    sources: dict[str, KafkaSource]
    sinks: tuple[CompiledSink, ...]

    @property
    def reads(self) -> dict[str, tuple[str, ...]]:
        """Return the sources that each sink's query reads."""
        return {compiled.sink.name: compiled.sources for compiled in self.sinks}

    @property
    def owners(self) -> dict[str, str]:
        """Return, for each source that is read, the sink whose query takes its dead letters."""
        return assign_owners([compiled.sink.name for compiled in self.sinks], self.reads)


def compile_revision(spark: SparkSession, revision: Revision) -> Compiled:
    """Compile a revision; SpecError says what is wrong and where. Starts nothing."""
    check_names(revision.spec)
    sources = {s.name: build_source(revision, s) for s in revision.spec.sources}
    for source in sources.values():
        stream = read_stream(spark, revision, source)
        stream.createOrReplaceTempView(source.name)
        stream.createOrReplaceTempView(_SOURCE_PREFIX + source.name)
    for view in revision.spec.views:
        with explained(revision.spec, view):
            _check_is_query(spark, view)
            spark.sql(_statement(view)).createOrReplaceTempView(view.name)
    return Compiled(sources, tuple(_compile_sink(spark, revision, sink) for sink in revision.spec.sinks))


def _check_is_query(spark: SparkSession, view: View) -> None:
    """Parse as a query: `spark.sql` alone would run a command such as DROP at once."""
    spark._jsparkSession.sessionState().sqlParser().parseQuery(_statement(view))


@contextmanager
def explained(spec: PipelineSpec, view: View) -> Iterator[None]:
    """Turn Spark's complaint about a view's SQL into an error that says where and what to do."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise explain_sql_error(spec, view, read_sql_failure(error)) from error


def _compile_sink(spark: SparkSession, revision: Revision, sink: Sink) -> CompiledSink:
    rows = spark.table(sink.from_)
    found = sources_in_plan(rows)
    if len(found) > len(set(found)):
        rows = spark.sql(_single_statement(revision.spec, sink))
    records = build_records(sink, rows)
    return CompiledSink(sink, build_writer(revision, sink, records), tuple(dict.fromkeys(found)))


def sources_in_plan(rows: DataFrame) -> list[str]:
    """Return the names of the sources that a plan reads, in its order, one for each occurrence."""
    return _SOURCE_IN_PLAN.findall(rows._jdf.queryExecution().analyzed().toString())


def _statement(view: View) -> str:
    return view.sql.strip().rstrip(";")


def _single_statement(spec: PipelineSpec, sink: Sink) -> str:
    """Return one SELECT with every source and the views up to the sink's as common table expressions."""
    parts = [
        f"{s.name} AS (SELECT * FROM {_SOURCE_PREFIX}{s.name})"  # noqa: S608 - checked names
        for s in spec.sources
    ]
    wanted = (*names_before(spec, sink.from_), sink.from_) if _is_view(spec, sink.from_) else ()
    parts += [f"{v.name} AS (\n{_statement(v)}\n)" for v in spec.views if v.name in wanted]
    return f"WITH {', '.join(parts)}\nSELECT * FROM {sink.from_}"


def _is_view(spec: PipelineSpec, name: str) -> bool:
    return any(view.name == name for view in spec.views)
