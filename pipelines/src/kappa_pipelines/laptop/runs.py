"""Runs a pipeline over records on this machine, batch by batch."""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.revision import Revision
from kappa_pipelines.errors import DriverError
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.exceptions import read_failure
from kappa_pipelines.laptop.endpoints import FileEndpoints, Output, input_folder
from kappa_pipelines.laptop.late_records import LateRecord, LateRecordCollector
from kappa_pipelines.laptop.records import Record, RecordFolder
from kappa_pipelines.plan.compile import Compiled, CompiledSink, compile_revision
from kappa_pipelines.registry.resolve import fetch_subjects
from kappa_pipelines.side_outputs.dead_letters.letters import build_letters
from kappa_pipelines.sinks.record_headers import HEADER_PREFIX
from kappa_pipelines.sources.batches import Batch

_END_OF_TIME = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000)
"""In milliseconds; a later watermark of records stays."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, with its error."""

    source: str
    offset: int
    error: str


class LocalRun:
    """Feeds records, runs the pipeline over them, and stores the output of its sinks.

    `feed` adds a batch, `process` runs all new batches. The output of a repeated batch replaces its earlier output, so `outputs` has
    each row once even after a crash; a topic may have it twice.
    """

    def __init__(
        self,
        spark: SparkSession,
        revision: Revision,
        folder: Path,
        show_rows: Callable[[str, list[Output]], None] = lambda sink, outputs: None,
        show_progress: Callable[[StreamingQuery], None] = lambda query: None,
    ) -> None:
        self._spark = spark
        self._show_rows = show_rows
        self._show_progress = show_progress
        self._revision = revision
        self._subjects = fetch_subjects(revision)
        self._ends = FileEndpoints(spark, folder, self._take)
        self._inputs = {
            source.name: RecordFolder(
                input_folder(folder, source.name), (*source.topic_names, source.name)[0]
            )
            for source in revision.spec.sources
        }
        self._outputs: dict[str, dict[int, list[Output]]] = {sink.name: {} for sink in revision.spec.sinks}
        self._tape = LateRecordCollector(spark, revision, folder, self._ends)
        self._crash = self._crashed = self._is_ended = False
        self.late = 0
        """Rows that were dropped as late, over all sinks."""
        self.compiled: Compiled = self._compile()
        self._is_used = False

    @property
    def spec(self) -> PipelineSpec:
        """Return the pipeline's spec."""
        return self._revision.spec

    def feed(self, records: Mapping[str, Iterable[Record]]) -> None:
        """Add a batch: records by the name of their source."""
        for name, folder in self._inputs.items():
            folder.append(records.get(name, ()))

    def end(self) -> None:
        """Add a last batch without records, after which every window closes."""
        self.feed({})
        self._is_ended = True

    def process(self) -> None:
        """Process all new batches; DriverError if a query fails."""
        self._renew()
        for sink in self.compiled.sinks:
            self.late += count_late(run_query(sink, self._show_progress))

    def crash(self) -> bool:
        """Start to process, and fail before the first batch is committed, like a driver that is killed.

        Return whether every sink's query failed so; one without new batches ends normally.
        """
        self._renew()
        crashed = []
        for sink in self.compiled.sinks:
            self._crash, self._crashed = True, False
            try:
                with _silence():
                    run_query(sink, self._show_progress)
            except DriverError:
                if not self._crashed:
                    raise
            finally:
                self._crash = False
            crashed.append(self._crashed)
        return all(crashed)

    def _is_last(self, batch: Batch) -> bool:
        """Return whether a batch read the last file of a source."""
        last = {name: folder.last for name, folder in self._inputs.items()}
        return any(end.get("logOffset") == last.get(name) for name, end in batch.ends.items())

    def outputs(self, sink: str) -> list[Output]:
        """Return the output of a sink, in the order of its batches."""
        found = self._outputs[sink]
        return [output for batch in sorted(found) for output in found[batch]]

    def letters(self) -> list[Letter]:
        """Return the dead letters so far, by source and offset."""
        found: list[Letter] = []
        for name, source in self.compiled.sources.items():
            letters = build_letters(self._ends.read_all(self._spark, source), source, self._revision.pipeline)
            headers = f.map_from_entries("headers")
            offset, error = (headers[HEADER_PREFIX + each].cast("string") for each in ("offset", "error"))
            texts = letters.select(offset.alias("offset"), error.alias("error"))
            found += [Letter(name, int(row.offset), row.error) for row in texts.collect()]
        return sorted(found, key=lambda letter: (letter.source, letter.offset))

    def late_records(self) -> list[LateRecord]:
        """Return the late records so far that would be written to the topics of their views."""
        return self._tape.find(self.compiled)

    def _renew(self) -> None:
        """Compile again like a new driver; the first start uses the existing result."""
        if self._is_used:
            self.compiled = self._compile()
        self._is_used = True

    def _compile(self) -> Compiled:
        return compile_revision(self._spark, self._revision, self._ends, self._subjects)

    def _take(self, sink: str, batch: int, outputs: list[Output]) -> None:
        noted = self._tape.note(sink, batch)
        if self._is_ended and noted is not None and self._is_last(noted):
            _end_time(self._spark, sink)
        if self._crash:
            self._crashed = True
            raise RuntimeError("requested crash")
        self._outputs[sink][batch] = outputs
        self._show_rows(sink, outputs)


def _end_time(spark: SparkSession, sink: str) -> None:
    """Move the watermark of a running query to the end of time, for any plan; Spark 4.2 never moves it back.

    A batch without records follows, as after each move of the watermark, and closes all windows.
    """
    for query in spark._jsparkSession.streams().active():
        if query.name() == sink:
            query.streamingQuery().watermarkTracker().setWatermark(_END_OF_TIME)


def run_query(sink: CompiledSink, show: Callable[[StreamingQuery], None]) -> StreamingQuery:
    """Run a sink's query over the available records, and show progress each second; DriverError if it fails."""
    query = sink.writer.trigger(availableNow=True).start()
    while not await_query(query):
        show(query)
    show(query)
    return query


def await_query(query: StreamingQuery) -> bool:
    """Wait a second; return whether the query has ended normally. DriverError if it failed."""
    try:
        return bool(query.awaitTermination(1))
    except StreamingQueryException as error:
        raise classify(read_failure(error), f"sink {query.name!r}") from error


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep py4j from logging an expected error."""
    logger = logging.getLogger("py4j.clientserver")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def count_late(query: StreamingQuery) -> int:
    """Return the rows that a query dropped as late."""
    operators: list[Any] = [state for progress in query.recentProgress for state in progress.stateOperators]
    return sum(state.numRowsDroppedByWatermark for state in operators)
