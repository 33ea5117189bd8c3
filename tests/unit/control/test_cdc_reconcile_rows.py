"""Events as rows, files of versions, comparison of rows, signals, settings and the screen of `kappa cdc reconcile`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.quoting import POSTGRESQL
from kappa_operator.cdc.reconcile.buckets import GROUPS, find_bucket, find_group
from kappa_operator.cdc.reconcile.canonical import (
    LONG,
    UNAVAILABLE,
    RowReader,
    build_reader,
    hash_fields,
    hash_text,
    split_key,
)
from kappa_operator.cdc.reconcile.compare import find_candidates, find_differing, judge_row, sum_states
from kappa_operator.cdc.reconcile.events import Change, EventReader, Record, Version
from kappa_operator.cdc.reconcile.fold import State, fold
from kappa_operator.cdc.reconcile.model import (
    Column,
    Difference,
    DifferenceKind,
    Kind,
    Proof,
    Request,
    Table,
    Verdict,
    format_lsn,
    parse_lsn,
)
from kappa_operator.cdc.reconcile.repair import build_signals
from kappa_operator.cdc.reconcile.settings import parse_settings
from kappa_operator.cdc.reconcile.shape import FoundColumn, build_table
from kappa_operator.cdc.reconcile.snapshot import Snapshot
from kappa_operator.cdc.reconcile.spill import Spill
from kappa_operator.cli.cdc_reconcile_view import build_reconcile_view
from lab.paths import REPOSITORY

NAME = TableName("public", "orders")
ID, TEXT = Column("id", Kind.PLAIN, "integer"), Column("name", Kind.TEXT, "text")
TABLE = Table(NAME, (ID, TEXT), (ID,))
SNAPSHOT = Snapshot(1000, 50, 60)


def column(kind: Kind, **more: Any) -> Column:
    return Column("c", kind, "type", **more)


@pytest.mark.parametrize(
    ("shape", "value", "text"),
    [
        (column(Kind.PLAIN), -7, "-7"),
        (column(Kind.TEXT), "a|b", "3:a|b"),
        (column(Kind.TEXT), "x" * LONG, "#" + hash_text("x" * LONG).hex()),
        (column(Kind.TEXT), "__debezium_unavailable_value", UNAVAILABLE),
        (column(Kind.PADDED), "ab   ", "2:ab"),
        (column(Kind.BOOLEAN), False, "f"),
        (column(Kind.NUMERIC, scale=2), "BNI=", "12.34"),
        (column(Kind.NUMERIC, scale=2), "+w==", "-0.05"),
        (column(Kind.NUMERIC, scale=2), "BOI=", "12.5"),
        (column(Kind.NUMERIC, scale=2), "ZA==", "1"),
        (column(Kind.NUMERIC, scale=-2), "AQ==", "100"),
        (column(Kind.NUMERIC), {"scale": 1, "value": "Dw=="}, "1.5"),
        (column(Kind.NUMERIC, scale=2, is_text=True), "1234", "1234"),
        (column(Kind.NUMERIC, scale=2, is_text=True), "12.50", "12.5"),
        (column(Kind.NUMERIC, scale=2, is_text=True), 0.1, "0.1"),
        (column(Kind.REAL), 1.1, "3f8ccccd"),
        (column(Kind.DOUBLE), "NaN", "7ff8000000000000"),
        (column(Kind.DATE), 10957, "00000000"),
        (column(Kind.DATE), "2000-01-02", "00000001"),
        (column(Kind.TIMESTAMP, micros=1000), 946684800001, "00000000000003e8"),
        (column(Kind.TIMESTAMP, micros=0), 946684800000001999, "0000000000000001"),
        (column(Kind.INSTANT), "2000-01-01T01:00:00.000001+01:00", "0000000000000001"),
        (column(Kind.INSTANT), "infinity", "7fffffffffffffff"),
        (column(Kind.TIME), 86400000000, "000000141dd76000"),
        (column(Kind.BYTES), "AP8Q", "00ff10"),
        (column(Kind.BITS), "AQI=", "1000000001"),
        (column(Kind.BITS), "", ""),
        (column(Kind.BITS), True, "1"),
        (column(Kind.TEXT, is_array=True), ["a", None, 'b"'], '20:["1:a",null,"2:b\\""]'),
        (column(Kind.PLAIN, is_array=True), [[1, 2], [3]], '13:["1","2","3"]'),
        (column(Kind.TEXT, is_array=True), ["__debezium_unavailable_value"], UNAVAILABLE),
        (column(Kind.PLAIN, is_array=True), list(b"__debezium_unavailable_value"), UNAVAILABLE),
    ],
)  # fmt: skip
def test_a_value_has_a_canonical_text(shape: Column, value: object, text: str) -> None:
    assert build_reader(shape)(value) == text


def test_a_value_of_an_unexpected_form_is_a_field_that_no_row_has() -> None:
    assert RowReader([ID, column(Kind.BYTES)]).read({"id": 1, "c": "no base64!"})[1].startswith("?")
    assert RowReader([ID, column(Kind.DATE)]).read({"id": "1|2", "c": 10957}) == [
        "?" + hash_text('"1|2"').hex(),
        "00000000",
    ]


def test_a_missing_column_is_null() -> None:
    assert RowReader([ID, TEXT]).read({"id": 1}) == ["1", ""]


@given(st.lists(st.tuples(st.text(), st.integers()), min_size=1, max_size=4))
def test_the_parts_of_a_key_are_read_back(parts: list[tuple[str, int]]) -> None:
    columns = [
        Column(f"c{n}", Kind.TEXT if n % 2 == 0 else Kind.PLAIN, "text") for n in range(2 * len(parts))
    ]
    values = [value for part in parts for value in part]
    row = {each.name: value for each, value in zip(columns, values, strict=True)}
    joined = "|".join(RowReader(columns, is_key=True).read(row))
    assert split_key(joined, columns) == tuple(map(str, values))


def read_recorded() -> list[Record]:
    path = REPOSITORY / "pipelines/examples/orders/data/shop.public.customers.records.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    encode = [(line["key"].encode(), line["value"] and line["value"].encode()) for line in lines]
    return [Record(0, offset, key, value) for offset, (key, value) in enumerate(encode)]


CUSTOMERS = Table(
    TableName("public", "customers"),
    (ID, TEXT, Column("city", Kind.TEXT, "text"), Column("joined", Kind.DATE, "date")),
    (ID,),
)


def test_recorded_events_of_a_session_give_the_rows_of_its_database() -> None:
    """The connector was killed in it, and a snapshot was taken meanwhile."""
    events = EventReader(CUSTOMERS)
    versions: dict[str, list[Version]] = {}
    for record in read_recorded():
        found = events.read(record)
        assert found is not None
        versions.setdefault(found[0], []).append(found[1])
    states = {key: fold(each, Snapshot(10**9, 10**6, 10**6)) for key, each in versions.items()}
    rows = json.loads((REPOSITORY / "tests/recorded/rows.json").read_text())["customers"]
    for row in rows:
        row["joined"] = row["joined"] and f"{row['joined']}"
    reader = RowReader(CUSTOMERS.columns)
    expected = {str(row["id"]): hash_fields(reader.read(row)) for row in rows}
    assert {key: each.row.checksum for key, each in states.items() if each.row} == expected
    assert events.latest == 22325760
    assert (events.server, events.unreadable, events.wrong_keys) == ("shop", 0, 0)


@pytest.mark.parametrize(
    ("key", "value", "counts"),
    [
        (b'{"id": 1}', b"no JSON", (1, 0, 0)),
        (b'{"id": 1}', b'{"op": "c"}', (1, 0, 0)),
        (b'{"id": 1}', b"[" * 100_000, (1, 0, 0)),
        (b'{"other": 1}', None, (0, 1, 0)),
        (None, b'{"op": "t", "source": {}}', (0, 0, 1)),
        (None, b'{"op": "c", "source": {"name": "x"}, "after": {"id": 1}}', (0, 1, 0)),
    ],
)
def test_a_record_that_is_no_version_of_a_row_is_counted(
    key: bytes | None, value: bytes | None, counts: tuple[int, int, int]
) -> None:
    events = EventReader(TABLE)
    assert events.read(Record(0, 0, key, value)) is None
    assert (events.unreadable, events.wrong_keys, events.truncations) == counts


def test_versions_are_read_from_files_as_they_were_added(tmp_path: Path) -> None:
    first = Version(Change.ROW, 5, 7, 1, 9, bytes(16), ("1", UNAVAILABLE))
    others = [Version(Change.TOMBSTONE, None, None, 0, n, bytes(16)) for n in range(3000)]
    group = find_group(find_bucket(hash_text("key")))
    with Spill(str(tmp_path)) as spill:
        for each in (first, *others):
            spill.add("key", hash_text("key"), each)
        assert [*spill.read(group)] == [("key", each) for each in (first, *others)]
        assert [*spill.read((group + 1) % GROUPS)] == []
    assert [*tmp_path.iterdir()] == []


def row_version(checksum: bytes, **more: Any) -> Version:
    return Version(Change.ROW, 10, 1, 0, 0, checksum)._replace(**more)


def build_state(*versions: Version) -> State:
    return fold(versions, SNAPSHOT)


@given(st.dictionaries(st.text(max_size=3), st.binary(min_size=16, max_size=16)), st.data())
def test_only_keys_that_differ_are_candidates(rows: dict[str, bytes], data: st.DataObject) -> None:
    wrong = set(data.draw(st.lists(st.sampled_from([*rows, "new"]))))
    topic = {key: bytes(16) if key in wrong else value for key, value in rows.items()} | (
        {"new": bytes(16)} if "new" in wrong else {}
    )
    differing = {key for key in {*rows, *topic} if rows.get(key) != topic.get(key)}
    states = {key: build_state(row_version(value)) for key, value in topic.items()}
    stored = {key: build_state(row_version(value)) for key, value in rows.items()}
    buckets = find_differing(sum_states(stored)[0], sum_states(states)[0])
    assert buckets == {find_bucket(hash_text(key)) for key in differing}
    assert find_candidates(states, rows).keys() == differing


FIELDS = ["1", "3:new"]
SAME = row_version(hash_fields(FIELDS))
OTHER = row_version(hash_fields(["1", "3:old"]))
LATER = row_version(bytes(16), position=2000)


@pytest.mark.parametrize(
    ("versions", "fields", "topic_fields", "expected"),
    [
        ([SAME], FIELDS, None, (None, (), True)),
        ([SAME, LATER], FIELDS, None, (None, (), True)),
        ([OTHER], FIELDS, ["1", "3:old"], (DifferenceKind.CHANGED, ("name",), True)),
        ([OTHER], FIELDS, None, (DifferenceKind.CHANGED, (), True)),
        ([OTHER, LATER], FIELDS, ["1", "3:old"], (None, (), False)),
        ([], FIELDS, None, (DifferenceKind.ONLY_IN_DATABASE, (), True)),
        ([LATER], FIELDS, None, (None, (), False)),
        ([OTHER], None, None, (DifferenceKind.ONLY_IN_TOPIC, (), True)),
        ([SAME, SAME._replace(partition=1)], FIELDS, None, (DifferenceKind.DUPLICATE, (), True)),
        ([OTHER._replace(fields=("1", UNAVAILABLE))], FIELDS, None, (None, (), False)),
        ([OTHER._replace(fields=("2", UNAVAILABLE))], FIELDS, None, (DifferenceKind.CHANGED, ("id",), True)),
    ],
)
def test_a_row_is_judged(
    versions: list[Version], fields: list[str] | None, topic_fields: list[str] | None, expected: object
) -> None:
    verdict = judge_row(TABLE, build_state(*versions), fields, topic_fields)
    assert (verdict.kind, verdict.columns, verdict.is_decided) == expected


def differ(kind: DifferenceKind, *key: str) -> Difference:
    return Difference(kind, key, "0/1")


def test_signals_name_exactly_the_rows_that_a_snapshot_repairs() -> None:
    table = Table(NAME, (ID, TEXT), (ID, TEXT))
    found = [
        differ(DifferenceKind.CHANGED, "1", "it's"),
        differ(DifferenceKind.ONLY_IN_TOPIC, "2", "x"),
        differ(DifferenceKind.ONLY_IN_DATABASE, "3", "y"),
    ]
    (signal,) = build_signals(table, found, "proof", POSTGRESQL)
    assert json.loads(signal.data) == {
        "data-collections": [r"public\.orders"],
        "type": "incremental",
        "additional-conditions": [
            {
                "data-collection": r"public\.orders",
                "filter": """("id", "name") IN (('1', 'it''s'), ('3', 'y'))""",
            }
        ],
    }
    statement = signal.build_statement(TableName("public", "signals"), POSTGRESQL)
    assert statement.startswith(
        """INSERT INTO "public"."signals" VALUES ('proof-1', 'execute-snapshot', E'{"""
    )


def test_a_signal_fits_into_the_column_of_a_signal_table() -> None:
    many = [differ(DifferenceKind.CHANGED, str(n)) for n in range(1000)]
    signals = build_signals(TABLE, many, "proof", POSTGRESQL)
    assert max(len(each.data) for each in signals) <= 2000
    assert len({each.id for each in signals}) == len(signals)
    assert sum(each.data.count("('") for each in signals) == 1000


def test_a_key_that_cannot_be_a_literal_repeats_the_snapshot_of_the_table() -> None:
    table = Table(NAME, (ID,), (Column("at", Kind.INSTANT, "timestamptz"),))
    (signal,) = build_signals(table, [differ(DifferenceKind.CHANGED, "0000")], "proof", POSTGRESQL)
    assert "additional-conditions" not in signal.data


def found(name: str, type_name: str = "int4", **more: Any) -> FoundColumn:
    column = FoundColumn(
        name, type_name, type_name, "b", is_array=False, is_generated=False, modifier=-1, key_position=-1
    )
    return replace(column, **more)


def test_the_shape_of_a_table_follows_its_catalog() -> None:
    columns = [
        found("b", key_position=1),
        found("a", key_position=0),
        found("total", "numeric", modifier=(10 << 16 | 2) + 4),
        found("round", "numeric", modifier=(5 << 16 | (-3 & 0x7FF)) + 4),
        found("at", "timestamp", modifier=3),
        found("exact", "timestamp"),
        found("twice", is_generated=True),
        found("pair", "pair", type_kind="c"),
        found("secret", "text"),
    ]
    table, notes = build_table(NAME, columns, Request(NAME, "t", ignored=frozenset({"secret"})))
    assert [each.name for each in table.key] == ["a", "b"]
    compared = {each.name: each for each in table.columns}
    assert (compared["total"].scale, compared["round"].scale) == (2, -3)
    assert (compared["at"].micros, compared["exact"].micros) == (1000, 1)
    assert [each.split(":")[0] for each in notes] == [
        f"column {name} is not compared" for name in ("twice", "pair", "secret")
    ]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(NAME, "t"), "no primary key"),
        (Request(NAME, "t", key=("none",)), "has no column none"),
        (Request(NAME, "t", key=("a",), ignored=frozenset({"a"})), "column a of the key"),
        (Request(NAME, "t", key=("a",), ignored=frozenset({"none"})), "has no column none"),
    ],
)
def test_a_table_that_cannot_be_compared_is_refused(request_: Request, message: str) -> None:
    with pytest.raises(DatabaseProblem, match=message):
        build_table(NAME, [found("a")], request_)


def test_settings_of_kafka_are_those_of_a_connection() -> None:
    text = "# a comment\n\nsecurity.protocol = sasl_ssl\nsasl.password=a=b\n"
    assert parse_settings(text) == {"security.protocol": "sasl_ssl", "sasl.password": "a=b"}
    with pytest.raises(ValueError, match=r"line 1: 'plugin\.library\.paths' is no setting"):
        parse_settings("plugin.library.paths=/tmp/secret")
    with pytest.raises(ValueError, match="line 2 is not NAME=VALUE"):
        parse_settings("\nsecret")


def test_a_position_is_written_as_the_database_does() -> None:
    assert format_lsn(parse_lsn("16/B374D848")) == "16/B374D848"


def build_proof(**more: Any) -> Proof:
    return Proof(NAME, "shop.public.orders", "16/B374D848", "2026-01-01T00:00:00Z", 3, 5, **more)


def test_the_verdict_follows_what_was_found() -> None:
    assert build_proof().verdict is Verdict.EQUAL
    assert build_proof(undecided_count=1).verdict is Verdict.UNDECIDED
    assert build_proof(undecided_count=1, counts={"changed": 1}).verdict is Verdict.DIFFERENT


def test_the_screen_lists_differences_and_cannot_be_steered() -> None:
    changed = Difference(
        DifferenceKind.CHANGED, ("1\x1b[2J",), "0/1", ("name",), {"name": ("\x1b]0;x", None)}
    )
    proof = build_proof(
        differences=(changed, differ(DifferenceKind.ONLY_IN_TOPIC, "2")),
        counts={"changed": 1, "only-in-topic": 2},
        undecided=(("9",),),
        undecided_count=1,
        notes=("a \x07 note",),
        later=4,
    )
    view = build_reconcile_view(proof, ["INSERT …;"], is_written=False).plain
    assert "\x1b" not in view
    assert "\x07" not in view
    assert view.splitlines() == [
        "changed (1\\u001b[2J): name",
        "    name: '\\x1b]0;x' in the database, NULL in the topic",
        "only-in-topic (2)",
        "1 more differences",
        "undecided (9)",
        "1 changed, 2 only-in-topic",
        "Repair by incremental snapshots:",
        "    INSERT …;",
        view.splitlines()[8],
        "note: a \\u0007 note",
        "The table and the topic differ: 3 rows of public.orders and 5 records of shop.public.orders, at position 16/B374D848 of the log"
        " (2026-01-01T00:00:00Z); 4 rows changed meanwhile and were equal at later ones.",
    ]
    assert "a tombstone" in view.splitlines()[8]
