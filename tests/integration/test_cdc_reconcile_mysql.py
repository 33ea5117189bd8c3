"""`kappa cdc reconcile` with a real MySQL, a real Debezium and a real broker, during writes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
from integration.writers import writing
from kappa_operator.cdc.errors import DatabaseUnreachable
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.reconcile.mariadb.lock import lock_table
from kappa_operator.cdc.reconcile.mariadb.queries import express
from kappa_operator.cdc.reconcile.mariadb.values import format_digits, write_json
from kappa_operator.cdc.reconcile.model import Column, Kind
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.mysql import MySQL
from lab.shell import wait_until

pytestmark = [pytest.mark.clusterless, pytest.mark.chaos]

SCHEMA = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    ORDERS,
    "CREATE TABLE shop.lines (shop CHAR(32), `order %` VARCHAR(60) COLLATE utf8mb4_general_ci, quantity INT, PRIMARY KEY (shop, `order %`))",
    ODD_TABLE.format(own="place POINT"),
    SIGNALS,
)
ODD = build_odd_rows(own="POINT(1, 2)", latest="2038-01-19 03:14:07.499999")


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with (
        Broker() as broker,
        MySQL(sql_mode="", gtid_mode="ON", enforce_gtid_consistency="ON") as database,
        ConnectCluster(
            broker.bootstrap, plugins=("mysql",), **{"value.converter.schemas.enable": "false"}
        ) as workers,
    ):
        shop = Shop(broker, database)
        shop.run(*SCHEMA)
        with database.connect() as connection, connection.cursor() as cursor:
            orders = "INSERT INTO shop.orders VALUES (%s, %s, %s, '2026-01-01' + INTERVAL %s SECOND, %s)"
            cursor.executemany(
                orders, [(key, key % 97, key / 7, key, f"note {key}") for key in range(1, 3001)]
            )
            lines = "INSERT INTO shop.lines VALUES (LEFT(SHA2(%s, 256), 32), %s, %s)"
            cursor.executemany(lines, [(key, f'Ä "{key}|', key) for key in range(1, 501)])
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
    assert (found["verdict"], found["rows"]) == ("equal", 3)


def test_fifty_planted_differences_are_found_and_nothing_else_and_can_be_repaired(shop: Shop) -> None:
    check_planted_differences(shop)


def test_numbers_have_the_digits_of_the_server(shop: Shop) -> None:
    digits = express(Column("n", Kind.DOUBLE_DIGITS, "double"))
    with shop.database.connect() as connection, connection.cursor() as cursor:
        for number in list_numbers():
            cursor.execute(
                f"SELECT {digits}, CAST(JSON_OBJECT('n', n) AS CHAR) FROM (SELECT CAST('{number!r}' AS DOUBLE) AS n) AS t"  # noqa: S608 - a number
            )
            assert cursor.fetchall() == ((format_digits(number), write_json({"n": number})),)


def test_documents_of_every_form_are_equal(shop: Shop) -> None:
    documents = (
        '{"bb": [1, 1.5, 1e300, -0.0, 18446744073709551615, 18446744073709551616], "a": {"": null}, "c": [true, false, {}, []]}',
        r'"\u0001\b\f\n\r\t\u001f\u007f \" \\ / é 🎉"', "12", "1e2", "null", "[]",
    )  # fmt: skip
    shop.run("CREATE TABLE shop.documents (id INT PRIMARY KEY, document JSON)")
    with shop.database.connect() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO shop.documents VALUES (%s, %s)", list(enumerate(documents)))
    wait_until(lambda: shop.count("documents") == len(documents), "the documents are in the topic")
    found = shop.prove("documents", "--show-values")
    assert (found["verdict"], found["rows"], found["differences"]) == ("equal", len(documents), [])


def test_a_transaction_that_stays_open_is_reported(shop: Shop) -> None:
    with shop.database.connect() as connection, connection.cursor() as cursor:
        connection.begin()
        cursor.execute("UPDATE shop.lines SET quantity = quantity + 1 WHERE quantity = 1")
        done = shop.reconcile("lines")
        connection.rollback()
    assert done.returncode == 2
    assert "a transaction that uses it stays open; end it" in done.stderr


@contextmanager
def overlapping(shop: Shop) -> Iterator[None]:
    """Write to `lines` in transactions of which one is open at any time: each waits until another one has begun, if it can."""
    begun: list[int] = []

    def write(number: int, stop: threading.Event) -> None:
        with shop.database.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                connection.begin()
                cursor.execute("UPDATE shop.lines SET quantity = quantity WHERE shop = LEFT(SHA2(%s, 256), 32)", (number + 1,))  # fmt: skip
                begun.append(number)
                before, end = len(begun), time.monotonic() + 0.3
                while len(begun) == before and time.monotonic() < end:
                    time.sleep(0.01)
                connection.commit()

    with writing(write):
        time.sleep(0.5)
        yield


def test_the_lock_is_granted_while_transactions_overlap_all_the_time(shop: Shop) -> None:
    held = "SELECT lock_type FROM performance_schema.metadata_locks WHERE object_schema = 'shop' AND owner_thread_id = (SELECT thread_id FROM performance_schema.threads WHERE processlist_id = %s)"
    with overlapping(shop):
        for _ in range(5):
            with lock_table(shop.address, TableName("shop", "lines")):
                owner = find_owner(shop)
                locks = [kind for (kind,) in shop.database.execute(held, owner)]
                assert "SHARED_NO_WRITE" in locks, locks


def test_without_the_privilege_to_flush_writers_that_overlap_are_reported(shop: Shop) -> None:
    grants = "GRANT SELECT, LOCK TABLES ON shop.* TO prover", "GRANT REPLICATION CLIENT ON *.* TO prover"
    shop.run("DROP USER IF EXISTS prover", "CREATE USER prover", *grants)
    assert shop.reconcile("lines", user="prover").returncode == 0
    with overlapping(shop):
        done = shop.reconcile("lines", user="prover")
    assert done.returncode == 2
    assert "run: GRANT FLUSH_TABLES ON *.* TO its account" in done.stderr
    shop.run("GRANT FLUSH_TABLES ON *.* TO prover")
    with overlapping(shop):
        assert shop.reconcile("lines", user="prover").returncode == 0


def find_owner(shop: Shop) -> int:
    """Return the connection that locks `lines` for reading."""
    find = "SELECT processlist_id FROM performance_schema.metadata_locks JOIN performance_schema.threads ON thread_id = owner_thread_id WHERE object_name = 'lines' AND lock_type IN ('SHARED_READ_ONLY', 'SHARED_NO_WRITE')"
    ((owner,),) = shop.database.execute(find)
    return int(owner)


def test_a_lock_that_was_lost_does_not_count(shop: Shop) -> None:
    with (
        pytest.raises(DatabaseUnreachable, match="the connection was lost"),
        lock_table(shop.address, TableName("shop", "lines")),
    ):
        shop.database.execute("KILL %s", find_owner(shop))


@pytest.mark.parametrize(
    ("grants", "missing"),
    [
        ((), "LOCK TABLES ON `shop`.*"),
        (("GRANT LOCK TABLES ON shop.* TO prover",), "REPLICATION CLIENT ON *.*"),
    ],
)
def test_a_missing_privilege_is_named(shop: Shop, grants: tuple[str, ...], missing: str) -> None:
    shop.run("DROP USER IF EXISTS prover", "CREATE USER prover", "GRANT SELECT ON shop.* TO prover", *grants)
    done = shop.reconcile("lines", user="prover")
    assert done.returncode == 2
    assert f"run: GRANT {missing} TO" in done.stderr
