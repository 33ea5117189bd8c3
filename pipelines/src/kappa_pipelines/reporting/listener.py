"""Receives Spark's query events. Callbacks never raise, because the JVM would only log the error."""

import json
from collections.abc import Callable
from typing import Any

import structlog
from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from kappa_crds.progress import QueryProgress
from kappa_pipelines.checkpoint.format.offsets import Malformed
from kappa_pipelines.reporting.progress import count_malformed
from kappa_pipelines.reporting.record import DriverRecord

log = structlog.get_logger()


class ProgressListener(StreamingQueryListener):
    """Adds events to the record, and calls `on_batch` for each committed batch, and `on_start` with name and id of a query that starts.

    `on_start` runs in the query's thread, before its sources exist. `on_batch` gets the progress and the malformed records by source, as `count_malformed` returns them.
    """

    def __init__(
        self,
        record: DriverRecord,
        on_batch: Callable[[QueryProgress, dict[str, Malformed | None]], None],
        on_start: Callable[[str, str], None],
    ) -> None:
        self._record = record
        self._on_batch = on_batch
        self._on_start = on_start
        self._names: dict[str, str] = {}
        self._started: set[str] = set()
        self.errors = 0

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Store the query's name: idle events have only its run id."""
        name = self._names[str(event.runId)] = event.name or ""
        try:
            self._on_start(name, str(event.id))
        except Exception:
            self.errors += 1
            log.exception("a query that starts could not be prepared", sink=name)

    @property
    def _jlistener(self) -> Any:
        wrapper = SparkContext._jvm.PythonStreamingQueryListenerWrapper  # type: ignore[union-attr]
        self._jlistenerobj = getattr(self, "_jlistenerobj", None) or wrapper(JsonListener(self))
        return self._jlistenerobj

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Do nothing: `on_progress` gets the event as JSON."""

    def on_progress(self, text: str) -> None:
        """Add the progress of a committed batch."""
        try:
            progress = json.loads(text)
            sink = progress.get("name") or ""
            self._note_first(sink, progress)
            folded = self._record.add_event(progress, sink)
            self._on_batch(folded, count_malformed(progress, folded.sources))
        except Exception:
            self.errors += 1
            log.exception("a progress event could not be read")

    def _note_first(self, sink: str, progress: dict[str, Any]) -> None:
        """Log the duration of a query's first batch in milliseconds by phase, which bounds the time of a restart."""
        if sink not in self._started:
            self._started.add(sink)
            log.info(
                "first batch", sink=sink, batch=progress["batchId"], milliseconds=progress.get("durationMs")
            )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Record that the query is up to date."""
        self._record.add_ready(self._names.get(str(event.runId), ""))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: the supervision finds the cause."""


class JsonListener(JStreamingQueryListener):
    """The proxy through which the JVM calls a listener.

    It takes the progress as one JSON text. PySpark's own listener copies it with hundreds of calls into the JVM per batch.
    """

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: D102 - see JStreamingQueryListener
        self.pylistener.on_progress(jevent.progress().json())  # type: ignore[attr-defined]
