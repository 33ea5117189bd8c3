"""`kappa cdc reconcile` with a real MariaDB, a real Debezium and a real broker, during writes."""

import random
import time
from collections.abc import Iterator

import pytest

from integration.proofs import OFFSETS, ORDERS, SIGNALS, Shop, plant, start, writes
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
    """CREATE TABLE shop.odd (
        id INT PRIMARY KEY, flag BOOLEAN, tiny TINYINT UNSIGNED, small SMALLINT, medium MEDIUMINT UNSIGNED, filled INT(8) ZEROFILL, big BIGINT,
        huge BIGINT UNSIGNED, single FLOAT, fixed FLOAT(7, 3), `double` DOUBLE, exact DECIMAL(38, 10), whole DECIMAL(8, 0),
        padded DECIMAL(6, 2) UNSIGNED ZEROFILL, bit BIT(1), bits BIT(9), word BIT(64), day DATE, named DATE NOT NULL, clock DATETIME,
        milli DATETIME(3), micro DATETIME(6), needed DATETIME NOT NULL, moment TIMESTAMP NULL, fine TIMESTAMP(6) NULL,
        stamped TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00', span TIME, spans TIME(6), year YEAR, char8 CHAR(8),
        latin CHAR(8) CHARACTER SET latin1, short VARCHAR(20), note TEXT, long_note LONGTEXT CHARACTER SET utf8mb4, bytes6 BINARY(6),
        bytes9 VARBINARY(9), blob_ BLOB, size ENUM('a', 'b|c'), sizes SET('x', 'y', 'z'), document JSON, uuid UUID,
        twice INT GENERATED ALWAYS AS (id * 2) STORED, thrice INT GENERATED ALWAYS AS (id * 3) VIRTUAL)""",
    SIGNALS,
    "INSERT INTO shop.orders SELECT seq, seq % 97, seq / 7, '2026-01-01' + INTERVAL seq SECOND, CONCAT('note ', seq) FROM seq_1_to_3000",
    "INSERT INTO shop.lines SELECT MD5(seq), CONCAT('Ä \"', seq, '|'), seq FROM seq_1_to_500",
)
ODD = (
    """(1, true, 200, -3, 16000000, 42, -9223372036854775808, 9223372036854775807, 1.1, 1234.567, 0.1,
    1234567890123456789012345678.0123456789, 1234, 12.50, b'1', b'100000001', 0x8000000000000001, '2026-02-03', '1583-01-01',
    '2026-02-03 04:05:06', '2026-02-03 04:05:06.007', '2026-02-03 04:05:06.000007', '1000-01-01', '2026-02-03 04:05:06',
    '2026-02-03 04:05:06.000007', '2026-02-03 04:05:06', '01:02:03', '-838:59:58.000001', 2026, 'ab ', 'é', 'x|y', 'Ä "\\\\n', 'é\U0001f389',
    0x00ff10, 0x00ff00, 0x0102, 'b|c', 'x,z', '{"a" : 1}', '00000000-0000-0000-0000-000000000001')""",
    """(2, false, 0, 0, 0, 0, 0, 0, 16777216, 0, 1e300, -0.0000000001, -99, 0, b'0', b'0', b'0', '0000-00-00', '0000-00-00', '0000-00-00',
    '0000-00-00', '9999-12-31 23:59:59.999999', '0000-00-00', '0000-00-00', '2038-01-19 03:14:07.999999', '0000-00-00', '838:59:59',
    '00:00:00.5', 1901, '', '', '', '', '', '', '', '', 'a', '', 'null', NULL)""",
    """(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, -1.5e-20, NULL, 1e-7, NULL, NULL, NULL, NULL, NULL, NULL, '2020-00-00', '2020-01-00',
    '2020-00-05', NULL, NULL, '2020-00-00 01:02:03', NULL, NULL, '2026-01-01', NULL, '-00:00:00.5', 2155, NULL, NULL, NULL,
    repeat('w', 600), NULL, NULL, NULL, repeat('a', 700), NULL, NULL, NULL, NULL)""",
)  # fmt: skip


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
            cursor.execute(f"SELECT {digits} FROM (SELECT CAST('{number!r}' AS DOUBLE) AS n) AS t")  # noqa: S608 - a number
            assert cursor.fetchall() == ((format_digits(number),),)


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
