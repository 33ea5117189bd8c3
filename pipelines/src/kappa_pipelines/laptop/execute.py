"""Runs a pipeline for `kappa run`, over files or over topics."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from kappa_crds.revision import KafkaConnection, Revision
from kappa_pipelines.driver.stop import stop_gracefully
from kappa_pipelines.kafka.preflight import check_kafka
from kappa_pipelines.laptop.console import catch_stop, say
from kappa_pipelines.laptop.data import Records
from kappa_pipelines.laptop.endpoints import Output, TopicEndpoints
from kappa_pipelines.laptop.late_records import LateRecordCollector
from kappa_pipelines.laptop.runs import LocalRun, await_query, run_query
from kappa_pipelines.laptop.screen import Screen
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import CompiledSink, compile_revision

_KAFKA_SECONDS = 10.0
_STOP_SECONDS = 30.0


def run_over_files(
    revision: Revision, batches: Iterator[Records], rows: int, folder: Path, *, quick: bool
) -> None:
    """Run a pipeline over batches of records until the end of the input. At most `rows` rows of each sink are printed."""
    screen = Screen(rows, [sink.name for sink in revision.spec.sinks])
    run = LocalRun(
        start_spark(revision, quick=quick), revision, folder, screen.show_rows, screen.show_progress
    )
    for batch in batches:
        run.feed(batch)
    run.end()
    run.process()
    screen.summarize(run)


def run_over_topics(
    revision: Revision, servers: tuple[str, ...], rows: int, folder: Path, *, follow: bool
) -> None:
    """Run a pipeline over the topics of a Kafka, up to their present end or, with `follow`, until a stop is requested."""
    revision = revision.replace(kafka=KafkaConnection(bootstrap_servers=servers))
    check_kafka(revision, _KAFKA_SECONDS, only_sources=True)
    screen = Screen(rows, [sink.name for sink in revision.spec.sinks])
    spark = start_spark(revision, quick=False)

    def take(sink: str, batch: int, outputs: list[Output]) -> None:
        tape.note(sink, batch)
        screen.show_rows(sink, outputs)

    ends = TopicEndpoints(spark, revision, folder, take)
    tape = LateRecordCollector(spark, revision, folder, ends)
    compiled = compile_revision(spark, revision, ends)
    if follow:
        _follow(compiled.sinks, screen)
    else:
        for sink in compiled.sinks:
            run_query(sink, screen.show_progress)
        screen.show_late_records(tape.find(compiled))
    screen.summarize(None)


def _follow(sinks: Sequence[CompiledSink], screen: Screen) -> None:
    """Run all queries until a stop is requested, and end them between two batches; DriverError if one fails."""
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
