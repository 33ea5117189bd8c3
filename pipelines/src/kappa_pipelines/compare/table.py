"""Tables compared by hashes: each key's last record on both sides, in one pass over both topics.

A record becomes four numbers: two hashes of its key, one of its value, and its position. Only these are shuffled. The last record of a
key is the one with the highest offset; a partitioner keeps all records of a key in one partition. A tombstone has no value, like a key
that a side lacks. Records of keys that differ are read again: a few by their offsets, many by a second pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Message
from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as f

from kappa_crds.comparison import OutputRange
from kappa_crds.reasons import Reason
from kappa_pipelines.compare.fold import Pair
from kappa_pipelines.compare.records import (
    NEW,
    OLD,
    Reader,
    pack_position,
    show_position,
    write_position,
)
from kappa_pipelines.errors import SpecError

MOST_EXAMINED = 1_000_000
"""Differing rows whose values are examined; of more, a sample of buckets is."""
_SEED = 1
_BUCKETS = 2**20
_FEW = 2000
"""Differing keys whose records are read one by one instead of by a second pass."""


@dataclass(frozen=True)
class Tables:
    """Both sides of a table, and the reader of their records."""

    reader: Reader
    old: OutputRange
    new: OutputRange


@dataclass(frozen=True)
class KeyCounts:
    """Counts of keys by their hashes. `differing` have other bytes, or are on one side only."""

    old_rows: int
    new_rows: int
    equal: int
    differing: int


def hash_last_records(tables: Tables) -> DataFrame:
    """Return each key's hashes `h1` and `h2`, and of each side the hash of its last value and its position."""
    records = _hash(tables.reader.read_rows(tables.old), OLD).unionAll(
        _hash(tables.reader.read_rows(tables.new), NEW)
    )
    # The shuffle is before the aggregation: nearly every record of a task has a key of its own, so aggregating first gains nothing.
    keys = records.repartition("h1", "h2").groupBy("h1", "h2")
    return keys.agg(
        *(
            f.expr(f"{function} FILTER (WHERE position & 1 = {side})").alias(f"{name}_{column}")
            for side, name in ((OLD, "old"), (NEW, "new"))
            for column, function in (("hash", "max_by(hash, position)"), ("position", "max(position)"))
        )
    )


def _hash(records: DataFrame, side: int) -> DataFrame:
    value = f.when(f.col("value").isNotNull(), f.xxhash64("value"))
    first, second = _hash_key(f.col("key"))
    return records.select(first, second, value.alias("hash"), pack_position(side).alias("position"))


def _hash_key(key: Column) -> tuple[Column, Column]:
    """Return two hashes: 64 bits alone would be the same for two of a billion keys in one of forty comparisons."""
    return f.xxhash64(key).alias("h1"), f.xxhash64(f.lit(_SEED), key).alias("h2")


def find_differing(keys: DataFrame) -> tuple[DataFrame, KeyCounts]:
    """Return the differing keys, cached, and the counts of all; SpecError if records have no key."""
    old, new = f.col("old_hash"), f.col("new_hash")
    differs = ~old.eqNullSafe(new)
    no_key = _hash_key(f.lit(None).cast("binary"))
    seen = Observation()
    observed = keys.observe(
        seen,
        f.count_if(old.isNotNull()).alias("old_rows"),
        f.count_if(new.isNotNull()).alias("new_rows"),
        f.count_if(old == new).alias("equal"),
        f.count_if(differs).alias("differing"),
        f.count_if((f.col("h1") == no_key[0]) & (f.col("h2") == no_key[1])).alias("keyless"),
    )
    differing = observed.where(differs).persist()
    differing.count()
    counts: dict[str, int] = dict(seen.get)
    if counts.pop("keyless"):
        differing.unpersist()
        raise SpecError(
            Reason.INVALID_SPEC,
            "one of the topics has records without key, so it is no table; compare the topics as streams",
        )
    return differing, KeyCounts(**counts)


def select_keys(differing: DataFrame, count: int, most: int = MOST_EXAMINED) -> tuple[DataFrame, int]:
    """Return the keys to examine, and how many: all, or those in a sample of buckets with about `most` keys."""
    if count <= most:
        return differing, count
    kept = differing.where(f.pmod(f.col("h2"), f.lit(_BUCKETS)) < _BUCKETS * most // count)
    return kept, kept.count()


def fetch_pairs(tables: Tables, keys: DataFrame, count: int) -> list[Pair] | None:
    """Return the pairs of a few differing keys by reading single records; None if they are many or large."""
    if count > _FEW:
        return None
    rows = keys.collect()
    sides = []
    for output, name in ((tables.old, "old"), (tables.new, "new")):
        wanted = [row[f"{name}_position"] for row in rows if row[f"{name}_hash"] is not None]
        found = tables.reader.fetch(output.topic, wanted)
        if found is None:
            return None
        sides.append(found)
    return [_build_pair(row, *sides) for row in rows]


def _build_pair(row: Row, old: Mapping[int, Message | None], new: Mapping[int, Message | None]) -> Pair:
    before = old[row.old_position] if row.old_hash is not None else None
    after = new[row.new_position] if row.new_hash is not None else None
    key = next((message.key() for message in (before, after) if message is not None), None)
    is_lost = (row.old_hash is not None and before is None) or (row.new_hash is not None and after is None)
    return Pair(
        key=key,
        old=None if before is None else before.value(),
        new=None if after is None else after.value(),
        old_position=show_position(row.old_position),
        new_position=show_position(row.new_position),
        lost=is_lost,
    )


def join_pairs(tables: Tables, keys: DataFrame) -> DataFrame:
    """Return the pairs by a second pass over both topics."""
    old = _find_records(tables.reader, tables.old, keys, OLD, "old")
    new = _find_records(tables.reader, tables.new, keys, NEW, "new")
    pairs = keys.join(old, ["h1", "h2"], "left").join(new, ["h1", "h2"], "left")
    lost = (f.col("old_hash").isNotNull() & f.col("old").isNull()) | (
        f.col("new_hash").isNotNull() & f.col("new").isNull()
    )
    return pairs.select(
        f.coalesce("old_key", "new_key").alias("key"),
        "old",
        "new",
        write_position(f.col("old_position")).alias("old_position"),
        write_position(f.col("new_position")).alias("new_position"),
        lost.alias("lost"),
        f.lit(None).cast("bigint").alias("window"),
    )


def _find_records(reader: Reader, output: OutputRange, keys: DataFrame, side: int, name: str) -> DataFrame:
    wanted = keys.where(f.col(f"{name}_hash").isNotNull()).select(
        "h1", "h2", f.col(f"{name}_position").alias("position")
    )
    records = reader.read_rows(output).select(
        pack_position(side).alias("position"),
        f.col("key").alias(f"{name}_key"),
        f.col("value").alias(name),
    )
    return records.join(wanted, "position").drop("position")
