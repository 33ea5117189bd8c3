"""The demo on a cluster that has the platform: clean start, load, watch, compare. The end-to-end test runs the same."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rich.console import Console

from demo import platform
from demo.compare import (
    Difference,
    Letter,
    Result,
    compare_letters,
    compare_rows,
    read_letters,
    read_result,
)
from demo.expected import Key, Row, compute_expected
from demo.flights import read_flights
from demo.loader import Loaded, load
from demo.manifests import PIPELINE, SURROUNDINGS, Example
from demo.records import Log, build_log, check_order
from demo.show import show_comparison
from demo.topics import is_group_at, remove_topics
from demo.watch import Target, watch
from kappa_crds.pipeline_status import PipelineStatus

_LETTER_SECONDS = 60.0


@dataclass(frozen=True)
class Data:
    """The records to load, and what the pipeline must make of them."""

    log: Log
    expected: Mapping[Key, Row]
    displacement_seconds: int


@dataclass(frozen=True)
class Outcome:
    """What came out, and every difference to what should have."""

    status: PipelineStatus
    result: Result
    letters: Mapping[str, Letter]
    differences: tuple[Difference, ...]


def prepare(example: Example, months: int | None = None) -> Data:
    """Return records and expected result; DemoError where a record might be dropped as late."""
    frame = read_flights(months)
    log = build_log(frame, example.partitions)
    displacement = check_order(log, example.watermark_seconds)
    return Data(log, compute_expected(frame), displacement)


def clean(example: Example, bootstrap: str) -> list[str]:
    """Remove everything of a former run; return the topics that the platform had left."""
    platform.remove_example(example)
    return remove_topics(example.topics, bootstrap)


def set_up(example: Example) -> None:
    """Apply everything but the pipeline, and wait until it is Ready."""
    platform.create_namespace(example.namespace)
    platform.enable_namespace(example.namespace)
    platform.apply(example, SURROUNDINGS)
    platform.wait_ready(example)


def process(
    example: Example, data: Data, loaded: Loaded, bootstrap: str, say: Callable[[str], None]
) -> PipelineStatus:
    """Apply the pipeline and follow it until every record is processed."""
    platform.apply(example, PIPELINE)
    return watch(
        lambda: platform.read_status(example),
        Target(len(data.log), data.log.malformed),
        lambda: is_group_at(example.group, example.source, loaded.ends, bootstrap),
        say,
    )


def load_data(
    example: Example,
    data: Data,
    bootstrap: str,
    report: Callable[[int, float], None] = lambda done, rate: None,
) -> Loaded:
    """Load the records into the source topic."""
    return load(data.log, example.source, bootstrap, report)


def compare(example: Example, data: Data, loaded: Loaded, status: PipelineStatus, bootstrap: str) -> Outcome:
    """Read both topics that the pipeline wrote and return every difference."""
    result = read_result(example.result, bootstrap)
    letters = await_letters(example, len(loaded.malformed), bootstrap)
    differences = [
        *compare_rows(data.expected, result.rows),
        *compare_letters(example.source, loaded.malformed, letters),
    ]
    if status.late:
        differences.append(Difference("pipeline status", "records dropped as late", 0, status.late))
    return Outcome(status, result, letters, tuple(differences))


def await_letters(example: Example, wanted: int, bootstrap: str) -> dict[str, Letter]:
    """Return the dead letters. They are written beside the query, so the last ones may follow its last batch."""
    deadline = time.monotonic() + _LETTER_SECONDS
    while True:
        letters = read_letters(example.dead_letters, bootstrap)
        if len(letters) >= wanted or time.monotonic() > deadline:
            return letters
        time.sleep(1.0)


def show(console: Console, data: Data, loaded: Loaded, outcome: Outcome) -> None:
    """Print the comparison."""
    show_comparison(
        console,
        log=data.log,
        loaded=loaded,
        expected=data.expected,
        result=outcome.result,
        letters=outcome.letters,
        differences=outcome.differences,
    )


def spoil_expected(data: Data) -> Data:
    """Return the data with one expected row made wrong, to see that the comparison notices."""
    key = min(data.expected)
    row = data.expected[key]
    return replace(data, expected={**data.expected, key: replace(row, departures=row.departures + 1)})
