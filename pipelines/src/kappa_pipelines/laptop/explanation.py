"""What `kappa explain` shows of a compiled pipeline: its graph, its state with its bounds, and the guarantees of its sinks."""

from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from kappa_crds.guarantee import explain_guarantee
from kappa_crds.pipeline import PipelineSpec, Trigger
from kappa_crds.revision import Revision
from kappa_crds.sink import Sink
from kappa_crds.source import Source
from kappa_crds.view import View
from kappa_pipelines.analysis.catalyst import find_reads, get_plan
from kappa_pipelines.analysis.native_json import explain_read, explain_write
from kappa_pipelines.analysis.state import State, find_joined_views
from kappa_pipelines.plan.compile import Compiled, CompiledSink
from kappa_pipelines.plan.shared_scans import find_repeated
from kappa_pipelines.sinks.kafka import JSON_OPTIONS, find_value_columns
from kappa_pipelines.sources.change_events import ChangeEvents
from kappa_pipelines.sources.framing import Framed
from kappa_pipelines.sources.native_changes import explain_python_changes
from kappa_pipelines.sources.protobuf import COST, ProtobufValues
from kappa_pipelines.sources.text import JsonValues, with_corrupt
from kappa_pipelines.sources.values import Values
from kappa_pipelines.transforms.frames import describe_cost
from kappa_pipelines.transforms.interval_join import explain_spark_join
from kappa_pipelines.transforms.native_tables import explain_python_tables
from kappa_pipelines.transforms.one_sided import explain_one_sided
from kappa_pipelines.transforms.patterns.native import explain_python_pattern

_TWICE = "the query reads a source twice, or is not in mode append"


def explain(name: str, spark: SparkSession, revision: Revision, compiled: Compiled) -> Iterator[str]:
    """Yield the lines that explain a compiled pipeline."""
    yield name
    spec = revision.spec
    yield from _explain_trigger(spec.trigger)
    for source in spec.sources:
        yield from _explain_source(source, is_read=any(source.name in s.sources for s in compiled.sinks))
        yield from _explain_values(spark, compiled.sources[source.name].values)
    for view in spec.views:
        reads = dict.fromkeys(find_reads(get_plan(spark.table(view.name)).child()))
        yield f"view {view.name} ← {', '.join(reads) or 'nothing'}"
        states = dict.fromkeys(s for sink in compiled.sinks for s in sink.states if s.view == view.name)
        yield from (f"    {_explain_state(state)}" for state in states)
        yield from _explain_late_records(view, compiled)
        yield from (f"    {line}" for line in describe_cost(view))
        yield from _explain_one_sided(spark, view, states)
        yield from _explain_join(view, compiled)
        yield from _explain_tables(spark, view)
        yield from _explain_pattern(spark, view)
    for each in compiled.sinks:
        yield from _explain_sink(spec, each.sink)
        yield from _explain_scans(each)
        yield from _explain_written(spark, each)
        yield from (f"    {_explain_state(state)}" for state in each.states if state.view is None)


def _explain_source(source: Source, *, is_read: bool) -> Iterator[str]:
    yield f"source {source.name} ← {source.reads}" + ("" if is_read else " (no sink reads it)")
    time = source.event_time
    if time is None:
        yield "    no event time: no result of it is final"
    else:
        yield f"    event time {time.column}; records more than {time.watermark} out of order are late"
        if time.idle_after is not None:
            yield f"    after {time.idle_after} without records it no longer holds back the watermark, until the next record"


def _explain_values(spark: SparkSession, values: Values) -> Iterator[str]:
    if isinstance(values, JsonValues):
        cause = explain_read(spark, with_corrupt(values.schema), values.options)
        yield "    JSON is read by " + ("Kappa" if cause is None else f"Spark, more slowly: {cause}")
    if isinstance(values, ChangeEvents):
        cause = explain_python_changes(spark, values)
        yield "    change events are read by " + (
            "Kappa" if cause is None else f"Spark, more slowly: {cause}"
        )
    if isinstance(values, ProtobufValues):
        yield f"    {COST}"
    if isinstance(values, Framed):
        versions = ", ".join(f"{each.version} (id {each.id})" for each in values.subject.versions)
        yield f"    columns of subject {values.subject.name} version {values.subject.reader.version};" + (
            f" reads records of versions {versions}"
        )


def _explain_late_records(view: View, compiled: Compiled) -> Iterator[str]:
    for each in compiled.late_records:
        if each.name == view.name:
            yield (
                f"    late records go to topic {each.topic}, at least once and with the same key each time;"
                f" the query of sink {each.owner} decides which records are late"
            )


def _explain_one_sided(spark: SparkSession, view: View, states: Iterable[State]) -> Iterator[str]:
    """Yield why the view is a join of Spark, if it is in a query."""
    if (view.sliding or view.as_of) and any("side of a join" in state.operator for state in states):
        cause = explain_one_sided(spark, view) or _TWICE
        yield f"    a join of Spark, with more state and less speed: {cause}"


def _explain_join(view: View, compiled: Compiled) -> Iterator[str]:
    """Yield how a join of streams in SQL keeps its rows, and why if that is a join of Spark."""
    sinks = [each for each in compiled.sinks if view.sql and view.name in find_joined_views(each.states)]
    for each in sinks:
        cause = None
        if each.joined is None:
            cause = explain_spark_join(each.rows, find_repeated(each.scans)) or _TWICE
        yield f"    for sink {each.sink.name} " + (
            "each row is kept once, with the others of its key"
            if cause is None
            else f"a join of Spark, with more state and less speed: {cause}"
        )


def _explain_tables(spark: SparkSession, view: View) -> Iterator[str]:
    """Yield where a view keeps its tables, and why if that is in Python."""
    if view.table_join or view.lookup:
        cause = explain_python_tables(spark, view)
        yield "    tables are kept " + (
            "by Kappa in the JVM" if cause is None else f"in Python, more slowly: {cause}"
        )


def _explain_pattern(spark: SparkSession, view: View) -> Iterator[str]:
    """Yield where the matches of a pattern are found, and why if that is in Python."""
    if view.pattern:
        cause = explain_python_pattern(spark, view.pattern)
        yield "    matches are found " + (
            "by Kappa in the JVM" if cause is None else f"in Python, more slowly: {cause}"
        )


def _explain_state(state: State) -> str:
    by = f" by {', '.join(state.by)}" if state.by else ""
    if state.until is None:
        growth = (
            f"without bound: it grows with the number of {state.grows_with}"
            if state.grows_with
            else "in one row"
        )
        return f"keeps the {state.operator}{by} {growth}"
    return f"keeps the {state.operator}{by} until {state.until}"


def _explain_trigger(trigger: Trigger) -> Iterator[str]:
    if trigger.real_time is not None:
        every = trigger.real_time.checkpoint_interval
        yield f"real-time mode: no record waits for a batch; offsets are kept every {every}, and a stop waits as long"


def _explain_sink(spec: PipelineSpec, sink: Sink) -> Iterator[str]:
    key = f", key {', '.join(sink.target.key)}" if sink.target.key else ""
    yield f"sink {sink.name} ← {sink.from_} → topic {sink.target.topic} (mode {sink.mode}{key})"
    yield f"    {explain_guarantee(spec.sources, sink, spec.trigger)}"


def _explain_scans(each: CompiledSink) -> Iterator[str]:
    """Yield the sources that a query reads several times."""
    for name in find_repeated(each.scans):
        yield (
            f"    reads source {name} {each.scans.count(name)} times; it is read once where its rows are selected and filtered,"
            " in a UNION or in an inner join within an interval"
        )


def _explain_written(spark: SparkSession, each: CompiledSink) -> Iterator[str]:
    if each.sink.target.raw is None:
        names = find_value_columns(each.sink, each.rows)
        cause = explain_write(spark, each.rows.select(*map(_quote, names)).schema, JSON_OPTIONS)
        yield "    JSON is written by " + ("Kappa" if cause is None else f"Spark, more slowly: {cause}")


def _quote(name: str) -> str:
    return f"`{name}`"
