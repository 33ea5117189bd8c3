"""A revision as Spark queries: sources and views become temporary views, each sink a query that is ready to start.

Spark analyses every view by itself, so an error names the view it is in. A source that one query reads more than
once (a self-join, a union of two parts) would appear twice in its plan under one name, which named sources do not
allow; such a query is built again as one statement with the views as common table expressions, where Spark sees a
single source.

What Spark can tell of a stream before it starts (modes, watermarks) is asked here, not when the query starts.
"""

from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.sink import OutputMode, Sink
from kappa_pipelines.analysis.catalyst import find_views, get_plan
from kappa_pipelines.analysis.state import State, check_bounds, find_states
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.exceptions import read_failure
from kappa_pipelines.failures.sql import refuse_stream
from kappa_pipelines.plan.endpoints import Endpoints, KafkaEndpoints
from kappa_pipelines.plan.late_rows import LateRecordRows, LateRecordView, find_late_record_views
from kappa_pipelines.plan.realtime import check_delivery, check_formats, check_real_time, check_times
from kappa_pipelines.plan.views import DefinedView, define_views, forget_views
from kappa_pipelines.registry.resolve import Subjects, fetch_subjects
from kappa_pipelines.revision.names import assign_owners, check_loops, check_names
from kappa_pipelines.sinks.kafka import build_records
from kappa_pipelines.sources.kafka import KafkaSource, build_source, read_stream
from kappa_pipelines.transforms.frames import describe_state

_SOURCE_PREFIX = "__kappa_source_"


@dataclass(frozen=True)
class CompiledSink:
    """A sink's query, not started yet, the source of each scan, in the order of its plan, the state it keeps, and all names it reads.

    `rows` are what is written, view by view.
    """

    sink: Sink
    writer: DataStreamWriter
    scans: tuple[str, ...]
    states: tuple[State, ...]
    views: frozenset[str]
    rows: DataFrame

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the sources that it reads, each once."""
        return tuple(dict.fromkeys(self.scans))


@dataclass(frozen=True)
class Compiled:
    """All that a revision became. `stragglers` are the views whose stragglers are written to topics."""

    sources: dict[str, KafkaSource]
    sinks: tuple[CompiledSink, ...]
    stragglers: tuple[LateRecordView, ...]

    @property
    def reads(self) -> dict[str, tuple[str, ...]]:
        """Return the sources that each sink's query reads."""
        return {compiled.sink.name: compiled.sources for compiled in self.sinks}

    @property
    def owners(self) -> dict[str, str]:
        """Return, for each source that is read, the sink whose query takes its dead letters."""
        return assign_owners([compiled.sink.name for compiled in self.sinks], self.reads)


def compile_revision(
    spark: SparkSession,
    revision: Revision,
    endpoints: Endpoints | None = None,
    subjects: Subjects | None = None,
) -> Compiled:
    """Compile a revision, for Kafka unless told otherwise; SpecError says what is wrong and where. Starts nothing.

    `subjects` are the schemas of sources with a registry; it is asked where they are left out.
    """
    spec = revision.spec
    ends: Endpoints = endpoints or KafkaEndpoints(spark, revision)
    check_names(spec)
    check_times(spec)
    check_formats(spec)
    check_delivery(spec)
    check_loops(revision)
    forget_views(spark)
    known = fetch_subjects(revision) if subjects is None else subjects
    sources = {s.name: build_source(revision, s, known.get(s.name)) for s in spec.sources}
    for source in sources.values():
        stream = read_stream(
            ends.read(source),
            source,
            alert=ends.alerts,
            marks=ends.read_marks(source),
            watched=ends.watches_silence,
        )
        stream.createOrReplaceTempView(source.name)
        stream.createOrReplaceTempView(_SOURCE_PREFIX + source.name)
    views = define_views(spark, spec)
    sinks = tuple(_compile_sink(spark, revision, views, sink, ends) for sink in spec.sinks)
    stragglers = find_late_record_views(spark, spec, {each.sink: each.views for each in sinks})
    for view in stragglers:
        LateRecordRows(spark, spec, sources, view).check()
    return Compiled(sources, sinks, stragglers)


def _compile_sink(
    spark: SparkSession, revision: Revision, views: tuple[DefinedView, ...], sink: Sink, ends: Endpoints
) -> CompiledSink:
    spec = revision.spec
    rows = spark.table(sink.from_)
    states = find_states(spark, rows, {view.name: describe_state(view) for view in spec.views}, sink.mode)
    read = tuple(find_views(get_plan(rows)))
    found = [source.name for source in spec.sources for name in read if name == source.name]
    planned = rows
    if spec.trigger.real_time is not None:
        check_real_time(rows, sink, found)
    if len(found) > len(set(found)):
        _refuse_frames(views, read)
        rows = spark.sql(_single_statement(spec, views, sink, frozenset(read)))
    _check_stream(spark, views, sink, rows)
    check_bounds(spec.views, states)
    records = build_records(sink, rows)
    return CompiledSink(sink, ends.write(sink, records), tuple(found), states, frozenset(read), planned)


def _refuse_frames(views: tuple[DefinedView, ...], read: tuple[str, ...]) -> None:
    """Raise SpecError where a query reads a source twice and has a part that is no statement: then it cannot be one."""
    for view in views:
        if view.statement is None and view.name in read:
            raise SpecError(
                Reason.UNSUPPORTED_QUERY,
                f"view {view.name!r}: a query with a view in Python, or one that keeps state in Python, cannot read a"
                " source more than once; do it in SQL, or write the rows of this view to a topic and read them from there",
            )


def _check_stream(spark: SparkSession, views: tuple[DefinedView, ...], sink: Sink, rows: DataFrame) -> None:
    """Raise SpecError where the rows cannot be computed as a stream in the sink's mode; it names the view."""
    error = _refuse_stream(spark, sink.mode, rows)
    if error is None:
        return
    read = set(find_views(get_plan(spark.table(sink.from_))))
    for view in (view for view in views if view.name in read):
        cause = _refuse_stream(spark, sink.mode, spark.table(view.name))
        if cause is not None:
            raise refuse_stream(read_failure(cause), f"view {view.name!r} for sink {sink.name!r}") from cause
    raise refuse_stream(read_failure(error), f"sink {sink.name!r}") from error


def _refuse_stream(spark: SparkSession, mode: OutputMode, rows: DataFrame) -> AnalysisException | None:
    """Return why Spark would not start a query of these rows in this mode, or None."""
    jvm = spark._jvm
    assert jvm is not None  # noqa: S101 - a session that is used has one
    wanted = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.value.capitalize())()
    plan = get_plan(rows)
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, wanted)
    except AnalysisException as error:
        return error
    return None


def _single_statement(
    spec: PipelineSpec, views: tuple[DefinedView, ...], sink: Sink, read: frozenset[str]
) -> str:
    """Return one SELECT with the sources and views that the sink reads as common table expressions.

    No others: a watermark of a source that is defined and not read would never move, and hold all.
    """
    parts = [
        f"{s.name} AS (SELECT * FROM {_SOURCE_PREFIX}{s.name})"  # noqa: S608 - checked names
        for s in spec.sources
        if s.name in read
    ]
    parts += [f"{view.name} AS (\n{view.statement}\n)" for view in views if view.name in read]
    return f"WITH {', '.join(parts)}\nSELECT * FROM {sink.from_}"
