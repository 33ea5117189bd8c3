"""What a proof of tables answers: counts, and the first keys, within the bytes of a termination message."""

from pathlib import Path
from typing import Any

import pytest

from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.proof import (
    MOST_BYTES,
    Compared,
    build_request,
    choose_tables,
    name_topic,
    summarize,
)
from kappa_operator.cdc.proof_work import KafkaServers, ProofRequest, TableKey
from kappa_operator.cdc.prover import build_settings
from kappa_operator.cdc.reconcile.model import Difference, DifferenceKind, Proof, Request
from kappa_operator.cdc.reconcile.shape import FoundColumn, build_table

ORDERS = TableName("public", "orders")


def request(**fields: Any) -> ProofRequest:
    known = {
        "host": "db", "port": 5432, "database": "shop", "tls": False, "publication": "p", "slot": "s", "prefix": "shop",
        "include": ("public.*",), "wait": 60.0, "seconds": 600.0, "kafka": KafkaServers(bootstrap=("a:1", "b:2"), protocol="plaintext"),
    }  # fmt: skip
    return ProofRequest.model_validate({**known, **fields})


def proof(table: TableName = ORDERS, position: str = "0/64", **fields: Any) -> Proof:
    return Proof(table, "t", position, "2026-01-01T00:00:00Z", rows=10, records=20, **fields)


def differ(*keys: str, columns: tuple[str, ...] = ()) -> dict[str, Any]:
    found = tuple(Difference(DifferenceKind.CHANGED, (key,), "0/64", columns) for key in keys)
    return {"differences": found, "counts": {"changed": len(keys)}}


def test_the_position_of_the_first_table_counts() -> None:
    other = TableName("public", "items")
    result = summarize([Compared(ORDERS, proof(position="0/5")), Compared(other, proof(other, "0/10"))], 1.26)
    assert (result.tables, result.equal, result.rows, result.position, result.seconds) == (
        2,
        2,
        20,
        "0/5",
        1.3,
    )
    assert result.is_equal


def test_rows_are_named_by_their_keys_and_never_by_values() -> None:
    result = summarize([Compared(ORDERS, proof(**differ("17", "18", "19", "20", columns=("total",))))], 1)
    (finding,) = result.findings
    assert (finding.differing, len(finding.first), finding.first[0]) == (4, 3, "changed (17): total")
    assert not result.is_equal


def test_a_hostile_key_is_cut_and_cannot_steer_a_terminal() -> None:
    result = summarize([Compared(ORDERS, proof(**differ("\x1b[2J" + "x" * 10_000)))], 1)
    assert len(result.findings[0].first[0]) < 100
    assert "\x1b" not in result.findings[0].first[0]


def test_notes_about_columns_explain_no_row() -> None:
    notes = ("column email is not compared: ignored", "the connector is behind")
    (finding,) = summarize([Compared(ORDERS, proof(undecided_count=2, notes=notes))], 1).findings
    assert (finding.undecided, finding.message) == (2, "the connector is behind")


def test_tables_with_differences_come_first_and_the_answer_fits() -> None:
    tables = [TableName("public", f"table_{number:03}") for number in range(200)]
    compared = [Compared(each, problem="there is no table " + "x" * 200) for each in tables[:-1]]
    result = summarize([*compared, Compared(tables[-1], proof(tables[-1], **differ("1")))], 1)
    assert (result.tables, result.equal, result.differing) == (200, 0, 1)
    assert result.findings[0].table == "public.table_199"
    assert len(result.model_dump_json(exclude_none=True).encode()) <= MOST_BYTES


def test_where_nothing_could_be_compared_there_is_a_problem() -> None:
    result = summarize([Compared(ORDERS, problem="db:5432/shop: nothing listens at this address")], 1)
    assert result.problem == "db:5432/shop: nothing listens at this address"


@pytest.mark.parametrize(
    ("only", "exclude", "wanted"),
    [
        ((), (), ["public.a", "public.outbox", "sales.b"]),
        ((), ("outbox",), ["public.a", "sales.b"]),
        (("sales.*",), (), ["sales.b"]),
    ],
    ids=["all", "without the outbox", "some"],
)
def test_tables_are_chosen(only: tuple[str, ...], exclude: tuple[str, ...], wanted: list[str]) -> None:
    names = [TableName("sales", "b"), TableName("public", "outbox"), TableName("public", "a")]
    assert list(map(str, choose_tables(names, request(only=only, exclude=exclude)))) == wanted


def test_a_topic_has_the_name_that_debezium_gives_it() -> None:
    assert name_topic("shop", TableName("public", "orders$new#1")) == "shop.public.orders_new_1"


def test_a_table_is_compared_as_the_connector_writes_it() -> None:
    keys = (TableKey(table="log", columns=("at",)),)
    found = build_request(
        request(keys=keys, altered=("*.log.line",), decimals="string"), TableName("public", "log")
    )
    assert (found.topic, found.key, found.omitted, found.decimals) == ("shop.public.log", ("at",), ("*.log.line",), "string")  # fmt: skip


def test_columns_that_the_connector_alters_are_not_compared_whatever_their_case() -> None:
    columns = [FoundColumn(name, "text", "text", "b", is_array=False, is_generated=False, modifier=-1, key_position=-1) for name in ("Phone", "name")]  # fmt: skip
    key = FoundColumn("id", "integer", "int4", "b", is_array=False, is_generated=False, modifier=-1, key_position=0)  # fmt: skip
    table, notes = build_table(ORDERS, [key, *columns], Request(ORDERS, "t", omitted=("public.orders.phone", "*.none.at_all")))  # fmt: skip
    assert [each.name for each in table.columns] == ["id", "name"]
    assert notes == ("column Phone is not compared: ignored",)


def test_log_ins_to_kafka_are_read_from_files(tmp_path: Path) -> None:
    for name, text in {"ca.crt": "PEM", "username": "reader\n", "password": "hush\n"}.items():
        (tmp_path / name).write_text(text)
    kafka = KafkaServers(bootstrap=("a:1", "b:2"), protocol="sasl_ssl", mechanism="SCRAM-SHA-512", verify_hostname=False)  # fmt: skip
    assert build_settings(request(kafka=kafka), tmp_path) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "sasl_ssl",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.ca.location": str(tmp_path / "ca.crt"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "reader",
        "sasl.password": "hush",
    }
