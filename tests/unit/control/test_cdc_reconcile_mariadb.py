"""Positions, values, columns and stored offsets of MariaDB in a proof."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappa_crds.kinds import find_kind
from kappa_operator.cdc.address import DatabaseKind
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.reconcile.canonical import build_reader
from kappa_operator.cdc.reconcile.events import EventReader, Record
from kappa_operator.cdc.reconcile.fold import fold
from kappa_operator.cdc.reconcile.mariadb.offsets import read_position
from kappa_operator.cdc.reconcile.mariadb.position import encode_position, format_position
from kappa_operator.cdc.reconcile.mariadb.queries import TableQueries
from kappa_operator.cdc.reconcile.mariadb.shape import FoundColumn, build_table
from kappa_operator.cdc.reconcile.mariadb.values import format_digits
from kappa_operator.cdc.reconcile.model import Column, Kind, Request, Table
from kappa_operator.cdc.reconcile.snapshot import Snapshot
from kappa_operator.cdcsource.proof_pods import build_proof_request, find_offsets

NAME = TableName("shop", "orders")
REQUEST = Request(NAME, "t.shop.orders")


def found(name: str, kind: str, key: int = -1, **more: Any) -> FoundColumn:
    fields: dict[str, Any] = {"is_required": False, "precision": None, "scale": None, **more}
    return FoundColumn(name, kind.partition("(")[0].partition(" ")[0], kind, key_position=key, **fields)


def test_positions_are_in_the_order_of_files_and_bytes() -> None:
    places = [
        ("b.000009", 99),
        ("b.000010", 4),
        ("b.000010", 5_000_000_000),
        ("b.999999", 1),
        ("b.1000000", 0),
    ]
    numbers = [encode_position(*each) for each in places]
    assert numbers == sorted(numbers)
    assert format_position("b.000010", 4) == "b.000010:4"


@pytest.mark.parametrize("file", ["binlog", "", "binlog.x", "000001", "bin\x1b[2Jlog.000001", "b.000001\n"])
def test_a_file_without_a_number_is_refused(file: str) -> None:
    with pytest.raises(ValueError, match="none of a binary log"):
        encode_position(file, 4)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_digits_give_the_same_number_again(number: float) -> None:
    assert float(format_digits(number)) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.1"), (1e300, "1e300"), (-1.5e-20, "-1.5e-20"), (16777216.0, "16777216"), (1e14, "100000000000000"),
        (1e15, "1e15"), (3133130114214781.5, "3133130114214781.5"), (1e-15, "0.000000000000001"), (1e-16, "1e-16"), (0.0, "0"),
    ],
)  # fmt: skip
def test_digits_are_those_of_the_server(number: float, text: str) -> None:
    """As MariaDB 10.11 writes them; the integration test compares many more."""
    assert format_digits(number) == text


@pytest.mark.parametrize(
    ("kind", "more", "value", "text"),
    [
        (Kind.DAYS, {}, -141349, "-141349"),
        (Kind.DAYS, {}, "1970-01-02", "1"),
        (Kind.MICROS, {"micros": 1000}, 1770091506007, "1770091506007000"),
        (Kind.MICROS, {"micros": 0}, 1770091506007_000_999, "1770091506007000"),
        (Kind.MICROS, {}, "2026-02-03T04:05:06.000007Z", "1770091506000007"),
        (Kind.MICROS, {}, -3020398000001, "-3020398000001"),
        (Kind.SINGLE_DIGITS, {}, 1.1, "1.100000023841858"),
        (Kind.SINGLE_DIGITS, {}, 1234.5670166015625, "1234.5670166015625"),
        (Kind.DOUBLE_DIGITS, {}, 0.1, "0.1"),
        (Kind.JSON, {}, '{"a":[1,2.0,1.0E300],"b":"é"}', '32:{"a": [1, 2.0, 1e300], "b": "é"}'),
        (Kind.JSON, {}, '{"a": 1}', '8:{"a": 1}'),
        (
            Kind.JSON,
            {},
            "[18446744073709551615,18446744073709551616]",
            "45:[18446744073709551615, 1.8446744073709552e19]",
        ),
    ],
)
def test_values_of_events_become_canonical_texts(
    kind: Kind, more: dict[str, Any], value: Any, text: str
) -> None:
    assert build_reader(Column("c", kind, "type", **more))(value) == text


def test_columns_are_compared_by_their_types() -> None:
    columns = [
        found("id", "bigint(20) unsigned", 1), found("total", "decimal(10,2)", scale=2), found("at", "datetime(3)", precision=3),
        found("fine", "datetime(6)", precision=6, is_required=True), found("span", "time", precision=0), found("where", "point"),
    ]  # fmt: skip
    table, notes = build_table(NAME, columns, REQUEST)
    assert [(each.name, each.kind, each.micros) for each in table.columns] == [
        ("id", Kind.PLAIN, 1), ("total", Kind.NUMERIC, 1), ("at", Kind.MICROS, 1000), ("fine", Kind.MICROS, 1), ("span", Kind.MICROS, 1),
    ]  # fmt: skip
    assert [each.name for each in table.key] == ["id"]
    assert notes == ("column where is not compared: type point",)
    assert table.is_searchable


def test_a_table_without_a_primary_key_is_refused() -> None:
    with pytest.raises(DatabaseProblem, match="has no primary key"):
        build_table(NAME, [found("id", "int(11)")], REQUEST)


def test_names_are_quoted_and_their_percent_signs_are_no_places() -> None:
    column = Column("a`%s", Kind.PLAIN, "int(11)")
    queries = TableQueries(Table(TableName("shop", "x`; DROP"), (column,), (column,)))
    text = queries.read_rows(2, shown=True)
    assert "t.`a``%%s` = %s" in text
    assert text.count("%s") == 2 + text.count("%%s")
    assert "`shop`.`x``; DROP`" in text
    assert queries.list_values(["1", "2"], [("1",), ("2",)]) == [1, 2]


def test_an_event_is_in_a_snapshot_if_it_begins_before_its_position() -> None:
    key = Column("id", Kind.PLAIN, "int(11)")
    reader = EventReader(Table(NAME, (key,), (key,)))

    def read(byte: int, op: str = "c") -> Any:
        source = {"name": "shop", "db": "shop", "table": "orders", "file": "binlog.000002", "pos": byte}
        event = {"op": op, "source": source, "after": {"id": 1}}
        version = reader.read(Record(0, byte, b'{"id": 1}', json.dumps(event).encode()))
        assert version is not None
        return version[1]

    snapshot = Snapshot(encode_position("binlog.000002", 500), 0, 0, text="binlog.000002:500")
    state = fold([read(400), read(520)], snapshot)
    assert state.row is not None
    assert [each.offset for each in state.later] == [520]
    assert reader.tables == {"shop.orders"}
    assert reader.latest == encode_position("binlog.000002", 520)
    assert snapshot.name == "binlog.000002:500"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b'["c",{"server":"shop"}]', b'{"file":"b.000001","pos":4}', ("shop", encode_position("b.000001", 4))),
        (b'["c",{"server":"shop"}]', b'{"snapshot":true,"file":"b.000001","pos":4}', None),
        (b'["c",{"server":"shop"}]', None, None),
        (b'["c",{"server":"shop"}]', b'{"lsn":4}', None),
        (b'["c",{"server":7}]', b'{"file":"b.000001","pos":4}', None),
        (b"not JSON", b'{"file":"b.000001","pos":4}', None),
        (b'["c"]', b"[]", None),
        (b'["c",{"server":"shop"}]', b'{"file":"../x","pos":4}', None),
    ],
)  # fmt: skip
def test_only_a_position_of_a_binary_log_is_read_from_offsets(
    key: bytes, value: bytes | None, expected: Any
) -> None:
    assert read_position(key, value) == expected


@pytest.mark.parametrize(
    ("connect", "kind", "topic"),
    [
        ({"workers": {}}, "mariadb", "connect.shop.main.offsets"),
        ({"existing": {"url": "https://connect.example"}}, "mariadb", ""),
        ({"workers": {}}, "postgresql", ""),
    ],
)
def test_a_proof_of_mariadb_knows_where_workers_of_the_operator_store_positions(
    connect: Any, kind: str, topic: str
) -> None:
    metadata = {"name": "main", "namespace": "shop"}
    spec = {"bootstrapServers": ["kafka:9092"], "connect": connect}
    cluster = find_kind("KafkaCluster").parse({"metadata": metadata, "spec": spec})
    server: dict[str, Any] = {"host": "db.example", "credentialsSecretRef": {"name": "login"}}
    server |= {"serverId": 7} if kind == "mariadb" else {"database": "shop"}
    body = {kind: server, "tables": {"include": ["shop.*"]}, "proof": {}}
    source = find_kind("CDCSource").parse({"metadata": metadata, "spec": body})
    request = build_proof_request(source, source.spec.proof, cluster.spec, find_offsets(cluster))
    assert request.offsets == topic
    assert request.kind is (DatabaseKind.MYSQL if kind == "mariadb" else DatabaseKind.POSTGRESQL)
