"""Change events of a database: what a real Debezium wrote (see `recorded.debezium`), and events with faults."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from kappa_crds import API_VERSION
from kappa_pipelines.errors import SpecError
from kappa_pipelines.laptop.compare import read_rows
from kappa_pipelines.laptop.data import read_topic
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from laptop.commands import kappa
from recorded.debezium import EXAMPLE, FOLDER, find_records

ROWS = json.loads((FOLDER / "rows.json").read_text())
COLUMNS = {"op": "op", "deleted": "deleted", "version": "version"}
ALL_COLUMNS = {
    **COLUMNS, "before": "before", "time": "at", "snapshot": "snapshot", "table": "table_name",
    "position": "lsn", "transaction": "tx", "transactionOrder": "tx_order",
}  # fmt: skip
CUSTOMER = "id INT, name STRING, city STRING, joined DATE"
ODDITIES = """id INT, fixed DECIMAL(38,10), free DECIMAL(38,3), money DECIMAL(10,2), day DATE, clock BIGINT,
    milli TIMESTAMP_NTZ, micro TIMESTAMP, zoned TIMESTAMP, bytes BINARY, document STRUCT<a: ARRAY<STRING>>,
    numbers ARRAY<INT>, words ARRAY<STRING>, size STRING, range STRING, times STRING, uuid STRING, length BIGINT,
    bits BINARY, flag BOOLEAN, single FLOAT, double DOUBLE, address STRING, point STRUCT<x: DOUBLE, y: DOUBLE>,
    twice INT"""


WARE_ODDITIES = """id INT, tiny INT, small INT, medium INT, big DECIMAL(20,0), signed_big BIGINT, flag BOOLEAN, wide INT, year INT,
    fixed DECIMAL(38,10), single FLOAT, double_one DOUBLE, day DATE, clock BIGINT, second TIMESTAMP, milli TIMESTAMP,
    micro TIMESTAMP, zoned TIMESTAMP, size STRING, colours STRING, bits BINARY, bit_one BOOLEAN, bytes BINARY, large BINARY,
    document STRUCT<a: ARRAY<INT>>, words STRING, place STRUCT<x: DOUBLE, y: DOUBLE>, code STRING, twice INT"""


SERVERS = pytest.mark.parametrize("server", ["ware", pytest.param("mysql", marks=pytest.mark.chaos)])
"""The prefixes of what was recorded from MariaDB and MySQL."""


def load(table: str, prefix: str = "shop", schema: str = "public") -> list[Record]:
    topic = f"{prefix}.{schema}.{table}"
    return list(read_topic(find_records(topic), topic))


def source(name: str, schema: str, columns: Mapping[str, str] = COLUMNS, **envelope: Any) -> dict[str, Any]:
    return {
        "name": name,
        "topic": f"shop.public.{name}",
        "format": {"json": {"schema": schema}},
        "envelope": {"debezium": {"columns": dict(columns), **envelope}},
    }


def copy(name: str, **kafka: Any) -> dict[str, Any]:
    return {"name": name, "from": name, "kafka": {"topic": name, **kafka}}


class Run:
    """A pipeline over records on this machine."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        metadata = {"namespace": "test", "name": "shop"}
        manifest = {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec}
        self._revision = build_local_revision(manifest)
        self.run = LocalRun(start_spark(self._revision), self._revision, folder)

    def feed(self, **records: Sequence[Record]) -> None:
        self.run.feed(records)
        self.run.process()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the last row of each key, or all rows of a sink without tombstones."""
        sink = next(each for each in self._revision.spec.sinks if each.name == name)
        return read_rows(self.run.outputs(name), sink)

    def errors(self) -> list[str]:
        return [letter.error for letter in self.run.letters()]


def event(op: str | None, *, after: Any = None, before: Any = None, **fields: Any) -> Record:
    value = {"op": op, "before": before, "after": after, "source": {"lsn": 1}, **fields}
    return Record(json.dumps(value).encode(), key=b'{"id":1}')


def test_the_events_of_a_session_are_rows_with_their_description(spark: SparkSession, tmp_path: Path) -> None:
    sources = [source("customers", CUSTOMER, ALL_COLUMNS), source("carts", "id INT", {"op": "op"})]
    run = Run(tmp_path, sources=sources, sinks=[copy("customers"), copy("carts")])
    run.feed(customers=load("customers"), carts=load("carts"))
    rows = run.rows("customers")
    assert [row["op"] for row in rows[:4]] == ["r"] * 4
    assert {row["snapshot"] for row in rows[:4]} <= {"first", "first_in_data_collection", "true", "last", "last_in_data_collection"}  # fmt: skip
    assert rows[0] | {"joined": "2020-02-29", "table_name": "public.customers"} == rows[0]
    (renamed,) = [row for row in rows if row["id"] == 20 and row["op"] == "c"][:1]
    assert (renamed["name"], renamed["joined"], renamed["deleted"]) == ("Blaise", "1969-12-31", False)
    deleted = next(row for row in rows if row["id"] == 2 and row["op"] == "d")
    assert (deleted.get("city"), deleted["deleted"], deleted["before"]["id"]) == (
        None,
        True,
        2,
    )
    tombstone = next(row for row in rows if row["id"] == 2 and row.get("op") is None)
    assert (tombstone["deleted"], tombstone.get("lsn")) == (True, None)
    positions = [row["lsn"] for row in rows if row.get("lsn") is not None]
    assert positions != sorted(positions), "the killed connector wrote changes again"
    assert (renamed["tx"], renamed["lsn"]) == (deleted["tx"], deleted["lsn"])
    assert renamed["tx_order"] == 2
    assert "incremental" in {row.get("snapshot") for row in rows}
    assert {row["op"] for row in run.rows("carts")} == {"r", "c"}
    assert {error.split(":")[0] for error in run.errors()} == {
        "the table was truncated (op t), which has no key"
    }


def test_odd_types_are_those_of_the_database(spark: SparkSession, tmp_path: Path) -> None:
    oddities = source("oddities", ODDITIES, timestampUnits={"milli": "Milliseconds"})
    run = Run(tmp_path, sources=[oddities], sinks=[copy("oddities")])
    run.feed(oddities=load("oddities"))
    assert run.errors() == []
    first, second, third, *_ = (_read_exactly(output.value) for output in run.run.outputs("oddities"))
    stored, other, _ = ROWS["oddities"]
    alike = (
        "fixed",
        "day",
        "milli",
        "micro",
        "zoned",
        "numbers",
        "words",
        "size",
        "range",
        "times",
        "uuid",
        "flag",
    )
    # Debezium drops the era of a date before the year 1.
    for row, wanted in ((first, stored), (second, {**other, "day": "0044-03-15"})):
        wanted["micro"] += "Z"
        assert {name: row.get(name) for name in alike} == {name: _normalize(wanted[name]) for name in alike}
    plain = {"free": "1.5", "money": "12.34", "single": "1.5"}
    assert {name: str(first[name].normalize()) for name in plain} == plain
    assert (first["clock"], first["length"], first["double"]) == (3_723_000_004, 93_600_000_000, "NaN")
    assert (first["bytes"], first["bits"], first["point"]) == ("AP8Q", "AQI=", {"x": Decimal("1.5"), "y": -2})
    assert [json.loads(each) for each in first["document"]["a"]] == [1, {"b": None}]
    plain = {"free": "-12345678901234567890.123", "money": "-0.05"}
    assert {name: str(second[name]) for name in plain} == plain
    assert (second["clock"], second["single"], second.get("document")) == (86_400_000_000, "-Infinity", None)
    assert {name for name, value in third.items() if value is not None} == {
        "id",
        "op",
        "deleted",
        "version",
        "twice",
    }


@SERVERS
def test_odd_types_of_the_binary_log_are_those_of_the_database(
    server: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The same values are read from the snapshot and from the binary log."""
    units = {"second": "Milliseconds", "milli": "Milliseconds"}
    run = Run(
        tmp_path, sources=[source("oddities", WARE_ODDITIES, timestampUnits=units)], sinks=[copy("oddities")]
    )
    run.feed(oddities=load("oddities", server, "ware"))
    assert run.errors() == []
    rows = {row["id"]: row for row in (_read_exactly(each.value) for each in run.run.outputs("oddities"))}
    first = {
        "tiny": 255, "small": 65535, "medium": 16777215, "big": 2**64 - 1, "signed_big": -(2**63), "flag": True, "wide": -8,
        "year": 2155, "fixed": Decimal("1234567890123456789012345678.0123456789"), "single": 1.5, "double_one": Decimal("1e300"),
        "day": datetime(2026, 2, 3), "clock": -3_020_398_000_001, "second": _utc(2026, 2, 3, 4, 5, 6),
        "milli": _utc(2026, 2, 3, 4, 5, 6, 7000), "micro": _utc(2026, 2, 3, 4, 5, 6, 7), "zoned": _utc(2026, 2, 3, 4, 5, 6, 7),
        "size": "large", "colours": "red,blue", "bits": "AQI=", "bit_one": True, "bytes": "AP8Q", "large": "AP8=",
        "document": {"a": [1, None]}, "words": "Gödel", "place": {"x": Decimal("1.5"), "y": -2},
        "code": "00000000-0000-0000-0000-000000000001",
    }  # fmt: skip
    second = {
        "tiny": 0, "small": 0, "medium": 0, "big": 2**63 - 1, "signed_big": 2**63 - 1, "flag": False, "wide": 7, "year": 1901,
        "fixed": Decimal("-1e-10"), "single": -1.5, "double_one": 0, "day": datetime(1000, 1, 1), "clock": 0,
        "second": _utc(1000, 1, 1), "milli": _utc(1969, 12, 31, 23, 59, 59, 999_000),
        "micro": _utc(9999, 12, 31, 23, 59, 59, 999_999), "zoned": _utc(1970, 1, 1, 0, 0, 1), "size": "small", "colours": "",
        "bits": "AAA=", "bit_one": False, "bytes": "", "large": "", "words": "", "place": {"x": 0, "y": 0},
        "code": "ffffffff-ffff-ffff-ffff-ffffffffffff",
    }  # fmt: skip
    for added, op in ((0, "r"), (10, "c")):
        for number, wanted in ((1, first), (2, second), (3, {})):
            row = rows[number + added]
            assert {name: value for name, value in row.items() if name not in COLUMNS and value is not None} == {
                "id": number + added, "twice": 2 * (number + added), **wanted
            }  # fmt: skip
            assert row["op"] == op


@SERVERS
def test_zero_dates_are_null_or_the_epoch(server: str, spark: SparkSession, tmp_path: Path) -> None:
    units = {"at": "Milliseconds", "sure_at": "Milliseconds"}
    schema = "id INT, day DATE, sure_day DATE, at TIMESTAMP, sure_at TIMESTAMP"
    run = Run(
        tmp_path, sources=[source("zeros", schema, timestampUnits=units)], sinks=[copy("zeros", key=["id"])]
    )
    run.feed(zeros=load("zeros", server, "ware"))
    epoch, day = "1970-01-01T00:00:00.000000Z", "1970-01-01"
    found = {
        row["id"]: [row.get(name) for name in ("day", "sure_day", "at", "sure_at")]
        for row in run.rows("zeros")
    }
    assert found[1] == found[11] == [None, day, None, epoch]
    assert found[2] == found[12] == [None, day, None, "2026-01-01T00:00:00.000000Z"]


@SERVERS
def test_a_table_of_the_binary_log_ends_as_that_of_the_database(
    server: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The connector was killed and wrote changes again, and the binary log began a new file."""
    records = load("stock", server, "ware")
    stock, names = (source(name, "id INT, name STRING, amount INT") for name in ("stock", "names"))
    join = {
        "left": {"from": "stock", "order": "version", "deleted": "deleted"},
        "key": ["id"],
        "right": {"from": "names", "order": "version", "deleted": "deleted"},
        "foreignKey": {"id": "id"},
        "columns": {"same_name": "name"},
    }
    sink = {
        "name": "out",
        "from": "joined",
        "kafka": {"topic": "out", "key": ["id"], "tombstones": "deleted"},
    }
    run = Run(tmp_path, sources=[stock, names], views=[{"name": "joined", "tableJoin": join}], sinks=[sink])
    for part in _split(records, 13):
        run.feed(stock=part, names=part)
    assert run.errors() == []
    found = {row["id"]: (row.get("name"), row.get("amount")) for row in run.rows("out")}
    stored = json.loads((FOLDER / "stock.json").read_text())
    assert found == {row["id"]: (row["name"], row["amount"]) for row in stored}
    assert all(row["same_name"] == row["name"] for row in run.rows("out"))


def _utc(*fields: int) -> datetime:
    return datetime(*fields, tzinfo=UTC)  # type: ignore[misc,arg-type]


def _read_exactly(text: str | None) -> dict[str, Any]:
    row = json.loads(text or "", parse_float=Decimal)
    return {name: _normalize(value) for name, value in row.items()}


def _normalize(value: Any) -> Any:
    """Return a decimal or a time of a text."""
    for read in (Decimal, datetime.fromisoformat):
        with contextlib.suppress(ValueError, ArithmeticError, TypeError):
            found = read(value) if isinstance(value, str) and value[:3] != "NaN" else None
            return value if found is None or "Inf" in value else found
    return value


@pytest.fixture(scope="module")
def shop() -> dict[str, Any]:
    documents = yaml.load_all((EXAMPLE.parent / "pipeline.yaml").read_text(), yaml.CSafeLoader)
    spec: dict[str, Any] = next(each for each in documents if each["kind"] == "Pipeline")["spec"]
    return spec


def _split(records: Sequence[Record], size: int) -> Iterator[Sequence[Record]]:
    yield from (records[at : at + size] for at in range(0, len(records), size))


@pytest.mark.parametrize("size", [1000, pytest.param(5, marks=pytest.mark.chaos)])
def test_joined_tables_end_as_those_of_the_database(
    size: int, shop: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    run = Run(tmp_path, **shop)
    batches = {name: list(_split(load(name), size)) for name in ("customers", "orders", "items")}
    for number in range(max(map(len, batches.values()))):
        run.feed(**{name: parts[number] for name, parts in batches.items() if number < len(parts)})
    customers = {row["id"]: row for row in ROWS["customers"]}
    orders = {row["id"]: row for row in ROWS["orders"]}
    found = {row["id"]: row for row in run.rows("orders")}
    assert found.keys() == orders.keys()
    for order in orders.values():
        row, customer = found[order["id"]], customers.get(order["customer"], {})
        assert (row["note"], row["customer"]) == (order["note"], order["customer"])
        assert (row["name"], row["city"]) == (customer.get("name"), customer.get("city"))
    items = {row["id"]: (row["product"], row["quantity"], row["order_id"]) for row in run.rows("items")}
    assert items == {
        row["id"]: (row["product"], row["quantity"], row["order_id"])
        for row in ROWS["items"]
        if row["order_id"] in orders
    }
    assert run.errors() == []


@pytest.mark.chaos  # five seconds; `make test` has deletions, and truncations without Spark
@pytest.mark.parametrize("size", [1000, 1])
def test_a_table_that_was_truncated_ends_as_that_of_the_database(
    size: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Lookups and joins, with the left and the right table truncated, by what a real Debezium wrote."""
    names = {**COLUMNS, "truncated": "truncated"}
    sources = [
        {**source(name, "id INT, customer INT", names), "topic": f"shop.public.{name}"}
        for name in ("carts", "others")
    ]
    tables = {
        name: {"from": name, "order": "version", "deleted": "deleted", "truncated": "truncated"}
        for name in ("carts", "others")
    }
    join = {
        "left": tables["carts"], "key": ["id"], "right": tables["others"], "foreignKey": {"id": "id"},
        "columns": {"other": "customer"},
    }  # fmt: skip
    sink = {
        "name": "out",
        "from": "joined",
        "kafka": {"topic": "out", "key": ["id"], "tombstones": "deleted"},
    }
    run = Run(tmp_path, sources=sources, views=[{"name": "joined", "tableJoin": join}], sinks=[sink])
    records = load("carts")
    assert any(json.loads(record.value or b"{}").get("op") == "t" for record in records)
    for part in _split(records, size):
        run.feed(carts=part, others=part)
    found = {row["id"]: (row["customer"], row["other"]) for row in run.rows("out")}
    assert found == {4: (1, 1)}
    assert run.errors() == []


@pytest.mark.chaos  # takes ten seconds
def test_a_new_view_starts_from_the_compacted_topic_alone(
    shop: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    def compact(records: Sequence[Record]) -> list[Record]:
        last = {record.key: number for number, record in enumerate(records)}
        return [record for number, record in enumerate(records) if last[record.key] == number]

    run = Run(tmp_path, **shop)
    run.feed(**{name: compact(load(name)) for name in ("customers", "orders", "items")})
    wanted = {row["id"]: row["customer"] for row in ROWS["orders"]}
    assert {row["id"]: row["customer"] for row in run.rows("orders")} == wanted


@pytest.mark.chaos  # ten seconds; `make test` has joins, and such values in one table
def test_a_join_of_a_join_keeps_a_large_value_that_an_update_does_not_have(
    spark: SparkSession, tmp_path: Path
) -> None:
    def write(op: str, lsn: int, note: str) -> Record:
        return event(op, after={"id": 1, "note": note}, source={"lsn": lsn})

    def join(name: str, left: str, right: str) -> dict[str, Any]:
        table = {"order": "version", "deleted": "deleted"}
        columns = {"foreignKey": {"id": "id"}, "columns": {f"{right}_note": "note"}}
        both = {"left": {"from": left, **table}, "key": ["id"], "right": {"from": right, **table}}
        return {"name": name, "tableJoin": {**both, **columns}}

    views = [join("once", "notes", "others"), join("twice", "once", "more")]
    run = Run(
        tmp_path,
        sources=[source(name, "id INT, note STRING") for name in ("notes", "others", "more")],
        views=views,
        sinks=[
            {
                "name": "out",
                "from": "twice",
                "kafka": {"topic": "out", "key": ["id"], "tombstones": "deleted"},
            }
        ],
    )
    run.feed(notes=[write("c", 1, "old")])
    run.feed(notes=[write("u", 2, "new"), write("u", 3, "__debezium_unavailable_value")])
    assert [row["note"] for row in run.rows("out")] == ["new"]


def test_events_beside_their_schema_are_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(
        tmp_path,
        sources=[source("customers", CUSTOMER)],
        sinks=[copy("customers", key=["id"], tombstones="deleted")],
    )
    run.feed(customers=load("customers", "typed"))
    names = {row["id"]: row["name"] for row in run.rows("customers")}
    assert names == {row["id"]: row["name"] for row in ROWS["customers"] if row["id"] != 3}
    assert ("3", None) in {(output.key, output.value) for output in run.run.outputs("customers")}


def test_each_fault_of_an_event_is_a_dead_letter_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    faults = source(
        "faults", "id INT, total DECIMAL(4,2), day DATE, moment TIMESTAMP, tags ARRAY<STRING>", ALL_COLUMNS
    )
    run = Run(tmp_path, sources=[faults], sinks=[copy("faults")])
    run.feed(
        faults=[
            Record(b"", key=b"1"),
            Record(b"[1", key=b"1"),
            Record(b'{"id": 1}', key=b"1"),
            event("x", after={"id": 1}),
            event("t"),
            event("u", before={"id": 1}),
            event("c", after={"id": "one", "total": "???", "day": "soon", "moment": 10**18, "tags": "none"}),
            event("u", before={"id": "one"}, after={"id": 1}),
            Record(None, key=b"not JSON"),
            Record(None, key=None),
            event("u", after={"id": 7, "total": "BOI=", "day": 0, "moment": 0, "tags": ["a"]}),
            Record(None, key=b'{"schema": {}, "payload": {"id": 8}}'),
        ]
    )
    assert [(row["id"], row.get("op"), row["deleted"]) for row in run.rows("faults")] == [
        (7, "u", False),
        (8, None, True),
    ]
    reasons = [
        "value is empty", "value is not a JSON object", "it has no op", "op x", "the table was truncated",
        "without a row: op u", "column id: one is no INT; column total: ??? is no DECIMAL(4,2); column day: soon is no DATE;"
        " column moment: 1000000000000000000 is no TIMESTAMP; column tags: none is no ARRAY<STRING>",
        "column id: one is no INT", "a tombstone whose key", "a tombstone whose key",
    ]  # fmt: skip
    errors = run.errors()
    assert len(errors) == len(reasons)
    for reason, error in zip(reasons, errors, strict=True):
        assert reason in error


def test_decimals_as_text_times_in_other_units_and_positions_of_a_binlog(
    spark: SparkSession, tmp_path: Path
) -> None:
    units = {"nano": "Nanoseconds", "milli": "Milliseconds"}
    columns = {"op": "op", "position": "place", "version": "version", "table": "of"}
    schema = "id DECIMAL(20,2), nano TIMESTAMP, milli TIMESTAMP"
    texts = source("texts", schema, columns, decimals="Text", timestampUnits=units)
    run = Run(tmp_path, sources=[texts], sinks=[copy("texts")])
    place = {"connector": "mysql", "file": "bin.000003", "pos": 5, "server_id": 7, "table": "texts"}
    run.feed(
        texts=[
            event("c", after={"id": "1234", "nano": 1_000_001_999, "milli": -1}, source=place),
            event("c", after={"id": -12.5, "nano": "2026-01-01T00:00:00Z", "milli": None}),
            Record(None, key=b'{"id": "1"}'),
        ]
    )
    rows = run.rows("texts")
    assert [(row["id"], row["nano"], row.get("milli")) for row in rows] == [
        (1234, "1970-01-01T00:00:01.000001Z", "1969-12-31T23:59:59.999000Z"),
        (-12.5, "2026-01-01T00:00:00.000000Z", None),
    ]
    position = (3 << 32) + 5
    version: dict[str, Any] = {
        "server": 7,
        "position": position,
        "snapshot": False,
        "time": None,
        "offset": 0,
        "unavailable": [],
    }
    assert (rows[0]["version"], rows[0]["place"], rows[0]["of"]) == (version, position, "texts")
    assert run.errors() == []


@pytest.mark.parametrize(
    ("schema", "envelope", "message"),
    [
        ("id INT, days ARRAY<DATE>", {}, "column 'days' is ARRAY<DATE>"),
        ("id INT, length INTERVAL DAY TO SECOND", {}, "column 'length' is INTERVAL DAY TO SECOND"),
        ("id INT, op STRING", {}, "differ only in case: op"),
        ("id INT", {"timestampUnits": {"id": "Milliseconds"}}, "timestampUnits names id"),
    ],
)
def test_a_schema_that_events_cannot_have_is_refused(
    schema: str, envelope: dict[str, Any], message: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message.replace("(", r"\(")):
        Run(tmp_path, sources=[source("wrong", schema, **envelope)], sinks=[copy("wrong")])


@pytest.mark.chaos  # `make test` joins tables above, and finds the example valid
def test_timelines_follow_posts_and_followers(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    timelines = EXAMPLE.parents[1] / "timelines" / "pipeline.yaml"
    assert kappa("test", [str(timelines)]) == 0, capsys.readouterr().out


@pytest.mark.chaos  # the tests above have the same events
def test_the_cases_of_the_example_pass(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert kappa("test", [str(EXAMPLE.parent / "pipeline.yaml")]) == 0, capsys.readouterr().out


@pytest.mark.chaos  # the tests above have the same code
def test_recorded_events_run_from_a_folder(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert kappa("run", [str(EXAMPLE.parent / "pipeline.yaml"), "--data", str(EXAMPLE)]) == 0
    assert "Brunswick" in capsys.readouterr().out
