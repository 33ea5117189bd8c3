"""`kappa cdc reconcile` with a real MySQL, a real Debezium and a real broker, during writes."""

import random
import time
from collections.abc import Iterator

import pytest

from integration.proofs import OFFSETS, ORDERS, SIGNALS, Shop, plant, start, writes
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
    """CREATE TABLE shop.odd (
        id INT PRIMARY KEY, flag BOOLEAN, tiny TINYINT UNSIGNED, small SMALLINT, medium MEDIUMINT UNSIGNED, filled INT(8) ZEROFILL, big BIGINT,
        huge BIGINT UNSIGNED, single FLOAT, fixed FLOAT(7, 3), `double` DOUBLE, exact DECIMAL(38, 10), whole DECIMAL(8, 0),
        padded DECIMAL(6, 2) UNSIGNED ZEROFILL, bit BIT(1), bits BIT(9), word BIT(64), day DATE, named DATE NOT NULL, clock DATETIME,
        milli DATETIME(3), micro DATETIME(6), needed DATETIME NOT NULL, moment TIMESTAMP NULL, fine TIMESTAMP(6) NULL,
        stamped TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00', span TIME, spans TIME(6), year YEAR, char8 CHAR(8),
        latin CHAR(8) CHARACTER SET latin1, short VARCHAR(20), note TEXT, long_note LONGTEXT CHARACTER SET utf8mb4, bytes6 BINARY(6),
        bytes9 VARBINARY(9), blob_ BLOB, size ENUM('a', 'b|c'), sizes SET('x', 'y', 'z'), document JSON, place POINT,
        twice INT GENERATED ALWAYS AS (id * 2) STORED, thrice INT GENERATED ALWAYS AS (id * 3) VIRTUAL)""",
    SIGNALS,
)
ODD = (
    """(1, true, 200, -3, 16000000, 42, -9223372036854775808, 9223372036854775807, 1.1, 1234.567, 0.1,
    1234567890123456789012345678.0123456789, 1234, 12.50, b'1', b'100000001', 0x8000000000000001, '2026-02-03', '1583-01-01',
    '2026-02-03 04:05:06', '2026-02-03 04:05:06.007', '2026-02-03 04:05:06.000007', '1000-01-01', '2026-02-03 04:05:06',
    '2026-02-03 04:05:06.000007', '2026-02-03 04:05:06', '01:02:03', '-838:59:58.000001', 2026, 'ab ', 'é', 'x|y', 'Ä "\\\\n', 'é\U0001f389',
    0x00ff10, 0x00ff00, 0x0102, 'b|c', 'x,z', '{"a" : 1}', POINT(1, 2))""",
    """(2, false, 0, 0, 0, 0, 0, 0, 16777216, 0, 1e300, -0.0000000001, -99, 0, b'0', b'0', b'0', '0000-00-00', '0000-00-00', '0000-00-00',
    '0000-00-00', '9999-12-31 23:59:59.999999', '0000-00-00', '0000-00-00', '2038-01-19 03:14:07.499999', '0000-00-00', '838:59:59',
    '00:00:00.5', 1901, '', '', '', '', '', '', '', '', 'a', '', 'null', NULL)""",
    """(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, -1.5e-20, NULL, 1e-7, NULL, NULL, NULL, NULL, NULL, NULL, '2020-00-00', '2020-01-00',
    '2020-00-05', NULL, NULL, '2020-00-00 01:02:03', NULL, NULL, '2026-01-01', NULL, '-00:00:00.5', 2155, NULL, NULL, NULL,
    repeat('w', 600), NULL, NULL, NULL, repeat('a', 700), NULL, NULL, NULL, NULL)""",
)  # fmt: skip


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
    with writes(shop):
        time.sleep(2)
        found = shop.prove("orders")
    assert found["verdict"] == "equal", found
    assert found["rows"] > 2000
    assert found["records"] > 3000
    assert found["position"].startswith("binlog.0")


def test_a_key_of_text_in_any_case_is_equal(shop: Shop) -> None:
    found = shop.prove("lines")
    assert (found["verdict"], found["rows"]) == ("equal", 500), found


def test_odd_types_are_equal_in_snapshots_and_changes(shop: Shop) -> None:
    for row in ODD[1:]:
        shop.insert_odd(row)
    shop.run("UPDATE shop.odd SET small = 3 WHERE id = 1")
    found = shop.prove("odd", "--show-values")
    assert found["differences"] == []
    assert (found["verdict"], found["rows"]) == ("equal", 3)


def test_fifty_planted_differences_are_found_and_nothing_else_and_can_be_repaired(shop: Shop) -> None:
    planted = plant(shop)
    with writes(shop):
        found = shop.prove("orders")
        repaired = shop.reconcile(
            "orders", "--offsets-topic", OFFSETS, "--signal-table", "shop.signals", "--repair"
        )
        assert "Written: the connector reads these rows again." in repaired.stdout, repaired
        wait_until(
            lambda: shop.prove("orders")["counts"] == {"only-in-topic": len(planted["only-in-topic"])},
            "the connector has read the rows again",
            seconds=120,
            every=3,
        )
    kinds: dict[str, set[int]] = {kind: set() for kind in planted}
    for each in found["differences"]:
        kinds[each["kind"]].add(int(each["key"][0]))
    assert kinds == planted, found["notes"]
    assert sum(map(len, planted.values())) == 50
    assert found["undecided"] == []


def test_numbers_have_the_digits_of_the_server(shop: Shop) -> None:
    chance = random.Random(1)
    numbers = [chance.uniform(-1, 1) * 10.0 ** chance.randrange(-25, 25) for _ in range(800)]
    numbers += [10.0**power for power in range(-20, 20)] + [
        1.0,
        -1.5,
        0.1 + 0.2,
        5e-324,
        1.7976931348623157e308,
    ]
    digits = express(Column("n", Kind.DOUBLE_DIGITS, "double"))
    with shop.database.connect() as connection, connection.cursor() as cursor:
        for number in numbers:
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
    assert "a transaction that has written to it stays open" in done.stderr


def test_a_lock_that_was_lost_does_not_count(shop: Shop) -> None:
    find = "SELECT processlist_id FROM performance_schema.metadata_locks JOIN performance_schema.threads ON thread_id = owner_thread_id WHERE object_name = 'lines' AND lock_type = 'SHARED_READ_ONLY'"
    with (
        pytest.raises(DatabaseUnreachable, match="the connection was lost"),
        lock_table(shop.address, TableName("shop", "lines")),
    ):
        ((owner,),) = shop.database.execute(find)
        shop.database.execute("KILL %s", owner)


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
