"""State kept in Python, in key groups, for operators that Spark's own plans do not have.

A Python call for each key costs as much as hundreds of rows, so keys share calls: a key is hashed into one of 16 shards, which are
Spark's groups, and within it into one of 64 key groups, whose state is one value. A batch costs one call for each shard that has
rows, which reads and writes the state of the key groups that have rows. An operator does not see key groups: it is a `Step` from
the state of keys and their rows to new rows.

Only text, whole numbers, booleans and bytes pass between Spark and a step, as pandas makes numbers with NULLs inexact.
Times are microseconds since 1970 in UTC. Columns that an operator only passes on travel as JSON, packed and unpacked by Spark.
"""

import contextlib
import gc
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from kappa_pipelines.analysis.catalyst import DELAY
from kappa_pipelines.transforms.inputs import Input, quote
from kappa_pipelines.transforms.stored import Kept, decode, encode, is_pickled, read_pickled

if TYPE_CHECKING:
    import pandas as pd

SHARDS = (12, 16, 5, 1, 37, 20, 2, 35, 13, 6, 49, 7, 25, 15, 4, 0)
"""Ids of the shards. Spark's hash puts one of them into each of 16 partitions, so two into each of 8, four into each of 4.

They are part of checkpoints, as is the number of key groups: with others, keys would not find their state."""
KEY_GROUPS = 64
"""The number of key groups in a shard; 1,024 in all."""

_SHARD = "__kappa_bucket"  # a name in checkpoints
_TIME = "__kappa_watermark"
_FIRST_TIME, _LAST_TIME = "1678-01-01", "2262-01-01"  # of a timestamp in pandas
JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
"""Options by which values travel as JSON without a loss."""

# Each schema as a text would be one or two requests to the JVM in each task, which parses it.
_NUMBER = StructType([StructField("number", IntegerType())])
_KEPT = StructType([StructField("kept", BinaryType())])
_PART = StructType([StructField("part", BinaryType())])
_WAKES = StructType([StructField("kept", BinaryType()), StructField("wake", LongType())])

Row = tuple[Any, ...]


class Step(Protocol):
    """The logic of an operator. Pickled to the workers; it must depend only on its arguments."""

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterable[Row]:
        """Update the state of keys by their rows, which come in any order, and return the output rows.

        Called without rows when the watermark has reached the time that `find_wake` returned.
        """

    def find_wake(self, kept: Kept) -> int | None:
        """Return the watermark at which to call `advance` again; None for never, as for steps that only rows advance."""
        return None


class TableStep(Step, Protocol):
    """A step over changes of tables. `native` is its name in the module in Java."""

    native: str


@dataclass(frozen=True)
class Output:
    """The columns of a step's output, in the order of its rows.

    `time` names the event-time column, given as microseconds; it has the watermark of the input.
    """

    columns: Mapping[str, str]
    time: str | None = None

    @property
    def ddl(self) -> str:
        """Return the columns as Spark takes them."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())


class _Apart(Kept):
    """State with one large part in a value of its own, which is read when a step uses it and written when a step sets it."""

    def __init__(self, kept: Kept, part: str, value: Any) -> None:
        super().__init__(kept)
        self._part, self._value, self._is_set = part, value, False

    def __missing__(self, key: str) -> Any:
        if key != self._part:
            raise KeyError(key)
        return self._value.get()[0]

    def __setitem__(self, key: str, value: Any) -> None:
        self._is_set = self._is_set or key == self._part
        super().__setitem__(key, value)

    def split(self) -> Kept:
        """Write the part if it was set, and return the rest."""
        if self._is_set:
            self._value.update((self[self._part],))
        return {key: value for key, value in self.items() if key != self._part}


class _KeyGroups(StatefulProcessor):
    """Runs a step on the key groups of a shard. `key` is the position of the key in a row; with `apart`, a shard is one key group."""

    def __init__(
        self, step: Step, columns: Sequence[str], output: Output, key: int, apart: str | None
    ) -> None:
        self._step, self._columns, self._output, self._key, self._apart = step, columns, output, key, apart

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._wakes = handle.getValueState("keys", _WAKES)
        self._groups = handle.getMapState("groups", _NUMBER, _KEPT)
        if self._apart is not None:
            self._part = handle.getValueState("apart", _PART)

    def handleInputRows(self, key: Any, rows: "Iterator[pd.DataFrame]", timerValues: Any) -> Iterator[Any]:
        _freeze_modules()
        return self._advance([row for frame in rows for row in self._read(frame)], timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        return self._advance([], timerValues)

    def close(self) -> None:
        pass

    def _read(self, frame: "pd.DataFrame") -> Iterator[Row]:
        for name in self._columns:
            if frame[name].dtype.kind == "f":
                raise TypeError(
                    f"column {name} has NULLs among its numbers, so they are inexact; give it as text"
                )
        return zip(*(frame[name].tolist() for name in self._columns), strict=True)

    def _advance(self, rows: Sequence[Row], timers: Any) -> Iterator[Any]:
        with _no_collection():
            made = self._run(rows, timers)
        if made:
            yield self._frame(made)

    def _run(self, rows: Sequence[Row], timers: Any) -> Sequence[Row]:
        stored = self._wakes.get()
        content, waited_for = stored or (b"", None)
        wakes: dict[str, int] = self._split(content) if is_pickled(content) else decode(content)
        watermark = 0 if self._output.time is None else timers.getCurrentWatermarkInMs() * 1000
        given: dict[int, list[Row]] = {int(number): [] for number, wake in wakes.items() if wake <= watermark}
        for row in rows:
            for number in self._find_groups(row[self._key]):
                given.setdefault(number, []).append(row)
        made: list[Row] = []
        for number, content in self._load(given).items():
            made += self._advance_group(number, content, given[number], watermark, wakes)
        timer = self._set_timer(waited_for, min(wakes.values(), default=None))
        if stored is None or (encode(wakes), timer) != tuple(stored):
            self._wakes.update((encode(wakes), timer))
        return made

    def _find_groups(self, key: str | None) -> Iterable[int]:
        """Return the key group of a key, or all without a key."""
        return range(KEY_GROUPS) if key is None and self._apart is None else (self._find_group(key or ""),)

    def _find_group(self, key: str) -> int:
        return 0 if self._apart is not None else crc32(key.encode(errors="surrogatepass")) % KEY_GROUPS

    def _load(self, numbers: Collection[int]) -> dict[int, bytes]:
        """Return the contents of key groups: many in one request to the JVM, few in one request each."""
        if len(numbers) > KEY_GROUPS // 2:
            found = {number: content for (number,), (content,) in self._groups.iterator()}
            return {number: found.get(number, b"") for number in numbers}
        return {number: (self._groups.getValue((number,)) or (b"",))[0] for number in numbers}

    def _advance_group(
        self, number: int, content: bytes, rows: Sequence[Row], watermark: int, wakes: dict[str, int]
    ) -> list[Row]:
        """Return a step's output for one key group, and write its state and its wake."""
        kept = decode(content)
        if self._apart is not None:
            kept = _Apart(kept, self._apart, self._part)
        made = list(self._step.advance(kept, rows, watermark))
        self._store(number, content, kept, wakes)
        return made

    def _store(self, number: int, content: bytes, kept: Kept, wakes: dict[str, int]) -> None:
        wakes.pop(str(number), None)
        wake = self._step.find_wake(kept)
        if wake is not None:
            wakes[str(number)] = wake
        rest = encode(kept.split() if isinstance(kept, _Apart) else kept)
        if rest != (content or encode({})):
            self._groups.updateValue((number,), (rest,))

    def _split(self, content: bytes) -> dict[str, int]:
        """Store the state of a shard, which an earlier release has in one value, by key groups; return their wakes."""
        groups: dict[int, Kept] = defaultdict(dict)
        for key, value in read_pickled(content).items():
            groups[self._find_group(key)][key] = value
        wakes: dict[str, int] = {}
        for number, kept in groups.items():
            self._store(number, b"", kept, wakes)
        return wakes

    def _set_timer(self, waited_for: int | None, wake: int | None) -> int | None:
        """Replace the timer at `waited_for`, which may have fired, by one at `wake`.

        Timers are in milliseconds and fire when the watermark is greater, not when it is equal.
        """
        until = None if wake is None else -(-wake // 1000) - 1
        if until != waited_for:
            if waited_for is not None:
                self._handle.deleteTimer(waited_for)
            if until is not None:
                self._handle.registerTimer(until)
        return until

    def _frame(self, made: Sequence[Row]) -> Any:
        import pandas as pd  # noqa: PLC0415 - takes longer than all else that a driver loads, and only workers need it

        frame = pd.DataFrame(made, columns=list(self._output.columns), dtype=object)
        if self._output.time is not None:
            micros = frame[self._output.time].astype("int64").astype("datetime64[us]")
            frame[self._output.time] = micros.dt.tz_localize("UTC")
        return frame


@cache
def _freeze_modules() -> None:
    """Take what a worker has loaded out of the search for reference cycles, once.

    PySpark searches after each task. A search through the modules takes 41 ms, and a batch of a join has four tasks.
    """
    gc.freeze()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the search for reference cycles: state has a million small objects, and the search takes a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def run_step(
    rows: DataFrame,
    key: str,
    columns: Mapping[str, Column],
    step: Step,
    output: Output,
    *,
    time: str | None = None,
    to_all: Column | None = None,
    apart: str | None = None,
) -> DataFrame:
    """Return a step's output over a stream.

    `columns` are the step's input columns, in their order; rows with an equal column `key` share their state. Rows for which
    `to_all` holds go to every shard, and to every key group if their key is NULL. `apart` names a key under which a step keeps bytes that are large and seldom change; then a
    shard is one key group.

    Where the output has an event time, the step can wait for times and `time` is the column with the watermark: rows without a
    time have no output, and rows below the watermark are dropped and counted as late.
    """
    shard = _find_shard(columns[key], to_all).alias(_SHARD)
    given = [column.alias(name) for name, column in columns.items()]
    if time is not None:
        rows = rows.where(f.col(quote(time)).isNotNull())
        given.append(_bound_time(rows, time))
    return (
        rows.select(shard, *given)
        .groupBy(_SHARD)
        .transformWithStateInPandas(
            _KeyGroups(step, tuple(columns), output, list(columns).index(key), apart),
            output.ddl,
            "append",
            "None" if output.time is None else "EventTime",
            eventTimeColumnName=output.time or "",
        )
    )


def _bound_time(rows: DataFrame, time: str) -> Column:
    """Return the event time for Spark's comparison with the watermark, within the years that pandas can hold.

    A step gets the exact time as microseconds among its columns.
    """
    first, last = (f.lit(each).cast("timestamp") for each in (_FIRST_TIME, _LAST_TIME))
    bounded = f.least(f.greatest(f.col(quote(time)), first), last)
    return bounded.alias(_TIME, metadata={DELAY: rows.schema[time].metadata[DELAY]})


def _find_shard(key: Column, to_all: Column | None) -> Column:
    """Return the shard of a key, or a row for each shard where a row goes to all."""
    every = f.array(*map(f.lit, SHARDS))
    one = f.get(every, f.pmod(f.xxhash64(key), f.lit(len(SHARDS))).cast("int"))
    return one if to_all is None else f.explode(f.when(to_all, every).otherwise(f.array(one)))


def pack(columns: Sequence[str]) -> Column:
    """Return columns as one JSON text, from which `unpack` makes the same values."""
    return f.to_json(f.struct(*(f.col(quote(name)) for name in columns)), JSON)


def unpack(packed: Column, kind: StructType) -> Column:
    """Return the struct of the columns that were packed; none of them has a watermark."""
    plain = StructType([StructField(field.name, field.dataType) for field in kind.fields])
    return f.from_json(packed, plain, JSON)


def open_packed(
    made: DataFrame, packed: str, source: Input, names: Sequence[str], others: Iterable[str]
) -> DataFrame:
    """Return rows with the packed columns of `source` in place of the packed column, then the others."""
    kind = StructType([source.schema[name] for name in names])
    opened = made.withColumn(packed, unpack(f.col(packed), kind))
    own = [f.col(packed)[name].alias(name) for name in names]
    return opened.select(*own, *(f.col(quote(name)) for name in others))


def micros(time: str) -> Column:
    """Return a TIMESTAMP column as microseconds since 1970."""
    return f.unix_micros(f.col(quote(time)))
