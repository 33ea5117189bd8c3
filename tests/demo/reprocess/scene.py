"""The steps of the demo on a cluster that has the platform."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from demo import platform
from demo.compare import read_topic
from demo.errors import DemoError
from demo.flights import read_flights
from demo.loader import load
from demo.records import SEED, Log, Record, build_good, check_order, delay_some
from demo.reprocess.expected import (
    Expected,
    compute_expected,
    count_differences,
    count_missing,
    read_flight,
    read_hour,
    read_scheduled,
)
from demo.reprocess.load import LiveLoad
from demo.reprocess.manifests import PIPELINE, RIGHT, SOURCE, STREAM, TABLE, WRONG, Example
from demo.reprocess.readers import Departures, Hours, PollingReader
from demo.topics import remove_topics
from kappa_crds.kinds import find_kind
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.quantities import parse_duration
from kappa_crds.reprocessing import ENDS, ReprocessingPhase, ReprocessingStatus
from lab.kappa import kappa
from lab.kube import kubectl
from lab.resolve import build_resolver

LIVE, LAST = 6000, 400
"""Records that are written while the demo runs, and those of them after the rollback."""
_RATE = 20.0
_QUIET = 8.0
"""Seconds without a record after which a reader has all: longer than it waits for the alias and for the ends of its topic."""
_READY_SECONDS, _STEP_SECONDS, _PAUSE = 180, 240.0, 1.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Data:
    """The log, and what both versions must make of it: the wrong one of all records, the right one of all but the last."""

    log: Log
    wrong: Expected
    right: Expected

    @property
    def first(self) -> Log:
        """Return the records that are loaded at the start."""
        return replace(self.log, records=self.log.records[:-LIVE])

    @property
    def live(self) -> tuple[Record, ...]:
        """Return the records that follow meanwhile."""
        return self.log.records[-LIVE:]


def prepare(example: Example, months: int) -> Data:
    """Return the flights of some months as a log."""
    frame = read_flights(months)
    topic = next(each for each in example.build_surroundings() if each["metadata"]["name"] == SOURCE)
    arrivals, late = delay_some(build_good(frame), random.Random(SEED))
    log = Log(tuple(arrivals), topic["spec"]["partitions"], late)
    (source,) = example.build_pipeline(RIGHT)["spec"]["sources"]
    check_order(log, parse_duration(source["eventTime"]["watermark"]))
    last = {read_scheduled(json.loads(record.value or b"")) for record in log.records[-LAST:]}
    return Data(
        log,
        compute_expected(frame, set(), right=False),
        compute_expected(frame, last, right=True),
    )


def clean(example: Example, bootstrap: str) -> list[str]:
    """Remove everything of a former run; return the topics that the platform had left."""
    if kubectl("get", "namespace", example.namespace, "--ignore-not-found", "-o", "name").strip():
        scope = ("-n", example.namespace)
        platform.delete(*scope, f"pipelines.kappa-platform.io/{PIPELINE}")
        platform.delete(*scope, "topics.kappa-platform.io", "--all")
        for kind in ("statestores", "kafkaclusters"):
            platform.delete(*scope, f"{kind}.kappa-platform.io", "--all")
        platform.delete("namespace", example.namespace)
    return remove_topics(example.topics, bootstrap)


def set_up(example: Example) -> None:
    """Apply everything but the pipeline, and wait until it is Ready."""
    platform.create_namespace(example.namespace)
    platform.enable_namespace(example.namespace)
    documents = example.build_surroundings()
    platform.apply_documents(example.namespace, documents)
    platform.wait_documents(example.namespace, documents, _READY_SECONDS)


def load_first(example: Example, data: Data, bootstrap: str, say: Say) -> LiveLoad:
    """Load the older records, and return what will write the others."""
    topic = example.name_topic(SOURCE)
    first = data.first
    load(
        first,
        topic,
        bootstrap,
        lambda done, rate: say(f"loaded {done:,} of {len(first):,} records · {rate:,.0f}/s"),
    )
    return LiveLoad(data.live, len(first), topic, data.log.partitions, bootstrap, _RATE)


def apply_version(example: Example, zone: str) -> None:
    """Apply the pipeline with a time zone, as a user does."""
    platform.apply_documents(example.namespace, [example.build_pipeline(zone)])


def run_wrong_version(example: Example, say: Say) -> None:
    """Run the pipeline with the bug until it has read the log."""
    apply_version(example, WRONG)

    def has_read() -> bool:
        status = read_pipeline(example)
        lag = "?" if status.lag_records is None else f"{status.lag_records:,}"
        say(f"{status.state or 'new'}: records in {status.records or 0:,} · lag {lag}")
        return bool(status.records) and (status.lag_records or 0) < LIVE

    await_true(has_read, "the pipeline reads its log")


def open_readers(example: Example, bootstrap: str) -> "Readers":
    """Start the readers of both outputs."""

    def open_one(topic: str, take: Any, **options: Any) -> PollingReader:
        return PollingReader(bootstrap, build_resolver(example.namespace, PIPELINE, topic), take, **options)

    departures, hours = Departures(), Hours()
    return Readers(
        departures, hours, open_one(STREAM, departures.take), open_one(TABLE, hours.take, rebuild=True)
    )


@dataclass(frozen=True)
class Readers:
    """Both readers, and what they have."""

    departures: Departures
    hours: Hours
    of_stream: PollingReader
    of_table: PollingReader

    @property
    def errors(self) -> list[str]:
        """Return the errors of both."""
        return [*self.of_stream.errors, *self.of_table.errors]

    def end(self) -> None:
        """Stop both."""
        self.of_stream.end()
        self.of_table.end()


def await_phase(example: Example, phase: ReprocessingPhase, readers: Readers, say: Say) -> ReprocessingStatus:
    """Wait until the reprocessing is in a phase; DemoError where it ends in another one."""
    found: list[ReprocessingStatus] = []

    def is_there() -> bool:
        status = read_reprocessing(example)
        if status is None:
            say("the Pipeline records the change")
            return False
        found[:] = [status]
        say(describe(status, readers))
        if status.phase in ENDS and status.phase is not phase:
            raise DemoError(f"the reprocessing ended as {status.phase}: {status.why}")
        return status.phase is phase

    await_true(is_there, f"the reprocessing is {phase}")
    return found[0]


def describe(status: ReprocessingStatus, readers: Readers) -> str:
    """Return the phase with its figures, and how far the readers are."""
    parts = [status.phase.value]
    if status.catch_up is not None and status.phase is ReprocessingPhase.CATCHING_UP:
        parts.append(
            f"lag {status.catch_up.lag:,}" + (f", ETA {status.catch_up.eta}" if status.catch_up.eta else "")
        )
    return f"{' '.join(parts)} · readers have {readers.of_stream.count:,} and {readers.of_table.count:,} records, errors {len(readers.errors)}"


def request(example: Example, action: str) -> None:
    """Run `kappa reprocess ACTION`, as a user does."""
    kappa("reprocess", action, PIPELINE, "-n", example.namespace)


def await_read(example: Example, readers: Readers, records: int, say: Say) -> None:
    """Wait until the reader of the stream has as many records, and no more come for either reader."""

    def has_read() -> bool:
        say(f"readers have {readers.of_stream.count:,} of {records:,} records")
        quiet = min(readers.of_stream.quiet, readers.of_table.quiet)
        return (
            readers.of_stream.count >= records and quiet > _QUIET and read_pipeline(example).lag_records == 0
        )

    await_true(has_read, f"the readers have {records:,} records")


def check_output(example: Example, expected: Expected, version: str, bootstrap: str) -> dict[str, int]:
    """Return by what the outputs of a version, such as `.r1`, differ from the batch over the log: rows of the table, and of the stream."""
    stream, table = (f"{example.name_topic(topic)}{version}" for topic in (STREAM, TABLE))
    hours = dict(read_hour(json.loads(each.value() or b"")) for each in read_topic(table, bootstrap))
    flights = [read_flight(json.loads(each.value() or b"")) for each in read_topic(stream, bootstrap)]
    missing, repeated = count_missing(expected.local, Counter(flight for flight, _ in flights))
    wrong = sum(expected.local.get(flight) != local for flight, local in flights)
    return {
        "hours that differ": count_differences(expected.hours, hours),
        "flights missing": missing,
        "flights repeated": repeated,
        "flights with another time": wrong,
    }


def check_readers(example: Example, readers: Readers, data: Data) -> dict[str, int]:
    """Return what the readers saw that they should not have seen."""
    old, seen = example.name_topic(STREAM), readers.departures.seen
    missing, repeated = count_missing(data.wrong.local, Counter(flight for _, flight, _ in seen))
    mixed = sum(
        local != (data.wrong if topic == old else data.right).local.get(flight)
        for topic, flight, local in seen
    )
    moves = int(readers.departures.list_topics() != [old, f"{old}.r1", old])
    return {
        "errors": len(readers.errors),
        "lost": missing,
        "repeated": repeated,
        "of another version": mixed,
        "unexpected moves": moves,
        "hours of the served table that differ": count_differences(data.wrong.hours, readers.hours.served),
    }


def read_pipeline(example: Example) -> PipelineStatus:
    """Return the status of the pipeline."""
    body = json.loads(
        kubectl("get", f"pipelines.kappa-platform.io/{PIPELINE}", "-n", example.namespace, "-o", "json")
    )
    status = find_kind("Pipeline").parse(body).status
    assert isinstance(status, PipelineStatus)
    return status


def read_reprocessing(example: Example) -> ReprocessingStatus | None:
    """Return the status of the reprocessing, None before it is created."""
    items = json.loads(
        kubectl("get", "reprocessings.kappa-platform.io", "-n", example.namespace, "-o", "json")
    )["items"]
    if not items:
        return None
    status = find_kind("Reprocessing").parse(items[-1]).status
    assert isinstance(status, ReprocessingStatus)
    return status


def await_true(check: Callable[[], bool], what: str) -> None:
    """Wait until a check holds; DemoError if it takes too long."""
    deadline = time.monotonic() + _STEP_SECONDS
    while not check():
        if time.monotonic() > deadline:
            raise DemoError(f"it is not so that {what}, after {_STEP_SECONDS:.0f} s")
        time.sleep(_PAUSE)
