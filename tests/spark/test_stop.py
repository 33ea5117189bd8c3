"""A query that has a bound ends at a committed batch at whatever moment it is stopped, on real Spark and Kafka."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kappa_pipelines.driver.bound import QueryBound, QueryBusyError
from kappa_pipelines.driver.stop import stop_gracefully
from lab.broker import Broker
from spark.conftest import wait_for
from spark.test_native_kafka import NATIVE_SOURCE, SETTINGS
from spark.topics import Topics


class Execution:
    """The execution of a query: before a stop compares its logs, its thread waits for the lock, and then a function is called."""

    def __init__(self, inner: Any, act: Callable[[], None]) -> None:
        self._inner, self._act = inner, act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def offsetLog(self) -> Any:
        lock, thread = self.awaitProgressLock(), self.queryExecutionThread()
        if thread.isAlive():
            deadline = time.monotonic() + 30
            while not lock.hasQueuedThread(thread):
                assert time.monotonic() < deadline, "the query does not plan a batch"
                time.sleep(0.01)
            self._act()
        return self._inner.offsetLog()


def start(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> StreamingQuery:
    """Start a query that reads a topic, as drivers do."""
    for setting, value in SETTINGS.items():
        spark.conf.set(setting, value)
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    rows = spark.readStream.format(NATIVE_SOURCE).name("events").options(**options).load()
    return rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()


def retry(call: Callable[[], Any]) -> Any:
    """Call until the query is not busy."""
    while True:
        with contextlib.suppress(QueryBusyError):
            return call()


def test_a_stop_after_a_bound_was_moved_leaves_no_planned_batch(
    spark: SparkSession, broker: Broker, topics: Topics, checkpoint: Path
) -> None:
    """A batch up to a bound is planned without a request to Kafka, which ends a thread that is interrupted."""
    topic = topics.make("events", partitions=1)
    topics.write(topic, ["before"] * 10)
    query = start(spark, broker, topic, checkpoint)
    wait_for("the first batch", lambda: query.lastProgress)
    bound = QueryBound(query, spark._jvm)
    retry(bound.bind)
    topics.write(topic, ["after"] * 10)
    execution = Execution(query._jsq.streamingQuery(), lambda: bound.move({"events": {(topic, 0): 20}}))
    watched: Any = SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=lambda: execution), stop=query.stop)
    assert stop_gracefully([watched], 60)
    assert query.exception() is None
