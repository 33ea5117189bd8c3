"""Change events of Debezium in JSON as rows: the row of the table, and what describes its change.

A row is that after the change, or for a deletion that before it. A tombstone has no value, so its row has the columns of its key.
Source of the format: Debezium, "Debezium connector for PostgreSQL: Data change events".
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kappa_crds.envelope import DebeziumEnvelope
from kappa_crds.source import EpochUnit
from kappa_pipelines.analysis.change_version import VERSION
from kappa_pipelines.sources.debezium_types import bind, check_types, is_misfit, is_unavailable, read_value
from kappa_pipelines.sources.event_time import is_in_range, read_epoch
from kappa_pipelines.sources.text import CORRUPT, PERMISSIVE_JSON, describe_struct, parse_schema, read_text
from kappa_pipelines.sources.values import EMPTY, WithoutTexts, check_names

_SOURCE = "schema table snapshot lsn sequence txId gtid server_id file pos ts_ms"
_FILE_BITS = 32  # a position in a file of MySQL's binlog has so many
_SNIPPET = 64  # characters of a field's text shown in an error
_PAYLOAD = "payload"
_TRANSACTION = "id total_order"
_NO_KEY = "a tombstone whose key has none of the columns"
_TRUNCATED = (
    "the table was truncated (op t), which has no key: its rows stay in tables of pipelines. Name a column"
    " envelope.debezium.columns.truncated, and give it to the tables that read this source"
)
_UNPLACED = (
    "a truncation (op t) without a position and a time in the log of the database, so its order is unknown"
)


def _texts(names: str | list[str]) -> StructType:
    """Return a struct of texts."""
    return StructType(
        [StructField(name, StringType()) for name in (names.split() if isinstance(names, str) else names)]
    )


@dataclass(frozen=True)
class ChangeEvents(WithoutTexts):
    """Values that are change events. `row` are the declared columns."""

    row: StructType
    envelope: DebeziumEnvelope

    @property
    def schema(self) -> StructType:
        """Return the declared columns, and those that describe a change."""
        types: dict[str, DataType] = {
            "op": StringType(),
            "deleted": BooleanType(),
            "truncated": BooleanType(),
            "version": VERSION,
            "before": self.row,
            "time": TimestampType(),
            "snapshot": StringType(),
            "table": StringType(),
            "position": LongType(),
            "transaction": StringType(),
            "transaction_order": LongType(),
        }
        return StructType(
            [*self.row.fields, *(StructField(name, types[what]) for what, name in self._wanted.items())]
        )

    @property
    def described(self) -> tuple[str, ...]:
        """Return what describes a change, in the order of its columns."""
        return tuple(self._wanted)

    @property
    def _wanted(self) -> dict[str, str]:
        return {what: name for what, name in self.envelope.columns if name is not None}

    def parse(self, *, alert: bool) -> Column:
        """Return the columns, and the error of a malformed record."""
        keys = _texts(self.row.names)
        if self._has_wrapped_key:
            keys = StructType([*keys.fields, StructField(_PAYLOAD, keys)])
        found = f.struct(
            f.from_json(read_text(), describe_struct(self._wire()), PERMISSIVE_JSON).alias("event"),
            f.from_json(f.col("key").cast("string"), describe_struct(keys)).alias("key"),
        )
        return bind(found, lambda found: bind(self._unwrap(found), self._read))

    @property
    def _has_wrapped_key(self) -> bool:
        return _PAYLOAD not in self.row.names

    def _wire(self) -> StructType:
        """Return an event as it is written, in a payload beside its schema or alone; each field is a text."""
        row = _texts(self.row.names)
        fields = [
            StructField("op", StringType()),
            StructField("before", row),
            StructField("after", row),
            StructField("source", _texts(_SOURCE)),
            StructField("transaction", _texts(_TRANSACTION)),
        ]
        corrupt = StructField(CORRUPT, StringType())
        return StructType([*fields, StructField(_PAYLOAD, StructType(fields)), corrupt])

    def _unwrap(self, found: Column) -> Column:
        """Return the parts of an event without its payload, and the texts of the row that it is about."""
        event, key = found["event"], found["key"]
        names = "op", "before", "after", "source", "transaction"
        part = {name: f.coalesce(event[_PAYLOAD][name], event[name]) for name in names}
        is_tombstone = f.col("value").isNull()
        is_deletion = is_tombstone | f.coalesce(part["op"] == "d", f.lit(False))

        def find_text(name: str) -> Column:
            own = f.coalesce(key[_PAYLOAD][name], key[name]) if self._has_wrapped_key else key[name]
            return f.when(is_deletion, f.coalesce(part["before"][name], own)).otherwise(part["after"][name])

        return f.struct(
            *(part[name].alias(name) for name in names if name != "after"),
            f.struct(*(find_text(name).alias(name) for name in self.row.names)).alias("row"),
            is_tombstone.alias("is_tombstone"),
            is_deletion.alias("is_deletion"),
            (event.isNull() | event[CORRUPT].isNotNull()).alias("is_corrupt"),
        )

    def _read(self, event: Column) -> Column:
        """Return the columns of an event, and its error."""
        rows = {"row": self._read_row(event["row"])}
        if self.envelope.columns.before is not None:
            rows["before"] = f.when(event["before"].isNotNull(), self._read_row(event["before"]))
        values = f.struct(*(row.alias(name) for name, row in rows.items()))

        def build(values: Column) -> Column:
            change = Change(event, values, self.row, self.described)
            described = (change.describe(what).alias(name) for what, name in self._wanted.items())
            row = (values["row"][name].alias(name) for name in self.row.names)
            error = change.find_error(tuple(rows))
            return f.struct(f.struct(*row, *described).alias("columns"), error.alias("error"))

        return bind(values, build)

    def _read_row(self, texts: Column) -> Column:
        fields = self.row.fields
        return f.struct(
            *(read_value(each, texts[each.name], self.envelope).alias(each.name) for each in fields)
        )

    def is_malformed(self, parsed: Column) -> Column:  # noqa: D102 - see Values
        return parsed["error"].isNotNull()

    def columns(self, parsed: Column) -> Column:  # noqa: D102 - see Values
        return parsed["columns"]

    def explain(self, parsed: Column, texts: Column) -> Column:  # noqa: D102 - see Values
        return parsed["error"]


@dataclass(frozen=True)
class Change:
    """A change: its parts as texts, and its row, and perhaps that before, as values. `wanted` is what describes it in columns."""

    event: Column
    values: Column
    row: StructType
    wanted: Sequence[str]

    def find_error(self, rows: Iterable[str]) -> Column:
        """Return why the record is malformed; NULL if it is not."""
        event, op = self.event, self.event["op"]
        has_row = f.coalesce(*(event["row"][name] for name in self.row.names)).isNotNull()
        unknown = f.concat(f.lit("unknown operation of a change event: op "), f.substring(op, 1, _SNIPPET))
        return (
            f.when(event["is_tombstone"], f.when(~has_row, _NO_KEY))
            .when(f.length(f.trim(read_text())) == 0, EMPTY)
            .when(event["is_corrupt"], "value is not a JSON object with a change event")
            .when(op.isNull(), "value is not a change event of Debezium: it has no op")
            .when(op == "t", self._find_fault_of_truncation())
            .when(~op.isin("c", "u", "d", "r"), unknown)
            .when(~has_row, f.concat(f.lit("a change event without a row: op "), op))
            .otherwise(self._find_misfits(rows))
        )

    def _find_fault_of_truncation(self) -> Column:
        if not self._has_truncations:
            return f.lit(_TRUNCATED)
        is_placed = self._find_position().isNotNull() & self._find_time().isNotNull()
        return f.when(~is_placed, _UNPLACED)

    @property
    def _has_truncations(self) -> bool:
        return "truncated" in self.wanted

    def _find_misfits(self, rows: Iterable[str]) -> Column:
        found = [self._find_misfit(field, name) for name in rows for field in self.row.fields]
        if "time" in self.wanted:
            time = self._find_time()
            message = f.concat(f.lit("time of the change, source.ts_ms: "), time, f.lit(" is no TIMESTAMP"))
            found.append(f.when(~is_in_range(time, EpochUnit.MILLISECONDS), message))
        return f.nullif(f.concat_ws("; ", *found), f.lit(""))

    def _find_misfit(self, field: StructField, row: str) -> Column:
        text, value = self.event[row][field.name], self.values[row][field.name]
        kind = field.dataType.simpleString().upper()
        message = f.concat(
            f.lit(f"column {field.name}: "), f.substring(text, 1, _SNIPPET), f.lit(f" is no {kind}")
        )
        return f.when(is_misfit(field, text, value), message)

    def describe(self, what: str) -> Column:
        """Return a column that describes the change."""
        event, source = self.event, self.event["source"]
        describe: dict[str, Callable[[], Column]] = {
            "op": lambda: event["op"],
            "deleted": lambda: event["is_deletion"] | self._is_truncation(),
            "truncated": self._is_truncation,
            "version": self._find_version,
            "before": lambda: self.values["before"],
            "time": lambda: read_epoch(self._find_time(), EpochUnit.MILLISECONDS),
            "snapshot": lambda: source["snapshot"],
            "table": self._find_table,
            "position": self._find_position,
            "transaction": self._find_transaction,
            "transaction_order": lambda: event["transaction"]["total_order"].try_cast("bigint"),
        }
        return describe[what]()

    def _is_truncation(self) -> Column:
        return f.coalesce(self.event["op"] == "t", f.lit(False))

    def _find_time(self) -> Column:
        """Return the time of the change in the database, in milliseconds since 1970."""
        return self.event["source"]["ts_ms"].try_cast("bigint")

    def _find_table(self) -> Column:
        source = self.event["source"]
        return f.when(source["table"].isNotNull(), f.concat_ws(".", source["schema"], source["table"]))

    def _find_transaction(self) -> Column:
        """Return the id of the transaction: that of PostgreSQL in the event's own block has the LSN of the change beside it."""
        source = self.event["source"]
        return f.coalesce(source["gtid"], source["txId"], self.event["transaction"]["id"])

    def _find_position(self) -> Column:
        """Return the position of the change in the log of its server.

        A row of an incremental snapshot has no LSN, but a sequence of two: that of the last commit, and that of the last change.
        """
        source = self.event["source"]
        file = f.regexp_extract(source["file"], "([0-9]+)$", 1).try_cast("bigint")
        in_binlog = f.try_add(f.shiftleft(file, _FILE_BITS), source["pos"].try_cast("bigint"))
        lsns = [source["lsn"], *(f.get_json_object(source["sequence"], path) for path in ("$[1]", "$[0]"))]
        return f.coalesce(*(lsn.try_cast("bigint") for lsn in lsns), in_binlog)

    def _find_version(self) -> Column:
        source, texts = self.event["source"], self.event["row"]
        unavailable = [f.when(is_unavailable(texts[name]), f.lit(name)) for name in self.row.names]
        is_full = f.coalesce(source["snapshot"], f.lit("")) != "incremental"
        is_snapshot = f.coalesce(self.event["op"] == "r", f.lit(False)) & is_full
        server = f.coalesce(source["server_id"].try_cast("bigint"), f.lit(0).cast("bigint"))
        return f.struct(
            server.alias("server"),
            self._find_position().alias("position"),
            is_snapshot.alias("snapshot"),
            (self._find_time() if self._has_truncations else f.lit(None).cast("bigint")).alias("time"),
            f.col("offset").alias("offset"),
            f.array_compact(f.array(*unavailable)).alias("unavailable"),
        )


def build_change_events(source: str, schema: str, envelope: DebeziumEnvelope) -> ChangeEvents:
    """Return the format; SpecError if the schema or a column is invalid. Needs an active Spark session."""
    values = ChangeEvents(parse_schema(source, schema), envelope)
    check_types(source, values.row, envelope)
    check_names(f"source {source!r} with the columns of its envelope", values.schema.names)
    return values
