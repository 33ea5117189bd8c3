"""State kept in Python, for operators that no plan of Spark's own can say: in few large groups of keys.

A call of Python and a visit to the state store cost as much as hundreds of rows, so a key is no group of its own. Keys
are hashed into buckets; what is kept of a bucket's keys is one value of state. A batch then costs one call for
each bucket that has rows, reading and writing all that the bucket keeps: right for many rows a batch, and for keys that
keep little. An operator does not see buckets: it is a `Step` from what is kept of keys and their rows to new rows.

Between Spark and a step pass only text, whole numbers, booleans and bytes, for a table of pandas would make numbers with
NULLs inexact. Times are microseconds since 1970 in UTC. Whatever an operator need not look into travels
as JSON, packed and unpacked by Spark.
"""

import contextlib
import gc
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructField, StructType

from kappa_pipelines.transforms.inputs import Input

if TYPE_CHECKING:
    import pandas as pd

BUCKETS = (12, 16, 5, 1, 37, 20, 2, 35, 13, 6, 49, 7, 25, 15, 4, 0)
"""Names of the buckets. Spark's hash puts one of them into each of 16 partitions, so two in each of 8, four in each of 4.

They are in checkpoints: with others, keys would not find what was kept of them."""

_BUCKET = "__kappa_bucket"
_TIME = "__kappa_watermark"
_YEARS = (1678, 2261)
JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
"""How values travel as JSON, so that they come back as they were."""

Row = tuple[Any, ...]
Kept = dict[str, Any]
"""What an operator keeps, by key; any values that can be pickled. A key without state is not in it."""


class Step(Protocol):
    """What an operator does. Pickled to the workers; it must depend on nothing but its arguments."""

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterable[Row]:
        """Change what is kept of keys by their rows, which come in any order, and return the rows that come out.

        Called with no rows when the watermark has reached the time that `find_wake` gave.
        """

    def find_wake(self, kept: Kept) -> int | None:
        """Return the time for which it waits: it is called again when the watermark has reached it. None for never."""


@dataclass(frozen=True)
class Output:
    """The columns that come out of a step, in the order of its rows.

    `time` names the one among them that is the event time, given as microseconds; it carries the watermark on.
    """

    columns: Mapping[str, str]
    time: str | None = None

    @property
    def ddl(self) -> str:
        """Return the columns as Spark takes them."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())


class _Apart(Kept):
    """What is kept, with one large part in a value of its own: read where a step asks for it, written where it was set."""

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


class _Buckets(StatefulProcessor):
    """Runs a step on buckets."""

    def __init__(self, step: Step, columns: Sequence[str], output: Output, apart: str | None) -> None:
        self._step, self._columns, self._output, self._apart = step, columns, output, apart

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("keys", "kept BINARY, wake BIGINT")
        if self._apart is not None:
            self._part = handle.getValueState("apart", "part BINARY")

    def handleInputRows(self, key: Any, rows: "Iterator[pd.DataFrame]", timerValues: Any) -> Iterator[Any]:
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
        stored = self._state.get() if self._state.exists() else None
        kept: Kept = pickle.loads(stored[0]) if stored else {}  # noqa: S301 - our own checkpoint
        if self._apart is not None:
            kept = _Apart(kept, self._apart, self._part)
        waited_for = stored[1] if stored else None
        watermark = 0 if self._output.time is None else timers.getCurrentWatermarkInMs() * 1000
        made = list(self._step.advance(kept, rows, watermark))
        wake = self._set_timer(waited_for, self._step.find_wake(kept))
        rest = kept.split() if isinstance(kept, _Apart) else kept
        self._state.update((pickle.dumps(rest, protocol=5), wake))
        return made

    def _set_timer(self, waited_for: int | None, wake: int | None) -> int | None:
        """Wait for `wake` instead of `waited_for`, which may have come.

        Timers are in milliseconds, and go off when the watermark is greater, not when it has just come.
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
            frame[self._output.time] = pd.to_datetime(
                frame[self._output.time].astype("int64"), unit="us", utc=True
            )
        return frame


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Look for no garbage in circles: what is kept is made of a million small objects, and looking costs a third of the time."""
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
    """Return what a step makes of a stream.

    `columns` are what it is given of each row, in their order; rows that are equal in the one named `key` meet the same
    state. Rows for which `to_all` holds are given to every bucket. `apart` names a key under which a step keeps
    bytes that are large and seldom change.

    Where the output has an event time, the step can wait for times, `time` is the column of the rows that has the watermark, and
    rows below it are dropped, as are those of years that a table of pandas cannot hold.
    """
    bucket = _find_bucket(columns[key], to_all).alias(_BUCKET)
    given = [column.alias(name) for name, column in columns.items()]
    if time is not None:
        rows = rows.where(f.year(f.col(_quote(time))).between(*_YEARS))
        given.append(f.col(_quote(time)).alias(_TIME))
    return (
        rows.select(bucket, *given)
        .groupBy(_BUCKET)
        .transformWithStateInPandas(
            _Buckets(step, tuple(columns), output, apart),
            output.ddl,
            "append",
            "None" if output.time is None else "EventTime",
            eventTimeColumnName=output.time or "",
        )
    )


def _find_bucket(key: Column, to_all: Column | None) -> Column:
    """Return the bucket of a key, or a row for each bucket where a row is for all."""
    every = f.array(*map(f.lit, BUCKETS))
    one = f.get(every, f.pmod(f.xxhash64(key), f.lit(len(BUCKETS))).cast("int"))
    return one if to_all is None else f.explode(f.when(to_all, every).otherwise(f.array(one)))


def pack(columns: Sequence[str]) -> Column:
    """Return columns as one JSON text, from which `unpack` makes the same values."""
    return f.to_json(f.struct(*(f.col(_quote(name)) for name in columns)), JSON)


def unpack(packed: Column, kind: StructType) -> Column:
    """Return the struct of the columns that were packed; none of them has a watermark."""
    plain = StructType([StructField(field.name, field.dataType) for field in kind.fields])
    return f.from_json(packed, plain, JSON)


def open_packed(
    made: DataFrame, packed: str, source: Input, names: Sequence[str], others: Iterable[str]
) -> DataFrame:
    """Return rows with the columns of `source` that were packed in place of the pack, then the others."""
    kind = StructType([source.schema[name] for name in names])
    opened = made.withColumn(packed, unpack(f.col(packed), kind))
    own = [f.col(packed)[name].alias(name) for name in names]
    return opened.select(*own, *(f.col(_quote(name)) for name in others))


def micros(time: str) -> Column:
    """Return a TIMESTAMP column as microseconds since 1970."""
    return f.unix_micros(f.col(_quote(time)))


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
