"""Bounds how far a running query reads Kafka, without a stop.

Spark's Kafka source has a vector of offsets beyond which no batch reads, for queries that process what is there and end
(`Trigger.AvailableNow`): the field `allDataForTriggerAvailableNow`. Set on a running query, it ends each batch there at the latest. Spark
plans all batches up to it by its own rules, so limits on records, the watermark of each source, and batches without records are as ever.

Spark reads the field while it holds the query's `awaitProgressLock`, and again in a batch that has records to read. So a bound is
set at any time, to the end of the planned batch, and moved or removed only when no records are left before it. See ADR 0066.

The limit on records is in a map that Spark reads for each batch, and the interval in the executor of the trigger, which reads it after each batch.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from kappa_pipelines.checkpoint.format.offsets import (
    Offsets,
    SourceOffset,
    nest_offsets,
    parse_kafka_offsets,
)

_WAIT_MILLISECONDS = 50
_STREAM = "org.apache.spark.sql.kafka010.KafkaMicroBatchStream"
_ENDS = "allDataForTriggerAvailableNow"
_IS_BOUND = "isTriggerAvailableNow"
_INTERVAL = "intervalMs"

Vector = dict[str, SourceOffset]
"""Offsets of a query by the name of the source, as in its offset log."""


class QueryBusyError(Exception):
    """Spark plans or commits a batch of the query at this moment, or starts the query."""


class QueryBound:
    """The bound of one query. Each method but `begin` and `limit_first` raises QueryBusyError at a moment when Spark has the query's lock.

    Sources that are `kept` have a bound for all of the time.
    """

    def __init__(self, query: StreamingQuery, jvm: Any, kept: Collection[str] = ()) -> None:
        self._execution = query._jsq.streamingQuery()
        self._jvm = jvm
        self._kept = kept

    def begin(self, ends: Mapping[str, Offsets]) -> None:
        """Bound a query that Spark starts. Only in its own thread, in `onQueryStarted`: Spark has not created its sources yet."""
        self._execution.logicalPlan()
        streams = self._find_kafka()
        for name, offsets in ends.items():
            _set_ends(streams[name], offsets)

    def limit_first(self, records: int) -> None:
        """Have the first batch that its time bounds take at most so many records of each source. Only as `begin`."""
        self._jvm.kappa.kafka.Source.expect(self._execution.resolvedCheckpointRoot(), records)

    def bind(self) -> Vector:
        """Have the query read no further than its planned batch; return where that ends."""
        with self._locked():
            latest = self._execution.offsetLog().getLatest()
            # A query that continues a checkpoint has a planned batch before its sources are created and it has started.
            has_started = not self._execution.uniqueSources().isEmpty()
            if latest.isEmpty() or not has_started or self._execution.triggerExecutor() is None:
                raise QueryBusyError
            ends = (
                latest.get()._2().toStreamProgress(self._execution.sources(), self._execution.sourceIdMap())
            )
            planned = self._read(ends)
            for name, stream in self._find_kafka().items():
                _set_ends(stream, parse_kafka_offsets(planned[name]))
            return planned

    def move(self, ends: Mapping[str, Offsets]) -> None:
        """Have the query read up to these ends of its sources. It must have read up to its present bound."""
        with self._locked():
            streams = self._find_kafka()
            for name, offsets in ends.items():
                _set_ends(streams[name], offsets)
            # Spark sets it when it finds neither records nor another reason for a batch.
            getattr(self._execution, "noNewData_$eq")(False)

    def pace(self, records: int | None, interval: int) -> None:
        """Have each batch take at most so many records of each source, and start every so many milliseconds; 0 starts it at once.

        Without a number of records its time bounds it, as the Java module can.
        """
        limits_of = self._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
        with self._locked():
            limits, executor = self._execution.uniqueSources(), self._execution.triggerExecutor()
            if limits.isEmpty():
                raise QueryBusyError  # Spark has not created its sources yet
            for stream in self._find_kafka().values():
                limit = stream.timed() if records is None else limits_of.maxRows(records)
                limits = limits.updated(stream, limit)
            getattr(self._execution, "uniqueSources_$eq")(limits)
            _set_field(executor, executor.getClass(), _INTERVAL, interval)

    def release(self) -> None:
        """Have the query read whatever comes, but for sources that are kept. It must have read up to its bound."""
        with self._locked():
            for name, stream in self._find_kafka().items():
                if name not in self._kept:
                    _set_ends(stream, None)

    def read_committed(self) -> Vector:
        """Return the end of the last committed batch."""
        with self._locked():
            return self._read(self._execution.committedOffsets())

    def has_finished(self) -> bool:
        """Return whether, since the bound moved, Spark has found no reason for another batch."""
        with self._locked():
            return bool(self._execution.noNewData())

    def _read(self, progress: Any) -> Vector:
        found = {name: progress.get(stream) for name, stream in self._find_streams().items()}
        return {name: json.loads(at.get().json()) for name, at in found.items() if at.isDefined()}

    def _find_kafka(self) -> dict[str, Any]:
        streams = self._find_streams().items()
        return {name: each for name, each in streams if _find_class(each) is not None}

    def _find_streams(self) -> dict[str, Any]:
        names = self._execution.sourceToIdMap()
        return {names.apply(stream): stream for stream in _list_streams(self._execution)}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._execution.awaitProgressLock()
        units = self._execution.getClass().getClassLoader().loadClass("java.util.concurrent.TimeUnit")
        if not lock.tryLock(_WAIT_MILLISECONDS, units.getField("MILLISECONDS").get(None)):
            raise QueryBusyError
        try:
            # Spark sets it last of what it sets for a query that starts. One with batches from before is not known by its log.
            if self._execution.uniqueSources() is None:
                raise QueryBusyError
            yield
        finally:
            lock.unlock()


def drop_bounds(execution: Any) -> None:
    """Have a query that is to end request the offsets of Kafka before a batch, as one without a bound does; the caller has its lock.

    Its thread is interrupted, so the request fails. Up to a bound it would plan one more batch without a request.
    """
    for stream in filter(_find_class, _list_streams(execution)):
        _set_ends(stream, None)


def _list_streams(execution: Any) -> list[Any]:
    """Return the sources of a query; none before Spark has created them."""
    streams = execution.sources()
    return [] if streams is None else [streams.apply(number) for number in range(streams.size())]


def _set_ends(stream: Any, ends: Offsets | None) -> None:
    """Set or remove the offsets beyond which a stream does not read; the caller has the lock of its query."""
    kind, found = _find_class(stream), None
    if ends is not None:
        texts = kind.getClassLoader().loadClass("org.apache.spark.sql.kafka010.JsonUtils$")
        found = texts.getField("MODULE$").get(None).partitionOffsets(json.dumps(nest_offsets(ends)))
    _set_field(stream, kind, _ENDS, found)
    _set_field(stream, kind, _IS_BOUND, ends is not None)


def _find_class(stream: Any) -> Any:
    """Return the class of Spark's Kafka source, if the stream is one or extends it."""
    kind = stream.getClass()
    while kind is not None and kind.getName() != _STREAM:
        kind = kind.getSuperclass()
    return kind


def _set_field(target: Any, kind: Any, name: str, value: object) -> None:
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    field.set(target, value)
