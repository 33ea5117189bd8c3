"""Stops a streaming query at the end of a committed batch.

`StreamingQuery.stop()` interrupts the batch in flight: it can leave `offsets/N` without `commits/N`, and that batch
runs again, its output written twice. Here the query's state is set to TERMINATED instead, which its own trigger loop
reads between batches: the batch in flight commits, no new one starts, and the loop ends by itself. Only a thread
that is seen waiting for the next trigger is woken with `stop()`; then there is no batch to interrupt. See ADR 0002.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

_POLL_SECONDS = 0.02
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
_WAITING = "waitTillTime"


def request_stop(query: StreamingQuery) -> None:
    """Let the query end after the batch in flight; returns at once. Harmless if it has ended already."""
    execution = _execution(query)
    loader = execution.getClass().getClassLoader()
    terminated = loader.loadClass(f"{_RUNTIME}.TERMINATED$").getField("MODULE$").get(None)
    execution.state().set(terminated)


def stop_gracefully(
    queries: Sequence[StreamingQuery],
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Stop the queries at a committed batch; after `timeout` seconds interrupt them. True if none was interrupted."""
    for query in queries:
        request_stop(query)
    deadline = clock() + timeout
    running = list(queries)
    while running and clock() < deadline:
        running = [query for query in running if not _ended(query)]
        if running:
            pause(_POLL_SECONDS)
    for query in queries:
        query.stop()
    return not running


def _ended(query: StreamingQuery) -> bool:
    """Return whether the query has ended, or waits for its next trigger and so can be stopped without harm."""
    thread = _execution(query).queryExecutionThread()
    if not thread.isAlive():
        return True
    return any(frame.getMethodName() == _WAITING for frame in thread.getStackTrace())


def _execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()
