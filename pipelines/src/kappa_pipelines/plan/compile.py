"""A revision as Spark queries: sources and views become temporary views, each sink a query that is ready to start.

Spark analyses each view separately, so an error names its view. A source that one query names more than once (a self-join, a
union of two parts) would be in its plan twice under one name, which Spark refuses for named sources. Parts of a source in a union
become one (ADR 104). Another such query is built again as one statement with the views as common table expressions, where Spark
sees a single source but reads it as often as it is named.

Sliding windows and as-of joins keep each row once (ADR 81) in queries that can: those in mode append that read each source once.
In all others, and where the state of a checkpoint is that of a join, they are statements too. The same holds for a join of two
streams within a time interval (ADR 102). Tables and patterns whose state is in Python in a checkpoint stay there (ADR 83, ADR 101).

Spark's checks of streams (modes, watermarks) run here, not only when the query starts.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.sink import OutputMode, Sink
from kappa_pipelines.analysis.catalyst import find_views, get_plan, read_plan
from kappa_pipelines.analysis.state import State, check_bounds, find_joined_views, find_states
from kappa_pipelines.compare.selection import Selection
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.exceptions import read_failure
from kappa_pipelines.failures.sql import refuse_stream
from kappa_pipelines.plan.endpoints import Endpoints, KafkaEndpoints
from kappa_pipelines.plan.late_rows import LateRecordRows, LateRecordView, find_late_record_views
from kappa_pipelines.plan.realtime import check_real_time, check_spec
from kappa_pipelines.plan.selection import apply_selection, build_selection
from kappa_pipelines.plan.shared_scans import find_repeated, read_inlined, share_scans
from kappa_pipelines.plan.views import DefinedView, define_views, forget_views
from kappa_pipelines.registry.resolve import Subjects, fetch_subjects
from kappa_pipelines.revision.names import assign_owners, check_loops, check_names
from kappa_pipelines.sinks.kafka import build_records
from kappa_pipelines.sources.kafka import KafkaSource, build_source, read_stream
from kappa_pipelines.transforms.frames import describe_state
from kappa_pipelines.transforms.interval_join import join_natively

_SOURCE_PREFIX = "__kappa_source_"


@dataclass(frozen=True)
class CompiledSink:
    """A sink's query, not started yet: the source of each scan in the order of its plan, its state, and all names it reads.

    `rows` are all rows of the sink, as a plan of views, and `joined` the same with a step in place of a join, if there is one. Where
    there is a `selection`, just those of it are written.
    """

    sink: Sink
    writer: DataStreamWriter
    scans: tuple[str, ...]
    states: tuple[State, ...]
    views: frozenset[str]
    rows: DataFrame
    selection: Selection | None = None
    joined: DataFrame | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the sources, each once."""
        return tuple(dict.fromkeys(self.scans))


@dataclass(frozen=True)
class Compiled:
    """A compiled revision. `late_records` are the views whose late records are written to topics."""

    sources: dict[str, KafkaSource]
    sinks: tuple[CompiledSink, ...]
    late_records: tuple[LateRecordView, ...]

    @property
    def reads(self) -> dict[str, tuple[str, ...]]:
        """Return the sources that each sink's query reads."""
        return {compiled.sink.name: compiled.sources for compiled in self.sinks}

    @property
    def owners(self) -> dict[str, str]:
        """Return, for each source that is read, the sink whose query takes its dead letters."""
        return assign_owners(self.reads)


def compile_revision(
    spark: SparkSession,
    revision: Revision,
    endpoints: Endpoints | None = None,
    subjects: Subjects | None = None,
    former: Collection[tuple[str, str]] = (),
    *,
    only: str | None = None,
) -> Compiled:
    """Compile a revision, by default for Kafka; SpecError names the view or sink. Starts nothing.

    `subjects` are the schemas of sources with a registry; without them they are fetched. `former` are the sinks and views whose
    state is that of an earlier release: joins of Spark, and tables and patterns in Python. `only` is the condition
    of the rows that are written, where not all are.
    """
    spec = revision.spec
    ends: Endpoints = endpoints or KafkaEndpoints(spark, revision)
    check_names(spec)
    check_spec(spec)
    check_loops(revision)
    forget_views(spark)
    known = fetch_subjects(revision) if subjects is None else subjects
    sources = {s.name: build_source(revision, s, known.get(s.name)) for s in spec.sources}
    for source in sources.values():
        stream = read_stream(
            ends.read(source),
            source,
            alert=ends.alerts,
            idle=ends.read_idle_watermarks(source),
            watched=ends.watches_idleness,
            located=spec.dead_letter is not None,
        )
        stream.createOrReplaceTempView(source.name)
        stream.createOrReplaceTempView(_SOURCE_PREFIX + source.name)
    sinks = _compile_sinks(spark, revision, ends, former, only)
    late_records = find_late_record_views(spark, spec, {each.sink: each.views for each in sinks})
    for view in late_records:
        LateRecordRows(spark, spec, sources, view).check()
    return Compiled(sources, sinks, late_records)


def _compile_sinks(
    spark: SparkSession,
    revision: Revision,
    ends: Endpoints,
    former: Collection[tuple[str, str]],
    only: str | None,
) -> tuple[CompiledSink, ...]:
    """Return the queries of all sinks. Those for which other views have state in the module in Java are compiled together."""
    spec, compiled = revision.spec, {}
    every = frozenset(view.name for view in spec.views)
    one_sided = frozenset(view.name for view in spec.views if view.sliding or view.as_of)
    views = define_views(spark, spec, every)
    groups: dict[frozenset[str], list[Sink]] = {every: []}
    for sink in spec.sinks:
        others = {view for name, view in former if name == sink.name}
        others |= one_sided if _needs_statement(spark, spec, sink) else set()
        groups.setdefault(every - others, []).append(sink)
    for native, sinks in groups.items():
        if native != every:
            define_views(spark, spec, native)
        for sink in sinks:
            compiled[sink.name] = _compile_sink(spark, revision, views, sink, ends, native=native, only=only)
    return tuple(compiled[sink.name] for sink in spec.sinks)


def _needs_statement(spark: SparkSession, spec: PipelineSpec, sink: Sink) -> bool:
    """Return whether a query is a statement, or emits rows before they are final."""
    rows = spark.table(sink.from_)
    return sink.mode is not OutputMode.APPEND or (
        _has_repeated_names(spec, rows) and share_scans(rows, find_repeated(_find_scans(spec, rows))) is None
    )


def _has_repeated_names(spec: PipelineSpec, rows: DataFrame) -> bool:
    """Return whether a source is in a plan under its name several times, which Spark refuses. A common table expression is there once."""
    return bool(find_repeated(_find_sources(spec, read_plan(rows))))


def _find_scans(spec: PipelineSpec, rows: DataFrame) -> list[str]:
    """Return the source of each scan of rows."""
    return _find_sources(spec, read_inlined(rows))


def _find_sources(spec: PipelineSpec, plan: Any) -> list[str]:
    """Return the source of each scan of a plan."""
    read = tuple(find_views(plan))
    return [source.name for source in spec.sources for name in read if name == source.name]


def _compile_sink(
    spark: SparkSession,
    revision: Revision,
    views: tuple[DefinedView, ...],
    sink: Sink,
    ends: Endpoints,
    *,
    native: frozenset[str],
    only: str | None,
) -> CompiledSink:
    """Return a sink's query. `native` are the views whose state the module in Java may keep."""
    spec = revision.spec
    rows = spark.table(sink.from_)
    states = find_states(spark, rows, {view.name: describe_state(view) for view in spec.views}, sink.mode)
    read, scans = tuple(find_views(read_plan(rows))), _find_scans(spec, rows)
    planned, joined, repeated = rows, None, find_repeated(scans)
    if sink.mode is OutputMode.APPEND and find_joined_views(states) and find_joined_views(states) <= native:
        joined = join_natively(rows, repeated)
    shared = share_scans(rows if joined is None else joined, repeated)
    if shared is not None:
        rows, scans = shared, list(dict.fromkeys(scans))
    else:
        joined = None
        if _has_repeated_names(spec, rows):
            _refuse_frames(views, read)
            rows = spark.sql(_single_statement(spec, views, sink, frozenset(read)))
    if spec.trigger.real_time is not None:
        check_real_time(planned, sink, scans)
    _check_stream(spark, views, sink, rows)
    check_bounds(spec.views, states)
    records = build_records(sink, rows)
    selection = None if only is None else build_selection(sink, planned, only)
    if selection is not None:
        records = build_records(sink, apply_selection(rows, selection))
    writer = ends.write(sink, records)
    return CompiledSink(sink, writer, tuple(scans), states, frozenset(read), planned, selection, joined)


def _refuse_frames(views: tuple[DefinedView, ...], read: tuple[str, ...]) -> None:
    """Raise SpecError if a query that reads a source twice has a view that is not a SQL statement."""
    for view in views:
        if view.statement is None and view.name in read:
            raise SpecError(
                Reason.UNSUPPORTED_QUERY,
                f"view {view.name!r}: a query with a view in Python, or one that keeps state in Python, cannot read a"
                " source more than once; do it in SQL, or write the rows of this view to a topic and read them from there",
            )


def _check_stream(spark: SparkSession, views: tuple[DefinedView, ...], sink: Sink, rows: DataFrame) -> None:
    """Raise SpecError if the rows cannot be computed as a stream in the sink's mode; it names the view."""
    error = _refuse_stream(spark, sink.mode, rows)
    if error is None:
        return
    read = set(find_views(read_plan(spark.table(sink.from_))))
    for view in (view for view in views if view.name in read):
        cause = _refuse_stream(spark, sink.mode, spark.table(view.name))
        if cause is not None:
            raise refuse_stream(read_failure(cause), f"view {view.name!r} for sink {sink.name!r}") from cause
    raise refuse_stream(read_failure(error), f"sink {sink.name!r}") from error


def _refuse_stream(spark: SparkSession, mode: OutputMode, rows: DataFrame) -> AnalysisException | None:
    """Return Spark's error for a query of these rows in this mode, or None."""
    jvm = spark._jvm
    assert jvm is not None  # noqa: S101 - a used session has one
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

    It has no others: the watermark of a source that is not read would never move, and would hold back the query.
    """
    parts = [
        f"{s.name} AS (SELECT * FROM {_SOURCE_PREFIX}{s.name})"  # noqa: S608 - checked names
        for s in spec.sources
        if s.name in read
    ]
    parts += [f"{view.name} AS (\n{view.statement}\n)" for view in views if view.name in read]
    return f"WITH {', '.join(parts)}\nSELECT * FROM {sink.from_}"
