"""`kappa cdc reconcile` with a real MariaDB, a real Debezium and a real broker, during writes."""

from collections.abc import Iterator

import pytest

from integration.proofs import (
    ODD_TABLE,
    ORDERS,
    SIGNALS,
    Shop,
    build_odd_rows,
    check_concurrent_writes,
    check_key_of_text,
    check_planted_differences,
    list_numbers,
    start,
)
from kappa_operator.cdc.reconcile.mariadb.queries import express
from kappa_operator.cdc.reconcile.mariadb.values import format_digits
from kappa_operator.cdc.reconcile.model import Column, Kind
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.mariadb import MariaDB
from lab.shell import wait_until

pytestmark = [pytest.mark.clusterless, pytest.mark.chaos]

SCHEMA = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "USE shop",
    ORDERS,
    "CREATE TABLE shop.lines (shop UUID, `order %` VARCHAR(60) COLLATE utf8mb4_general_ci, quantity INT, PRIMARY KEY (shop, `order %`))",
    ODD_TABLE.format(own="uuid UUID"),
    SIGNALS,
    "INSERT INTO shop.orders SELECT seq, seq % 97, seq / 7, '2026-01-01' + INTERVAL seq SECOND, CONCAT('note ', seq) FROM seq_1_to_3000",
    "INSERT INTO shop.lines SELECT MD5(seq), CONCAT('Ä \"', seq, '|'), seq FROM seq_1_to_500",
)
ODD = build_odd_rows(own="'00000000-0000-0000-0000-000000000001'", latest="2038-01-19 03:14:07.999999")


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with (
        Broker() as broker,
        MariaDB(sql_mode="") as database,
        ConnectCluster(broker.bootstrap, **{"value.converter.schemas.enable": "false"}) as workers,
    ):
        shop = Shop(broker, database)
        shop.run(*SCHEMA)
        shop.insert_odd(ODD[0])
        start(shop, workers)
        yield shop


def test_a_table_with_concurrent_writes_is_equal(shop: Shop) -> None:
    check_concurrent_writes(shop)


def test_a_key_of_text_in_any_case_is_equal(shop: Shop) -> None:
    check_key_of_text(shop)


def test_odd_types_are_equal_in_snapshots_and_changes(shop: Shop) -> None:
    for row in ODD[1:]:
        shop.insert_odd(row)
    shop.run("UPDATE shop.odd SET small = 3 WHERE id = 1")
    found = shop.prove("odd", "--show-values")
    assert found["differences"] == []
    assert (found["verdict"], found["rows"], found["notes"]) == ("equal", 3, [])


def test_values_that_debezium_alters_are_found(shop: Shop) -> None:
    """The year 0, and unsigned numbers from 2^63."""
    shop.insert_odd(ODD[0].replace("(1, ", "(4, ").replace("9223372036854775807", "18446744073709551615"))
    shop.run("INSERT INTO shop.odd (id, named, needed, year) VALUES (5, '2020-01-01', '2020-01-01', 0)")
    found = shop.prove("odd")
    assert [(each["key"], each["columns"]) for each in found["differences"]] == [
        (["4"], ["huge"]),
        (["5"], ["year"]),
    ]
    assert shop.prove("odd", "--ignore-column", "huge", "--ignore-column", "year")["verdict"] == "equal"


def test_numbers_have_the_digits_of_the_server(shop: Shop) -> None:
    digits = express(Column("n", Kind.DOUBLE_DIGITS, "double"))
    with shop.database.connect() as connection, connection.cursor() as cursor:
        for number in list_numbers():
            cursor.execute(f"SELECT {digits} FROM (SELECT CAST('{number!r}' AS DOUBLE) AS n) AS t")  # noqa: S608 - a number
            assert cursor.fetchall() == ((format_digits(number),),)


def test_fifty_planted_differences_are_found_and_nothing_else_and_can_be_repaired(shop: Shop) -> None:
    check_planted_differences(shop)


def test_the_signal_of_a_key_that_must_be_quoted_repairs_its_row(shop: Shop) -> None:
    shop.run("INSERT INTO shop.lines VALUES (MD5(0), 'it''s \\\\ 100%', 0)")
    shop.prove("lines")
    shop.run_unlogged("UPDATE shop.lines SET quantity = 77 WHERE quantity = 0")
    (found,) = shop.prove("lines", "--signal-table", "shop.signals", "--repair")["differences"]
    assert (found["key"][1], found["columns"]) == ("it's \\ 100%", ["quantity"])
    wait_until(
        lambda: shop.prove("lines")["verdict"] == "equal", "the row was read again", seconds=120, every=2
    )


def test_without_later_changes_the_stored_position_decides(shop: Shop) -> None:
    """Nothing writes: a difference counts once Kafka Connect has stored a position from behind it, and stays undecided without that topic."""
    shop.run("CREATE TABLE shop.idle (id INT PRIMARY KEY)", "INSERT INTO shop.idle VALUES (1), (2)")
    wait_until(lambda: shop.count("idle") == 2, "the rows are in the topic", seconds=60)
    shop.run_unlogged("DELETE FROM shop.idle WHERE id = 2")
    done = shop.reconcile("idle", "-o", "json", "--wait", "3s")
    assert done.returncode == 4, done.stdout
    assert "--offsets-topic" in done.stdout
    found = shop.prove("idle")
    assert [(each["kind"], each["key"]) for each in found["differences"]] == [("only-in-topic", ["2"])]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE shop.bare (id INT)", "has no primary key"),
        ("CREATE TABLE shop.bare (id INT PRIMARY KEY) ENGINE = MyISAM", "MyISAM, which has no snapshots"),
        ("CREATE VIEW shop.bare AS SELECT 1 AS id", "is not an ordinary table"),
        ("SELECT 1", "there is no table shop.bare"),
    ],
)
def test_a_table_that_cannot_be_compared_is_refused(shop: Shop, statement: str, message: str) -> None:
    shop.run("DROP VIEW IF EXISTS shop.bare", "DROP TABLE IF EXISTS shop.bare", statement)
    done = shop.reconcile("bare")
    assert done.returncode == 2
    assert message in done.stderr
