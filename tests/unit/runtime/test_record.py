"""What the driver's record keeps of its queries, and how it hears of their batches."""

import json
from pathlib import Path
from typing import Any

from kappa_crds.progress import QueryProgress
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.reporting.listener import JsonListener, ProgressListener
from kappa_pipelines.reporting.record import DriverRecord
from unit.runtime.checkpoints import build_revision

FLIGHTS, TAPS = ("flights", Subscription(("in",))), ("taps", Subscription(("more",)))


def test_a_source_that_a_sink_does_not_read_any_more_holds_no_position(tmp_path: Path) -> None:
    record = DriverRecord(build_revision(tmp_path), 1)
    record.set_reads({"counts": (FLIGHTS,), "all": (FLIGHTS, TAPS)})
    record.set_committed("counts", {"flights": {("in", 0): 50}, "taps": {("more", 0): 3}})
    record.set_committed("all", {"flights": {("in", 0): 60}, "taps": {("more", 0): 70}})
    assert list(record.positions()) == [{("in", 0): 50}, {("in", 0): 60}, {("more", 0): 70}]


class JavaProgress:
    """Spark's progress in the JVM, of which nothing but the JSON is asked."""

    def __init__(self, event: dict[str, Any]) -> None:
        self._event = event

    def progress(self) -> "JavaProgress":
        return self

    def json(self) -> str:
        return json.dumps(self._event)


def test_a_batch_is_known_from_the_json_of_its_progress_alone(tmp_path: Path) -> None:
    record, batches = DriverRecord(build_revision(tmp_path), 1), list[QueryProgress]()
    record.set_reads({"out": ()})
    listener = ProgressListener(record, lambda folded, _: batches.append(folded), lambda *_: None)
    event = {"name": "out", "id": "q", "runId": "r", "batchId": 3, "timestamp": "2013-01-01T00:00:00.500Z"}
    JsonListener(listener).onQueryProgress(JavaProgress(event))
    assert [(batch.sink, batch.batch_id) for batch in batches] == [("out", 3)]
    assert (record.is_ready(), listener.errors) == (True, 0)
