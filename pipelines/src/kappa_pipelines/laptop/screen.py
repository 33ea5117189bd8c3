"""What `kappa run` prints: rows on standard output, progress and a summary on standard error."""

import itertools
import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from kappa_pipelines.laptop.console import say
from kappa_pipelines.laptop.endpoints import Output
from kappa_pipelines.laptop.late_records import LateRecord
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.sources.kafka import ROWS

_NO_WATERMARK, _END_OF_INPUT = "1970-01-01", "9999-01-01"


class Screen:
    """Prints rows, progress and the summary of a run. At most `limit` rows of each sink are printed."""

    def __init__(self, limit: int, sinks: Iterable[str]) -> None:
        self._limit = limit
        self._counts = dict.fromkeys(sinks, 0)
        self._started = time.monotonic()
        self._shown: dict[str, int] = {}

    def show_rows(self, sink: str, outputs: list[Output]) -> None:
        """Print a batch's records of a sink as JSON, up to the limit."""
        for output in outputs:
            self._counts[sink] += 1
            if self._counts[sink] <= self._limit:
                print(json.dumps({"sink": sink, "key": output.key, "value": _read_value(output.value)}))
            elif self._counts[sink] == self._limit + 1:
                say(f"… {self._limit} rows of sink {sink} shown; --rows shows more")
        sys.stdout.flush()

    def show_late_records(self, late_records: Sequence[LateRecord]) -> None:
        """Print the late records that the driver would write to topics, with the headers of each, up to the limit."""
        for view, rows in itertools.groupby(late_records, key=lambda record: record.view):
            found = list(rows)
            for record in found[: self._limit]:
                print(json.dumps({"lateRecords": view, "value": record.row, **record.headers}))
            say(f"late records of view {view}: {len(found)} rows, {min(len(found), self._limit)} shown")

    def show_progress(self, query: StreamingQuery) -> None:
        """Print a line for each batch since the last call."""
        run = str(query.runId)
        progress = query._jsq.recentProgress()
        for index in range(self._shown.get(run, 0), len(progress)):
            line = describe_batch(json.loads(progress[index].json()))
            if line is not None:
                say(f"[{time.monotonic() - self._started:6.1f} s] sink {query.name}: {line}")
        self._shown[run] = len(progress)

    def summarize(self, run: LocalRun | None) -> None:
        """Print the number of rows of each sink and, for a run over files, late records and dead letters."""
        for sink, count in self._counts.items():
            say(f"sink {sink}: {count} rows")
        if run is not None:
            self.show_late_records(run.late_records())
            letters = run.letters()
            say(f"{run.late} rows were late, {len(letters)} records could not be read")
            for letter in letters[:10]:
                say(f"  {letter.source}, offset {letter.offset}: {letter.error}")


def describe_batch(event: dict[str, Any]) -> str | None:
    """Return a batch's number, records, rate and watermark from Spark's progress event; None for a trigger without a batch.

    The plan counts each source's records once. Spark's own count has commit markers, and a source twice that a query scans twice.
    """
    durations = event.get("durationMs", {})
    if "addBatch" not in durations:
        return None
    counts = [
        int(row[ROWS]) for row in event.get("observedMetrics", {}).values() if row.get(ROWS) is not None
    ]
    rate = sum(counts) * 1000 / max(1, durations.get("triggerExecution", 1))
    return (
        f"batch {event['batchId']}, {sum(counts)} records, {rate:.0f} per second,"
        f" watermark {_describe_watermark(event.get('eventTime', {}).get('watermark', _NO_WATERMARK))}"
    )


def _describe_watermark(watermark: str) -> str:
    if watermark.startswith(_NO_WATERMARK):
        return "none"
    return "at the end of the input" if watermark.startswith(_END_OF_INPUT) else watermark


def _read_value(text: str | None) -> object:
    """Return the value of a record; that of a raw sink need not be JSON."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
