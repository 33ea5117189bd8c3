"""Odd cases of a source, with real Debezium, Kafka Connect, PostgreSQL and Kafka: each ends right, or is refused with a reason and continued."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from integration.captures import REF, SOURCE, Capture
from integration.test_cdcsource import run_statements
from kappa_operator.cdcsource.observe import observe_cdcsource
from kappa_operator.cdcsource.worker_log import find_topic
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.postgres import DATABASE, Postgres

pytestmark = [pytest.mark.clusterless, pytest.mark.chaos]  # minutes; unit tests have the decisions

Lab = tuple[Postgres, ConnectCluster, Broker]
OVERRIDES = {
    "connector.client.config.override.policy": "Allowlist",
    "connector.client.config.override.allowlist": "batch.size,buffer.memory,compression.type,linger.ms,max.request.size",
}
"""As the operator's own workers have it."""
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with (
        Broker(heap_mib=1024) as broker,  # a record of 85 MB is held several times
        Postgres() as database,
        ConnectCluster(broker.bootstrap, **OVERRIDES) as workers,
    ):
        database.execute("CREATE ROLE reader LOGIN REPLICATION")
        database.execute(f"GRANT CREATE ON DATABASE {DATABASE} TO reader")
        yield database, workers, broker


class Odd(Capture):
    """A source of one table `t` in a schema of its own, which is also the prefix of its topic."""

    schema = ""

    async def begin(self, schema: str, *statements: str, **fields: Any) -> None:
        """Create the schema and its table, with two rows, and read it."""
        self.schema, self.topic = schema, f"{schema}.{schema}.t"
        owned = f'CREATE SCHEMA "{schema}" AUTHORIZATION reader'
        table = "CREATE TABLE t (id INT PRIMARY KEY, item TEXT NOT NULL)"
        self.run(
            owned,
            table,
            *statements,
            "ALTER TABLE t OWNER TO reader",
            "INSERT INTO t VALUES (1, 'tea'), (2, 'milk')",
        )
        self.apply(**fields)
        await self.until_reason("ConnectorRunning", seconds=90)
        await self.until_records(2)

    def apply(self, **fields: Any) -> None:
        """Apply the source with these fields."""
        known = {"tables": {"include": [f"{self.schema}.*"]}, "topicPrefix": self.schema}
        policies = {"deletionPolicy": "Delete", "topicDeletionPolicy": "Delete"}
        self.write(**{**known, **policies, **fields})

    def run(self, *statements: str) -> None:
        """Run statements as the administrator, in the schema."""
        with psycopg.connect(self.database.address, autocommit=True) as admin:
            admin.execute(f'SET search_path TO "{self.schema}"'.encode())
            for statement in statements:
                admin.execute(statement.encode())

    async def until_records(self, count: int) -> list[tuple[Any, Any]]:
        """Reconcile until the topic has so many records; return them."""
        await self.until(lambda it: len(it.read_records(it.topic)) >= count, f"{count} records")
        found = self.read_records(self.topic)
        assert len(found) == count, found
        return found

    async def prove(self, **fields: Any) -> tuple[str, str, str]:
        """Have the table compared with its topic; return the condition."""
        self.apply(proof={"request": "now", "wait": "30s"}, **fields)

        def is_done(it: Odd) -> bool:
            found = (it.get(SOURCE) or {}).get("status", {}).get("proof", {}).get("work", {})
            return bool(found.get("request") == "now" and found["state"] == "Done")

        await self.until(is_done, "the proof", seconds=120)
        return self.get_condition(SOURCE, "Proven")


@pytest.fixture
async def source(lab: Lab) -> AsyncIterator[Odd]:
    async with Odd(*lab) as source:
        yield source
        source.database.execute("ALTER ROLE reader REPLICATION")
        source.cluster.remove(REF)
        await source.until(lambda it: it.get(SOURCE) is None, "it is deleted")
        assert source.list_slots() == []


async def test_a_dropped_publication_is_a_loss_with_the_statement_that_ends_it(source: Odd) -> None:
    await source.begin("published")
    ((publication,),) = source.database.query("SELECT pubname::text FROM pg_publication")
    source.run(f"DROP PUBLICATION {publication}", "INSERT INTO t VALUES (3, 'not read')")
    message = await source.until_reason("ChangesLost", seconds=120)
    assert "the publication was dropped" in message
    (statement,) = re.findall(r"drop the slot first: (SELECT .*?;)", message)
    source.run(statement)
    source.apply(snapshot={"request": "after the loss"})
    await source.until_reason("ConnectorRunning", seconds=120)
    source.run("UPDATE t SET item = 'bread' WHERE id = 1")
    records = await source.until_records(6)
    assert [value["op"] for _, value in records] == ["r", "r", "r", "r", "r", "u"]
    rows = {key["id"]: value["after"]["item"] for key, value in records}
    assert rows == {1: "bread", 2: "milk", 3: "not read"}


async def test_a_column_that_is_renamed_is_followed_and_a_snapshot_renames_it_in_all_rows(
    source: Odd,
) -> None:
    await source.begin("renamed")
    source.run("ALTER TABLE t RENAME COLUMN item TO name", "INSERT INTO t VALUES (3, 'bread')")
    records = await source.until_records(3)
    assert [value["after"] for _, value in records] == [
        {"id": 1, "item": "tea"}, {"id": 2, "item": "milk"}, {"id": 3, "name": "bread"},
    ]  # fmt: skip
    await source.until(
        lambda it: any("renamed.t" in each for each in it.list_events("SchemaChanged")),
        "an Event names the change",
    )
    source.apply(snapshot={"request": "with the new name"})
    records = await source.until_records(6)
    assert [value["after"] for _, value in records[3:]] == [
        {"id": 1, "name": "tea"}, {"id": 2, "name": "milk"}, {"id": 3, "name": "bread"},
    ]  # fmt: skip


async def test_a_column_that_is_renamed_is_refused_until_that_is_accepted(source: Odd) -> None:
    await source.begin("refused", schemaChanges={"policy": "Refuse"})
    source.run("ALTER TABLE t RENAME COLUMN item TO name")
    message = await source.until_reason("SchemaRefused")
    assert "item" in message
    source.run("INSERT INTO t VALUES (3, 'bread')")
    (accepted,) = re.findall(r"spec\.schemaChanges\.accept to (\w+)", message)
    source.apply(schemaChanges={"policy": "Refuse", "accept": accepted})
    await source.until_reason("ConnectorRunning", seconds=90)
    assert (await source.until_records(3))[2][1]["after"] == {"id": 3, "name": "bread"}


async def test_records_have_a_changed_primary_key_and_those_of_the_old_one_stay(source: Odd) -> None:
    await source.begin("keyed")
    source.run(
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (item)",
        "UPDATE t SET id = 10 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
    )
    records = await source.until_records(5)
    assert [(key, value and value["op"]) for key, value in records[2:]] == [
        ({"item": "tea"}, "u"), ({"item": "milk"}, "d"), ({"item": "milk"}, None),
    ]  # fmt: skip
    assert source.get_condition(SOURCE)[1] == "ConnectorRunning"
    _, reason, message = await source.prove()
    assert (reason, "2 records of the topic have another key than (item)" in message) == (
        "ProofUndecided",
        True,
    )


async def test_a_changed_primary_key_is_refused_until_it_is_undone(source: Odd) -> None:
    await source.begin("kept", schemaChanges={"policy": "Refuse"})
    source.run("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (item)")
    message = await source.until_reason("SchemaRefused")
    assert "table kept.t: its key is item and was id" in message
    source.run(
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id)", "INSERT INTO t VALUES (3, 'bread')"
    )
    await source.until_reason("ConnectorRunning", seconds=90)
    assert (await source.until_records(3))[2][0] == {"id": 3}


async def test_a_dropped_table_is_named_and_the_others_are_read(source: Odd) -> None:
    await source.begin("dropped", "CREATE TABLE gone (id INT PRIMARY KEY)", "ALTER TABLE gone OWNER TO reader", tables={"include": ["dropped.t", "dropped.gone"]})  # fmt: skip
    source.run("DROP TABLE gone", "INSERT INTO t VALUES (3, 'bread')")
    await source.until_records(3)
    await source.until(
        lambda it: it.get_condition(SOURCE, "DatabaseReady")[0] == "False", "the check finds it"
    )
    assert "dropped.gone" in source.get_condition(SOURCE, "DatabaseReady")[2]
    assert source.get_condition(SOURCE)[1] == "ConnectorRunning"
    source.apply(tables={"include": ["dropped.t"]})
    await source.until(
        lambda it: it.get_condition(SOURCE, "DatabaseReady")[0] == "True", "it is not asked for"
    )


async def test_a_truncation_is_a_record_where_topics_are_not_compacted(source: Odd) -> None:
    await source.begin("cut", topics={"cleanup": "delete"})
    source.run("TRUNCATE t", "INSERT INTO t VALUES (3, 'bread')")
    records = await source.until_records(4)
    assert [(key, value["op"]) for key, value in records[2:]] == [(None, "t"), ({"id": 3}, "c")]
    assert source.get_condition(SOURCE)[1] == "ConnectorRunning"


async def test_a_truncation_is_an_event_where_topics_are_compacted(source: Odd) -> None:
    await source.begin("silent")
    source.run("TRUNCATE t", "INSERT INTO t VALUES (3, 'bread')")
    assert [value["op"] for _, value in await source.until_records(3)] == ["r", "r", "c"]
    await source.until(lambda it: it.list_events("TableRewritten"), "an Event reports it")
    (event,) = source.list_events("TableRewritten")
    assert "or rewritten by VACUUM FULL, CLUSTER or ALTER TABLE: silent.t. Rows" in event
    source.run("INSERT INTO t VALUES (1, 'again'), (2, 'again')", "DELETE FROM t WHERE id < 3")
    last = {key["id"]: value for key, value in await source.until_records(9)}
    assert (last[1], last[2]) == (None, None), "compaction removes the rows"
    assert source.get_condition(SOURCE)[1] == "ConnectorRunning"


async def test_a_revoked_right_is_named_and_nothing_is_missing_afterwards(source: Odd) -> None:
    await source.begin("revoked")
    source.run(
        "ALTER ROLE reader NOREPLICATION", "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
    )
    source.run("INSERT INTO t VALUES (3, 'bread')")
    text = "the user may not use replication"
    await source.until(lambda it: text in it.get_condition(SOURCE)[2], "the failure is explained", 90)
    await source.until(
        lambda it: it.get_condition(SOURCE, "DatabaseReady")[0] == "False", "the check finds it"
    )
    message = source.get_condition(SOURCE, "DatabaseReady")[2]
    assert 'ALTER ROLE "reader" REPLICATION;' in message
    run_statements(source.database, message)
    await source.until_records(3)
    await source.until_reason("ConnectorRunning", seconds=90)


async def test_a_table_without_a_key_is_refused_before_the_connector_exists(source: Odd) -> None:
    source.schema, source.topic = "keyless", "keyless.keyless.t"
    source.run("CREATE SCHEMA keyless AUTHORIZATION reader", "CREATE TABLE t (id INT, item TEXT)", "ALTER TABLE t OWNER TO reader", "INSERT INTO t VALUES (1, 'tea')")  # fmt: skip
    source.apply()
    message = await source.until_reason("DatabaseNotReady")
    assert 'ALTER TABLE "keyless"."t" REPLICA IDENTITY FULL;' in message
    run_statements(source.database, message)
    await source.until(lambda it: "spec.keys" in it.get_condition(SOURCE)[2], "it lacks a key only")
    assert not await source.has_connector()
    source.apply(keys=[{"table": "keyless.t", "columns": ["id"]}])
    await source.until_reason("ConnectorRunning", seconds=90)
    source.run("UPDATE t SET item = 'bread'")
    assert [(key, value["op"]) for key, value in await source.until_records(2)] == [
        ({"id": 1}, "r"),
        ({"id": 1}, "u"),
    ]


def fill(source: Odd, row: int, size: int) -> None:
    """Write a row of so many bytes that do not compress well."""
    text = f"(SELECT string_agg(md5(n::text), '') FROM generate_series(1, {size // 32}) AS n)"  # noqa: S608 - numbers
    source.run(f"INSERT INTO t VALUES ({row}, {text})")  # noqa: S608 - numbers


def list_rows(source: Odd) -> dict[int, int]:
    """Return the lengths of the texts of all rows in the topic."""
    return {key["id"]: len(value["after"]["item"]) for key, value in source.read_records(source.topic)}


async def test_large_rows_wait_for_a_higher_limit_and_one_of_100_megabytes_for_spec_columns(
    source: Odd,
) -> None:
    await source.begin("large")
    fill(source, 3, 3 * MEGABYTE)
    source.run("INSERT INTO t VALUES (4, 'behind it')")
    message = await source.until_reason("ConnectorFailed", seconds=120)
    assert (
        "bytes as a record, and at most 1048576 are allowed; set spec.maxRecordSize to 3Mi or more" in message
    )
    assert "the log of the workers has its topic, after: failed to send record to" in message
    observed = await observe_cdcsource(source.context, SOURCE, ())
    assert observed is not None
    assert find_topic(observed, source.workers.log.read_text()) == "large.large.t"
    assert list_rows(source) == {1: 3, 2: 4}

    source.apply(maxRecordSize="3Mi")
    await source.until(lambda it: 4 in list_rows(it), "the large row, and the one behind it", seconds=180)
    assert list_rows(source) == {1: 3, 2: 4, 3: 3 * MEGABYTE, 4: 9}
    await source.until_reason("ConnectorRunning", seconds=90)
    assert any("max.message.bytes of 1 topics was raised to 3145728" in each for each in source.list_events())

    source.apply(maxRecordSize="90Mi")
    fill(source, 7, 85 * MEGABYTE)
    await source.until(lambda it: list_rows(it).get(7) == 85 * MEGABYTE, "85 MB", seconds=180)
    assert (await source.prove(maxRecordSize="90Mi"))[1] == "TablesEqual"

    fill(source, 5, 100 * MEGABYTE)
    source.run("INSERT INTO t VALUES (6, 'behind it')")
    message = await source.until_reason("ConnectorFailed", seconds=120)
    assert "no more than 90 MiB are possible" in message
    source.apply(
        maxRecordSize="3Mi", columns={"truncate": [{"columns": ["large.t.item"], "length": 100_000}]}
    )
    await source.until(lambda it: 6 in list_rows(it), "the shortened row, and the one behind it", seconds=180)
    assert list_rows(source)[5] == 100_000
    await source.until_reason("ConnectorRunning", seconds=90)
