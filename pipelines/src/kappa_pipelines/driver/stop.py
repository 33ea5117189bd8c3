"""Stops a streaming query at the end of a committed batch.

`StreamingQuery.stop()` interrupts the running batch: it can leave `offsets/N` without `commits/N`. That batch runs again,
and its output is written twice. Setting the query's state to TERMINATED alone does the same: since Spark 4.2 a
batch that has written its offsets checks the state and interrupts itself.

Spark writes both `offsets/N` and `commits/N` under one lock of the query, `awaitProgressLock`. If a thread holds the lock
and finds as many commits as offsets, no batch is running and none can start. Then it sets the state and interrupts the query's
thread, which can only be waiting for the lock, the next trigger or Kafka's offsets, and ends cleanly. A bound, with which it would plan a
batch without Kafka, is removed before. Spark signals the condition
of the lock after each commit, so the wait costs nothing. See ADR 0002.

In real time a batch is always running and writes both files only at its end. There the thread waits for one more commit; the lock is
fair, so the next batch has not started.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from kappa_pipelines.driver.bound import drop_bounds

_WAIT_MILLISECONDS = 100
_POLL_SECONDS = 0.02
_REAL_TIME = "RealTimeTrigger"
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"


def stop_gracefully(
    queries: Sequence[StreamingQuery], timeout: float, clock: Callable[[], float] = time.monotonic
) -> bool:
    """Stop the queries in parallel at a committed batch; interrupt the rest after `timeout` seconds.

    Return whether the checkpoint of each query ends at a committed batch.
    """
    if not queries:
        return True
    deadline = clock() + timeout
    with ThreadPoolExecutor(len(queries), "stop") as threads:
        ended = list(threads.map(lambda query: _end_between_batches(query, deadline, clock), queries))
        list(threads.map(lambda query: query.stop(), queries))
    return all(ended) and all(is_between_batches(query) for query in queries)


def _end_between_batches(query: StreamingQuery, deadline: float, clock: Callable[[], float]) -> bool:
    """Wait until no batch is running and end the query's thread; False after the deadline."""
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
            # `await` is a keyword of Python.
            getattr(execution.awaitProgressLockCondition(), "await")(_WAIT_MILLISECONDS, milliseconds)
        execution.state().set(_terminated(execution))
        drop_bounds(execution)
        thread.interrupt()
    finally:
        lock.unlock()
    while thread.isAlive() and clock() < deadline:
        time.sleep(_POLL_SECONDS)
    return True


def _watch_batches(query: StreamingQuery) -> Callable[[], bool]:
    """Return a function that reports, under the query's lock, whether no batch is running."""
    execution = _execution(query)
    if execution.trigger().getClass().getSimpleName() != _REAL_TIME:
        return lambda: is_between_batches(query)
    before = execution.commitLog().getLatestBatchId()
    return lambda: not execution.commitLog().getLatestBatchId().equals(before)


def is_between_batches(query: StreamingQuery) -> bool:
    """Return whether each planned batch in the query's checkpoint is committed."""
    execution = _execution(query)
    planned, committed = execution.offsetLog().getLatestBatchId(), execution.commitLog().getLatestBatchId()
    return bool(planned.equals(committed))


def _terminated(execution: Any) -> Any:
    state = execution.getClass().getClassLoader().loadClass(f"{_RUNTIME}.TERMINATED$")
    return state.getField("MODULE$").get(None)


def _execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()
