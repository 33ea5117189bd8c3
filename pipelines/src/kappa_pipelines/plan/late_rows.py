"""The late rows of some batches for a view's windows: rows that Spark dropped, computed again without state."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.sink import OutputMode, Sink
from kappa_crds.view import SlidingWindow
from kappa_crds.window import Window
from kappa_pipelines.analysis.catalyst import find_views, read_plan
from kappa_pipelines.errors import SpecError
from kappa_pipelines.plan.origin import ORIGIN, carry_origin, refuse_origin
from kappa_pipelines.plan.views import define_views, forget_views
from kappa_pipelines.sources.batches import JUDGED_SCHEMA
from kappa_pipelines.sources.kafka import KafkaSource, read_stream
from kappa_pipelines.transforms.inputs import read_input
from kappa_pipelines.transforms.sliding import add_missed_span
from kappa_pipelines.transforms.window import add_missed_window

MISSED = "__kappa_missed"
"""Column with the window that a row missed."""
_STATELESS = ("sql", "python")


@dataclass(frozen=True)
class LateRecordView:
    """A windowed view whose late records are written to a topic.

    `time` is the event-time column, `reads` are its sources and views. Of several queries with the view, the one of the sink `owner`
    decides which rows are late.
    """

    name: str
    window: Window | SlidingWindow
    time: str
    topic: str
    owner: str
    reads: frozenset[str]
    sources: tuple[str, ...]

    @property
    def place(self) -> str:
        """Return the path in the spec, for errors."""
        return _say_place(self.name, self.window)

    def add_missed(self, rows: DataFrame, watermark: Column) -> DataFrame:
        """Return the rows that are late by the watermark, each with the window that it missed as MISSED."""
        if isinstance(self.window, SlidingWindow):
            return add_missed_span(rows, self.window, self.time, watermark, MISSED)
        return add_missed_window(rows, self.window, self.time, watermark, MISSED)


def _say_place(view: str, window: Window | SlidingWindow) -> str:
    kind = "sliding" if isinstance(window, SlidingWindow) else "window"
    return f"view {view!r}: {kind}.lateRecords.sideOutput"


def find_late_record_views(
    spark: SparkSession, spec: PipelineSpec, reads: Mapping[Sink, Collection[str]]
) -> tuple[LateRecordView, ...]:
    """Return the views whose late records are written, each with the first sink that reads it.

    `reads` are the names that each sink's query reads. SpecError if there are no late records or they cannot be read again.
    """
    found = []
    for view in spec.views:
        owner = next((sink for sink, names in reads.items() if view.name in names), None)
        window = view.window or view.sliding
        if owner is not None and window is not None and window.side_output is not None:
            _check_mode(_say_place(view.name, window), owner)
            found.append(_build_view(spark, spec, view.name, window, owner.name))
    return tuple(found)


def _check_mode(place: str, sink: Sink) -> None:
    if sink.mode is OutputMode.COMPLETE:
        raise SpecError(
            Reason.UNSUPPORTED_QUERY,
            f"{place} has nothing to write where sink {sink.name!r} has mode"
            " complete, as no window of it ever closes; use mode append or update, or leave sideOutput out",
        )


def _build_view(
    spark: SparkSession, spec: PipelineSpec, name: str, window: Window | SlidingWindow, owner: str
) -> LateRecordView:
    reads = {window.from_, *find_views(read_plan(spark.table(window.from_)))}
    for view in spec.views:
        if view.name in reads and view.kind not in _STATELESS:
            raise refuse_origin(
                _say_place(name, window), f"view {view.name!r} is {view.kind}, which keeps state"
            )
    sources = tuple(source.name for source in spec.sources if source.name in reads)
    time = read_input(spark, window.from_).find_time(name, window.time)
    assert window.side_output is not None  # noqa: S101 - asked before
    return LateRecordView(name, window, time, window.side_output.topic, owner, frozenset(reads), sources)


class LateRecordRows:
    """Builds the late rows of a view, in a separate session with the views as tables."""

    def __init__(
        self,
        spark: SparkSession,
        spec: PipelineSpec,
        sources: Mapping[str, KafkaSource],
        view: LateRecordView,
    ) -> None:
        self._spark = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        self._sources = [sources[name] for name in view.sources]
        self._spec = spec.model_copy(update={"views": tuple(v for v in spec.views if v.name in view.reads)})
        self._view = view

    def check(self) -> None:
        """Raise SpecError if the rows cannot be computed again."""
        self.build(lambda spark, source: spark.createDataFrame([], JUDGED_SCHEMA))

    def build(self, read: Callable[[SparkSession, KafkaSource], DataFrame]) -> DataFrame:
        """Return the columns that the window reads, ORIGIN and MISSED; `read` gives a source's records of some batches."""
        forget_views(self._spark)
        for source in self._sources:
            self._define(source, read(self._spark, source))
        define_views(self._spark, self._spec)
        view = self._view
        rows = carry_origin(self._spark.table(view.window.from_), view.place)
        return view.add_missed(rows, f.col(ORIGIN)["watermark"])

    def _define(self, source: KafkaSource, records: DataFrame) -> None:
        origin = f.struct("topic", "partition", "offset", "watermark").alias(ORIGIN)
        rows = read_stream(records.select("*", origin), source, keep=(ORIGIN,))
        rows.drop(ORIGIN).createOrReplaceTempView(source.name)
