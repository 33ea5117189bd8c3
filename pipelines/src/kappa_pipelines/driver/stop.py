"""Stops a streaming query at the end of a committed batch.

`StreamingQuery.stop()` interrupts the batch in flight: it can leave `offsets/N` without `commits/N`, and that batch
runs again, its output written twice. Setting the query's state to TERMINATED alone does the same: since Spark 4.2 a
batch that has written its offsets looks at the state and interrupts itself.

But Spark writes both `offsets/N` and `commits/N` under one lock of the query, `awaitProgressLock`. So whoever holds
it, and sees as many commits as offsets, knows that no batch is in flight and that none can begin. Then the state is
set and the thread interrupted: it can only be waiting for the lock, for the next trigger or for Kafka's offsets, and
ends without a trace. After each commit Spark signals the lock's condition, so the wait costs nothing. See ADR 0002.

In real time a batch is always in flight, and writes both only when it ends, so the logs do not show it. There the wait is
for one more commit; the lock is taken in the order of asking, so the next batch has not begun.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

_WAIT_MILLISECONDS = 100
_POLL_SECONDS = 0.02
_REAL_TIME = "RealTimeTrigger"
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"


def stop_gracefully(
    queries: Sequence[StreamingQuery], timeout: float, clock: Callable[[], float] = time.monotonic
) -> bool:
    """Stop the queries at a committed batch, side by side; after `timeout` seconds interrupt those that are left.

    Returns whether every query's checkpoint ends at a committed batch.
    """
    if not queries:
        return True
    deadline = clock() + timeout
    with ThreadPoolExecutor(len(queries), "stop") as threads:
        ended = list(threads.map(lambda query: _end_between_batches(query, deadline, clock), queries))
        list(threads.map(lambda query: query.stop(), queries))
    return all(ended) and all(is_between_batches(query) for query in queries)


def _end_between_batches(query: StreamingQuery, deadline: float, clock: Callable[[], float]) -> bool:
    """Wait until no batch is in flight and end the query's thread there; False where the deadline came first."""
    execution = _execution(query)
    thread, lock = execution.queryExecutionThread(), execution.awaitProgressLock()
    milliseconds = execution.getClass().getClassLoader().loadClass("java.util.concurrent.TimeUnit")
    milliseconds = milliseconds.getField("MILLISECONDS").get(None)
    if not lock.tryLock(int(max(0.0, deadline - clock()) * 1000), milliseconds):
        return False
    try:
        has_ended = _watch_batches(query)
        while thread.isAlive() and not has_ended():
            if clock() > deadline:
                return False
            # The name of the method is a keyword of Python.
            getattr(execution.awaitProgressLockCondition(), "await")(_WAIT_MILLISECONDS, milliseconds)
        execution.state().set(_terminated(execution))
        thread.interrupt()
    finally:
        lock.unlock()
    while thread.isAlive() and clock() < deadline:
        time.sleep(_POLL_SECONDS)
    return True


def _watch_batches(query: StreamingQuery) -> Callable[[], bool]:
    """Return what says, under the query's lock, that no batch is in flight."""
    execution = _execution(query)
    if execution.trigger().getClass().getSimpleName() != _REAL_TIME:
        return lambda: is_between_batches(query)
    before = execution.commitLog().getLatestBatchId()
    return lambda: not execution.commitLog().getLatestBatchId().equals(before)


def is_between_batches(query: StreamingQuery) -> bool:
    """Return whether every batch that the query's checkpoint has begun is committed."""
    execution = _execution(query)
    begun, committed = execution.offsetLog().getLatestBatchId(), execution.commitLog().getLatestBatchId()
    return bool(begun.equals(committed))


def _terminated(execution: Any) -> Any:
    state = execution.getClass().getClassLoader().loadClass(f"{_RUNTIME}.TERMINATED$")
    return state.getField("MODULE$").get(None)


def _execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()
