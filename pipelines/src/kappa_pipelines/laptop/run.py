"""`kappa run --local`: runs a pipeline on this machine and prints what its sinks would write.

Over a folder of files the input ends, and so every window closes. Over the topics of a Kafka (`--data
kafka://HOST:PORT`) it reads what is there, or with `--follow` goes on until Ctrl-C or SIGTERM. Topics are never written.
"""

import itertools
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from kappa_crds.manifests import ManifestError
from kappa_crds.revision import KafkaConnection, Revision
from kappa_pipelines.driver.stop import stop_gracefully
from kappa_pipelines.errors import DriverError
from kappa_pipelines.kafka.preflight import check_kafka
from kappa_pipelines.laptop.console import (
    FAILED,
    catch_stop,
    complain,
    guard,
    name_resource,
    say,
)
from kappa_pipelines.laptop.data import read_batches
from kappa_pipelines.laptop.endpoints import Output, TopicEndpoints
from kappa_pipelines.laptop.late_records import Straggler, StragglerTape
from kappa_pipelines.laptop.manifests import read_pipelines
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun, await_query, run_query
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import CompiledSink, compile_revision

_KAFKA = "kafka://"
_KAFKA_SECONDS = 10.0
_STOP_SECONDS = 30.0


class Screen:
    """Prints rows on stdout and progress on stderr."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}
        self._started = time.monotonic()
        self._batches: dict[str, int] = {}

    def show_rows(self, sink: str, outputs: list[Output]) -> None:
        """Print a batch's records of a sink as JSON, until the limit."""
        for output in outputs:
            count = self._counts[sink] = self._counts.get(sink, 0) + 1
            if count <= self._limit:
                value = None if output.value is None else json.loads(output.value)
                print(json.dumps({"sink": sink, "key": output.key, "value": value}))
            elif count == self._limit + 1:
                say(f"… {self._limit} rows of sink {sink} shown; --rows shows more")
        sys.stdout.flush()

    def show_stragglers(self, stragglers: Sequence[Straggler]) -> None:
        """Print rows that came too late and would be written to topics, each with what is known of it, until the limit."""
        for view, rows in itertools.groupby(stragglers, key=lambda straggler: straggler.view):
            found = list(rows)
            for straggler in found[: self._limit]:
                print(json.dumps({"stragglers": view, "value": straggler.row, **straggler.told}))
            say(f"stragglers of view {view}: {len(found)} rows, {min(len(found), self._limit)} shown")

    def show_progress(self, query: StreamingQuery) -> None:
        """Print a line for a batch that has not been told yet. While it is idle, Spark tells of the batch to come; we do not."""
        progress = query.lastProgress
        if progress is None or "addBatch" not in progress.durationMs:
            return
        if self._batches.get(query.name) == progress.batchId:
            return
        self._batches[query.name] = progress.batchId
        watermark = progress.eventTime.get("watermark", "none") if progress.eventTime else "none"
        say(
            f"[{time.monotonic() - self._started:6.1f} s] sink {query.name}: batch {progress.batchId},"
            f" {progress.numInputRows} records, {progress.processedRowsPerSecond:.0f} a second, watermark {watermark}"
        )

    def summarize(self, run: LocalRun | None) -> None:
        """Print what came of it all."""
        for sink, count in self._counts.items():
            say(f"sink {sink}: {count} rows")
        if run is not None:
            self.show_stragglers(run.stragglers())
            letters = run.letters()
            say(f"{run.late} rows were late, {len(letters)} records could not be read")
            for letter in letters[:10]:
                say(f"  {letter.source}, offset {letter.offset}: {letter.error}")


@dataclass(frozen=True)
class RunOptions:
    """Where the records come from, records of a source in a batch, rows to print, and whether to read new records."""

    data: str
    batch_size: int = 10_000
    rows: int = 20
    follow: bool = False


def main(files: list[str], **options: Any) -> int:
    """Run one pipeline; return 0 if it ended well, 1 if it failed, 2 where it cannot be run."""
    given = RunOptions(**options)
    if given.follow and not given.data.startswith(_KAFKA):
        return complain("--follow needs --data kafka://HOST:PORT; a folder has an end")
    return guard(lambda: _run(files, given))


def _run(files: list[str], given: RunOptions) -> int:
    pipelines = list(read_pipelines(files))
    if len(pipelines) != 1:
        return complain(f"found {len(pipelines)} Pipelines in {', '.join(files)}; name one")
    folder = Path(tempfile.mkdtemp(prefix="kappa-run-"))
    try:
        revision = build_local_revision(pipelines[0])
        if given.data.startswith(_KAFKA):
            _run_over_topics(revision, given, folder)
        else:
            _run_over_files(revision, given, folder)
    except DriverError as error:
        print(f"{name_resource(pipelines[0])}: {error.reason}: {error.message}", flush=True)
        return FAILED
    except KeyboardInterrupt:
        say("stopped")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _run_over_files(revision: Revision, given: RunOptions, folder: Path) -> None:
    data = Path(given.data)
    if not data.is_dir():
        raise ManifestError(f"{data} is no folder")
    screen = Screen(given.rows)
    batches = read_batches(data, revision.spec, given.batch_size)
    first = next(batches, {})  # a file that is missing is told before Spark starts
    run = LocalRun(start_spark(revision), revision, folder, screen.show_rows, screen.show_progress)
    run.feed(first)
    for batch in batches:
        run.feed(batch)
    run.end()
    run.process()
    screen.summarize(run)


def _run_over_topics(revision: Revision, given: RunOptions, folder: Path) -> None:
    servers = tuple(given.data.removeprefix(_KAFKA).rstrip("/").split(","))
    revision = revision.replace(kafka=KafkaConnection(bootstrap_servers=servers))
    check_kafka(revision, _KAFKA_SECONDS, only_sources=True)
    screen = Screen(given.rows)
    spark = start_spark(revision)

    def take(sink: str, batch: int, outputs: list[Output]) -> None:
        tape.note(sink, batch)
        screen.show_rows(sink, outputs)

    ends = TopicEndpoints(spark, revision, folder, take)
    tape = StragglerTape(spark, revision, folder, ends)
    compiled = compile_revision(spark, revision, ends)
    sinks = compiled.sinks
    if given.follow:
        _follow(sinks, screen)
    else:
        for sink in sinks:
            run_query(sink, screen.show_progress)
        screen.show_stragglers(tape.find(compiled))
    screen.summarize(None)


def _follow(sinks: Sequence[CompiledSink], screen: Screen) -> None:
    """Run all queries until a stop is asked for, and end them between two batches; DriverError if one fails."""
    queries: list[StreamingQuery] = []
    with catch_stop() as is_stopping:
        try:
            queries += [sink.writer.start() for sink in sinks]
            while not is_stopping():
                for query in queries:
                    await_query(query)
                    screen.show_progress(query)
            say("stopping …")
        finally:
            stop_gracefully([query for query in queries if query.isActive], _STOP_SECONDS)
