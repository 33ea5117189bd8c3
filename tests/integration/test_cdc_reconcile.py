"""`kappa cdc reconcile` with a real PostgreSQL, a real Debezium and a real broker, during writes."""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, ResourceType
from typer.testing import CliRunner, Result

from integration.brokers import TLS_USERS
from integration.writers import writing
from kappa_operator.cli.app import app
from lab.acls import Right, grant
from lab.broker import Broker
from lab.connect import ConnectWorker
from lab.debezium import configure_postgres
from lab.postgres import DATABASE, USER, Postgres
from lab.shell import wait_until

pytestmark = pytest.mark.clusterless

PREFIX, PARTITIONS = "proof", 3
SCHEMA = """
CREATE TABLE signals (id TEXT PRIMARY KEY, type TEXT, data TEXT);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT NOT NULL, total NUMERIC(10, 2), placed TIMESTAMPTZ, note TEXT);
CREATE TABLE lines (shop UUID, "order %" TEXT COLLATE "C", quantity INT, PRIMARY KEY (shop, "order %"));
CREATE TABLE notes (id INT PRIMARY KEY, small INT, large TEXT);
ALTER TABLE notes ALTER large SET STORAGE EXTERNAL;
CREATE TYPE size AS ENUM ('small', 'the|large');
CREATE DOMAIN price AS NUMERIC(8, 3);
CREATE TABLE odd (
    id INT PRIMARY KEY, fixed NUMERIC(38, 10), whole NUMERIC(8, 0), free NUMERIC, price PRICE, money MONEY, day DATE, clock TIME,
    coarse TIME(3), milli TIMESTAMP(3), micro TIMESTAMP, zoned TIMESTAMPTZ, bytes BYTEA, document JSONB, raw JSON, numbers INT[],
    words TEXT[], days DATE[], amounts NUMERIC(6, 2)[], flags BOOLEAN[], size SIZE, range INT4RANGE, uuid UUID, length INTERVAL,
    bits BIT(10), bit BIT(1), varied VARBIT(9), flag BOOLEAN, single REAL, double DOUBLE PRECISION, address INET, net CIDR, mac MACADDR,
    point POINT, small SMALLINT, big BIGINT, padded CHAR(8), short VARCHAR(20), tree XML,
    twice INT GENERATED ALWAYS AS (id * 2) STORED
);
INSERT INTO orders SELECT n, n % 97, n / 7.0, '2026-01-01'::timestamptz + n * interval '1.234567 s', 'note ' || n FROM generate_series(1, 3000) n;
INSERT INTO lines SELECT md5(n::text)::uuid, 'Ä "' || n || E'|\\\\\\n', n FROM generate_series(1, 500) n;
INSERT INTO notes SELECT n, n, repeat(md5(n::text), 200) FROM generate_series(1, 50) n;
"""
ODD = (
    """(1, 1234567890123456789012345678.0123456789, 1234, 1.50, 1.5, 12.34, '2026-02-03', '01:02:03.000004', '01:02:03.004',
     '2026-02-03T04:05:06.007', '2026-02-03T04:05:06.000007', '2026-02-03T04:05:06.000007+05:30', '\\x00ff10', '{"a": [1, {"b": null}]}',
     '{"a" : 1}', '{1,NULL,3}', '{x,"y z|\\""}', '{2026-01-01,NULL}', '{1.50,-0.01}', '{t,f}', 'the|large', '[1,5)',
     '00000000-0000-0000-0000-000000000001', '1 day 2 hours', B'1000000001', B'1', B'0101', true, 1.1, 'NaN', '10.0.0.1', '10.0.0.0/8',
     '08:00:2b:01:02:03', '(1.5,-2)', -1, 9223372036854775807, 'ab', 'x|y', '<a>1</a>')""",
    """(2, -0.0000000001, 0, -12345678901234567890.123, -1000, -0.05, '1583-01-01', '24:00:00', '00:00', '1969-12-31T23:59:59.999',
     '1900-01-01', '9999-12-31T23:59:59.999999Z', '', 'null', '[]', '{}', '{}', '{}', '{}', '{}', 'small', 'empty', NULL, '-1 month',
     B'0000000000', B'0', B'', false, '-Infinity', 1e300, '::1', '::/0', NULL, '(0,0)', 0, -9223372036854775808, '', '', NULL)""",
    """(3, NULL, NULL, 1e30, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, decode(repeat('ab', 700), 'hex'), to_jsonb(repeat('é', 600)),
     NULL, '{1,2}', ARRAY[repeat('w', 600)], NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 16777216, 0.1, NULL,
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
)


@dataclass
class Shop:
    """The services, and how to plant differences behind the back of the connector."""

    broker: Broker
    database: Postgres
    worker: ConnectWorker

    def run(self, statement: str) -> None:
        with psycopg.connect(self.database.address, autocommit=True) as connection:
            connection.execute(statement.encode())

    def read(self, table: str) -> list[Any]:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "none"})
        found: list[Any] = []
        try:
            for partition in range(PARTITIONS):
                at = TopicPartition(f"{PREFIX}.public.{table}", partition, 0)
                first, end = consumer.get_watermark_offsets(at, timeout=10)
                consumer.assign([at])
                count = 0
                while count < end - first:
                    part = consumer.consume(min(1000, end - first - count), timeout=1)
                    count += len(part)
                    found += part
        finally:
            consumer.close()
        return found

    def produce(self, table: str, records: list[tuple[Any, Any, int]]) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for key, value, partition in records:
            text = None if value is None else json.dumps(value).encode()
            producer.produce(f"{PREFIX}.public.{table}", text, json.dumps(key).encode(), partition)
        assert producer.flush(30) == 0

    @contextmanager
    def unpublished(self, table: str) -> Iterator[None]:
        """What is written inside is in no event."""
        self.run(f"ALTER PUBLICATION dbz_publication DROP TABLE {table}")
        try:
            yield
        finally:
            self.run(f"ALTER PUBLICATION dbz_publication ADD TABLE {table}")

    def reconcile(self, table: str, *options: str, bootstrap: str = "", user: str = USER) -> Result:
        """Run the command in this process: its modules take longer to load than most of these tables to read."""
        url = f"postgresql://{user}@127.0.0.1:{self.database.port}/{DATABASE}"
        topic = ("--topic", f"{PREFIX}.public.{table}", "--bootstrap", bootstrap or self.broker.bootstrap)
        arguments = ("cdc", "reconcile", url, "--table", table, *topic, *options)
        return CliRunner().invoke(app, arguments, prog_name="kappa", catch_exceptions=False)

    def prove(self, table: str, *options: str) -> dict[str, Any]:
        done = self.reconcile(table, "-o", "json", *options)
        assert done.exit_code in (0, 1, 4), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert done.exit_code == {"equal": 0, "different": 1, "undecided": 4}[found["verdict"]]
        return found


def configure(database: Postgres) -> dict[str, str]:
    return {
        **configure_postgres(database, PREFIX),
        "slot.name": PREFIX,
        "topic.creation.default.partitions": str(PARTITIONS),
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.*",
        "poll.interval.ms": "100",
        "signal.data.collection": "public.signals",
        "heartbeat.interval.ms": "1000",
    }


@pytest.fixture(scope="module")
def shop(tls_broker: Broker) -> Iterator[Shop]:
    formats = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",  # keys keep theirs
    }
    broker = tls_broker
    grant(broker.bootstrap, "reader", [Right(ResourceType.TOPIC, PREFIX, AclOperation.READ, is_prefix=True)])
    with Postgres() as database:
        with psycopg.connect(database.address, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
            connection.execute(f"INSERT INTO odd VALUES {ODD[0]}".encode())  # noqa: S608 - a row above
        worker = ConnectWorker(
            broker.bootstrap,
            PREFIX,
            configure(database) | formats,
            {"offset.flush.interval.ms": "1000"},
        )
        with worker:
            shop = Shop(broker, database, worker)
            wait_until(lambda: has_topics(shop), "the snapshot is in the topics", seconds=90)
            yield shop


def has_topics(shop: Shop) -> bool:
    try:
        return (
            len(shop.read("odd")) >= 1 and len(shop.read("orders")) >= 3000 and len(shop.read("lines")) >= 500
        )
    except Exception:  # a topic does not exist yet
        return False


@contextmanager
def writes(shop: Shop, table: str = "orders") -> Iterator[None]:
    """Write all the time, in transactions that overlap."""

    def write(seed: int, stop: threading.Event) -> None:
        chance = random.Random(seed)
        with psycopg.connect(shop.database.address) as connection:
            while not stop.is_set():
                for _ in range(chance.randrange(1, 6)):
                    key = chance.randrange(2000, 3400)
                    match chance.randrange(4):
                        case 0:
                            connection.execute("DELETE FROM orders WHERE id = %s", (key,))
                        case 1:
                            connection.execute(
                                "INSERT INTO orders VALUES (%s, 1, 2, now(), 'new') ON CONFLICT DO NOTHING",
                                (key,),
                            )
                        case _:
                            connection.execute(
                                "UPDATE orders SET total = total + 1, note = %s WHERE id = %s",
                                (f"x{seed}", key),
                            )
                    time.sleep(0.01 if chance.random() < 0.5 else 0)
                try:
                    connection.rollback() if chance.random() < 0.1 else connection.commit()
                except psycopg.Error:
                    connection.rollback()

    def run(seed: int, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                write(seed, stop)
            except psycopg.errors.DeadlockDetected:
                continue

    with writing(run):
        yield


def test_a_table_with_concurrent_writes_is_equal(shop: Shop) -> None:
    with writes(shop):
        time.sleep(2)
        found = shop.prove("orders")
    assert found["verdict"] == "equal", found
    assert found["rows"] > 2000
    assert found["records"] > 3000
    assert found["undecided"] == []


def test_odd_types_are_equal_in_snapshots_and_changes(shop: Shop) -> None:
    for row in ODD[1:]:
        shop.run(f"INSERT INTO odd VALUES {row}")  # noqa: S608 - a row above
    shop.run("UPDATE odd SET small = 3 WHERE id = 1")
    found = shop.prove("odd", "--show-values")
    assert found["differences"] == []
    assert found["verdict"] == "equal"
    assert found["rows"] == 3
    assert found["notes"] == ["column twice is not compared: generated, so that the log does not have it"]


def test_values_that_debezium_loses_are_found(shop: Shop) -> None:
    """The type NAME and arrays of two dimensions are right in a snapshot, and wrong in changes."""
    shop.run("CREATE TABLE lossy (id INT PRIMARY KEY, name NAME, matrix INT[], fine INT)")
    shop.run("ALTER PUBLICATION dbz_publication ADD TABLE lossy")
    shop.run("INSERT INTO lossy VALUES (1, 'n', '{1}', 1), (2, NULL, '{{1,2},{3,4}}', 2)")
    wait_until(lambda: count_records(shop, "lossy") == 2, "the rows are in the topic", seconds=60)
    found = shop.prove("lossy")
    assert [(each["key"], each["columns"]) for each in found["differences"]] == [
        (["1"], ["name"]),
        (["2"], ["matrix"]),
    ]
    assert shop.prove("lossy", "--ignore-column", "name", "--ignore-column", "matrix")["verdict"] == "equal"


def count_records(shop: Shop, table: str) -> int:
    try:
        return len(shop.read(table))
    except Exception:  # the topic does not exist yet
        return -1


def test_a_large_value_that_an_update_left_as_it_was_is_known_from_before(shop: Shop) -> None:
    shop.run("UPDATE notes SET small = -small WHERE id < 10")
    wait_until(lambda: count_records(shop, "notes") >= 59, "the updates are in the topic", seconds=60)
    assert any(b"__debezium_unavailable_value" in (each.value() or b"") for each in shop.read("notes"))
    assert shop.prove("notes")["verdict"] == "equal"


def wrap(key: int) -> dict[str, Any]:
    field = {"type": "int64", "optional": False, "field": "id"}
    return {"schema": {"type": "struct", "fields": [field], "optional": False}, "payload": {"id": key}}


def plant(shop: Shop) -> dict[str, set[int]]:
    """Plant 50 differences, and return their keys by kind: half of them in the topic, half in the table."""
    latest: dict[int, tuple[dict[str, Any], int]] = {}
    for each in shop.read("orders"):
        if each.value() is not None and (value := json.loads(each.value()))["op"] != "d":
            latest[value["after"]["id"]] = value, each.partition()
    with shop.unpublished("orders"):
        shop.run("INSERT INTO orders SELECT n, 1, 1, now(), 'unseen' FROM generate_series(5001, 5006) n")
        shop.run("DELETE FROM orders WHERE id BETWEEN 1 AND 6")
        shop.run("UPDATE orders SET total = total + 0.01, note = 'unseen' WHERE id BETWEEN 11 AND 20")
    records: list[tuple[Any, Any, int]] = []
    for key in range(101, 107):  # only in the database
        records.append((wrap(key), None, latest[key][1]))
    for key in range(9001, 9007):  # only in the topic
        value, partition = latest[200]
        records.append((wrap(key), value | {"after": value["after"] | {"id": key}}, partition))
    for key in range(111, 121):  # changed
        value, partition = latest[key]
        records.append((wrap(key), value | {"after": value["after"] | {"customer": -1}}, partition))
    for key in range(131, 137):  # in two partitions
        value, partition = latest[key]
        records.append((wrap(key), value, (partition + 1) % PARTITIONS))
    shop.produce("orders", records)
    return {
        "only-in-database": {*range(5001, 5007), *range(101, 107)},
        "only-in-topic": {*range(1, 7), *range(9001, 9007)},
        "changed": {*range(11, 21), *range(111, 121)},
        "duplicate": set(range(131, 137)),
    }


def test_fifty_planted_differences_are_found_and_nothing_else_and_can_be_repaired(shop: Shop) -> None:
    planted = plant(shop)
    assert sum(map(len, planted.values())) == 50
    with writes(shop):
        time.sleep(1)
        done = shop.reconcile("orders", "-o", "json")
        found = json.loads(done.stdout)
        kinds: dict[str, set[int]] = {}
        for each in found["differences"]:
            kinds.setdefault(each["kind"], set()).add(int(each["key"][0]))
        assert kinds == planted
        assert found["counts"] == {kind: len(keys) for kind, keys in planted.items()}
        assert found["undecided"] == []
        changed = {
            int(each["key"][0]): each["columns"] for each in found["differences"] if each["kind"] == "changed"
        }
        assert changed[11] == ["total", "note"]
        assert changed[111] == ["customer"]
        assert "unseen" not in done.stdout + done.stderr
        repaired = shop.reconcile("orders", "--signal-table", "public.signals", "--repair")
        assert "Written: the connector reads these rows again." in repaired.stdout
        assert "a tombstone" in repaired.stdout
        wait_until(
            lambda: is_repaired(shop, planted), "the connector has read the rows again", seconds=90, every=3
        )


def is_repaired(shop: Shop, planted: dict[str, set[int]]) -> bool:
    """What a snapshot cannot repair remains; so does the duplicate of nothing."""
    left = ("only-in-topic", "duplicate")
    return bool(shop.prove("orders")["counts"] == {kind: len(planted[kind]) for kind in left})


def test_a_connector_that_is_behind_is_waited_for(shop: Shop) -> None:
    shop.worker.pause(paused=True)
    shop.run("UPDATE lines SET quantity = quantity + 1 WHERE quantity <= 20")
    early = shop.reconcile("lines", "--wait", "12s", "-o", "json")
    assert early.exit_code == 4
    found = json.loads(early.stdout)
    assert (found["verdict"], found["undecidedCount"], found["counts"]) == ("undecided", 20, {})
    assert "check its task and its slot" in found["notes"][0]
    assert "wait for the connector, which has not shown the last" in early.stderr
    resume = threading.Timer(15, lambda: shop.worker.pause(paused=False))
    resume.start()
    late = shop.reconcile("lines", "--wait", "2m")
    resume.join()
    assert late.exit_code == 0
    assert "wait for the connector" in late.stderr
    assert "20 rows changed meanwhile and were equal at later ones" in late.stdout


def test_the_signal_of_a_key_that_must_be_quoted_repairs_its_row(shop: Shop) -> None:
    with shop.unpublished("lines"):
        shop.run("UPDATE lines SET quantity = 0 WHERE quantity = 77")
    (found,) = shop.prove("lines", "--show-values")["differences"]
    assert found["key"][1] == 'Ä "77|\\\n'
    assert found["values"] == {"quantity": {"database": "0", "topic": "77"}}
    shop.prove("lines", "--signal-table", "public.signals", "--repair")
    wait_until(
        lambda: shop.prove("lines")["verdict"] == "equal", "the row was read again", seconds=60, every=2
    )


def test_a_column_that_no_event_has_is_named(shop: Shop) -> None:
    shop.run("ALTER TABLE notes ADD COLUMN added INT DEFAULT 5")
    refused = shop.reconcile("notes")
    assert refused.exit_code == 2
    assert "no event of the topic has column added of public.notes" in refused.stderr
    assert shop.prove("notes", "--ignore-column", "added")["verdict"] == "equal"


@pytest.mark.parametrize(("password", "code"), [(TLS_USERS["reader"], 0), ("secret-2", 2)])
def test_the_log_in_to_kafka_is_read_from_a_file(
    shop: Shop, tmp_path: Path, password: str, code: int
) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(
        f"security.protocol=sasl_ssl\nssl.ca.location={shop.broker.authority}\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username=reader\nsasl.password={password}\n"
    )
    done = shop.reconcile("odd", "--kafka-config", str(file), bootstrap=shop.broker.sasl_bootstrap)
    assert done.exit_code == code, done.stderr
    assert ("log-in" in done.stderr or "Authentication" in done.stderr) == (code == 2)
    assert password not in done.stdout + done.stderr


def test_rows_of_a_truncated_table_are_only_in_the_topic(shop: Shop) -> None:
    shop.run("CREATE TABLE carts (id INT PRIMARY KEY, at TIMESTAMP(3))")
    shop.run("ALTER PUBLICATION dbz_publication ADD TABLE carts")
    shop.run("INSERT INTO carts SELECT n, now() FROM generate_series(1, 3) n")
    wait_until(lambda: count_records(shop, "carts") == 3, "the rows are in the topic", seconds=60)
    shop.run("TRUNCATE carts")
    found = shop.prove("carts")
    assert found["counts"] == {"only-in-topic": 3}
    assert found["repair"]["statements"] == []


def test_a_table_of_many_columns_with_a_name_that_must_be_quoted_is_equal(shop: Shop) -> None:
    name, topic = "wi{0}de %s\"'", f"{PREFIX}.public.wi_0_de__s__"
    quoted = '"wi{0}de %s""\'"'
    columns = ", ".join(f'"c%{n}{{}}" INT DEFAULT {n}' for n in range(120))
    shop.run(f'CREATE TABLE {quoted} ("Key {{0}}%s" VARCHAR(9) PRIMARY KEY, {columns})')
    shop.run(f"ALTER PUBLICATION dbz_publication ADD TABLE {quoted}")
    shop.run(f"INSERT INTO {quoted} VALUES ('a'), ('b')")  # noqa: S608 - a name above
    with shop.unpublished(quoted):
        shop.run(f"""UPDATE {quoted} SET "c%119{{}}" = 7 WHERE "Key {{0}}%s" = 'b'""")  # noqa: S608 - a name above

    def find_differences() -> list[Any]:
        done = shop.reconcile(name, "--topic", topic, "-o", "json")
        return [json.loads(done.stdout)["differences"]] if done.exit_code == 1 else []

    wait_until(lambda: bool(find_differences()), "the table is compared", seconds=60, every=2)
    ((found,),) = find_differences()
    assert (found["key"], found["columns"]) == (["b"], ["c%119{}"])


def test_the_permission_to_select_is_enough(shop: Shop) -> None:
    shop.run("CREATE ROLE auditor LOGIN")
    assert "the user lacks SELECT on public.odd" in shop.reconcile("odd", user="auditor").stderr
    shop.run("GRANT SELECT ON odd TO auditor")
    assert shop.reconcile("odd", user="auditor").exit_code == 0
    shop.run("ALTER TABLE odd ENABLE ROW LEVEL SECURITY")
    assert "row-level security hides rows" in shop.reconcile("odd", user="auditor").stderr
    shop.run("ALTER TABLE odd DISABLE ROW LEVEL SECURITY")


@pytest.mark.chaos  # 7 s; `make test` repairs with a connector
def test_the_same_without_a_connector_that_lives(shop: Shop) -> None:
    """Rows that are equal are proven without it; and those that differ are right once it has written its changes again."""
    shop.worker.kill()
    assert shop.prove("lines", "--wait", "5s")["verdict"] == "equal"
    shop.run("UPDATE lines SET quantity = quantity + 1 WHERE quantity > 490")
    found = shop.prove("lines", "--wait", "5s")
    assert (found["verdict"], found["undecidedCount"]) == ("undecided", 10)
    shop.worker.restart(graceful=True)
    assert shop.prove("lines", "--wait", "2m")["verdict"] == "equal"


def test_what_cannot_be_compared_is_refused_with_its_cause(shop: Shop) -> None:
    shop.run("CREATE TABLE keyless (id INT)")
    shop.run("CREATE VIEW every_order AS SELECT * FROM orders")
    assert "has no primary key" in shop.reconcile("keyless").stderr
    assert "is not a table" in shop.reconcile("every_order").stderr
    assert "there is no table public.nothing" in shop.reconcile("nothing").stderr
    missing = shop.reconcile("signals", "--topic", "none")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "topic none does not exist" in missing.stderr
    flat = shop.reconcile("orders", "--topic", f"__debezium-heartbeat.{PREFIX}")
    assert "no record of the topic is a change event in JSON" in flat.stderr
    other = shop.reconcile("signals", "--topic", f"{PREFIX}.public.lines")
    assert "no record of the topic has the key (id) of public.signals" in other.stderr
    assert shop.reconcile("orders", "--repair").exit_code == 2
