"""Rules about PostgreSQL that a test with the real server of the lab does not provoke, and that no other rule fires with them."""

from dataclasses import replace

import pytest

from kappa_operator.cdc.facts import (
    MOST_TABLES,
    Connection,
    PostgresColumn,
    PostgresFacts,
    PostgresTable,
    Publication,
    Slot,
    TableName,
)
from kappa_operator.cdc.findings import Finding, Severity, is_ready
from kappa_operator.cdc.patterns import parse_patterns
from kappa_operator.cdc.rules import Request, check_database

ORDERS = TableName("public", "orders")
TABLE = PostgresTable(ORDERS)
PUBLICATION = Publication("kappa", tables=frozenset({ORDERS}))
SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "wal_sender_timeout": "60000",
    "max_slot_wal_keep_size": "51200",
    "hot_standby_feedback": "off",
}
READY = PostgresFacts(150013, "reader", "shop", SETTINGS, publication=PUBLICATION, tables=(TABLE,))


def check(facts: PostgresFacts, *patterns: str) -> tuple[Finding, ...]:
    return check_database(facts, Request(parse_patterns(patterns, "public")))


def list_rules(facts: PostgresFacts, *patterns: str) -> list[tuple[str, str]]:
    return [(each.severity.value, each.rule) for each in check(facts, *patterns)]


def with_table(**changes: object) -> PostgresFacts:
    return replace(READY, tables=(replace(TABLE, **changes),))  # type: ignore[arg-type]


def with_column(version: int = 150000, **column: object) -> PostgresFacts:
    found = PostgresColumn(**{"name": "c", "type": "text", **column})  # type: ignore[arg-type]
    return replace(with_table(columns=(found,)), version=version)


def with_settings(**settings: str) -> PostgresFacts:
    return replace(READY, settings={**SETTINGS, **settings})


def test_a_database_that_is_ready_has_no_finding() -> None:
    assert check(READY) == ()


CASES: dict[str, tuple[PostgresFacts, list[tuple[str, str]]]] = {
    "old server": (replace(READY, version=110000), [("error", "version")]),
    "server newer than Debezium": (
        replace(READY, version=190000),
        [("information", "version"), ("information", "failover-slots")],
    ),
    "PostgreSQL 17": (replace(READY, version=170000), [("information", "failover-slots")]),
    "standby before 16": (replace(READY, in_recovery=True), [("error", "standby")]),
    "standby without feedback": (
        replace(READY, in_recovery=True, version=160000),
        [("warning", "standby")],
    ),
    "standby": (
        replace(with_settings(hot_standby_feedback="on"), in_recovery=True, version=170000),
        [("information", "standby")],
    ),
    "wal_level": (with_settings(wal_level="replica"), [("error", "wal-level")]),
    "no WAL sender is free": (replace(READY, senders=10), [("error", "max-wal-senders")]),
    "no slot is free": (
        replace(READY, slots=tuple(Slot(str(n), active=True) for n in range(10))),
        [("error", "max-replication-slots")],
    ),
    "short time-out": (with_settings(wal_sender_timeout="5000"), [("warning", "wal-sender-timeout")]),
    "unlimited WAL": (with_settings(max_slot_wal_keep_size="-1"), [("warning", "max-slot-wal-keep-size")]),
    "no limit in PostgreSQL 12": (replace(with_settings(max_slot_wal_keep_size=""), version=120000), []),
    "lost slot": (
        replace(READY, slots=(Slot("old", active=False, wal_status="lost"),)),
        [("warning", "slot-lost")],
    ),
    "active slot": (replace(READY, slots=(Slot("s", active=True, wal_status="extended"),)), []),
    "superuser without REPLICATION": (replace(READY, can_replicate=False, is_superuser=True), []),
    "no TLS": (replace(READY, connection=Connection(False, False)), [("warning", "tls")]),
    "certificate not verified": (replace(READY, connection=Connection(True, False)), [("warning", "tls")]),
    "a column of type name": (with_column(type="name"), [("warning", "lost-value")]),
    "an array of names": (with_column(type="name[]", is_array=True), [("warning", "column-type")]),
    "an array of two dimensions": (with_column(type="integer[]", is_array=True, dimensions=2), [("warning", "lost-value")]),
    "an array of one dimension": (with_column(type="integer[]", is_array=True, dimensions=1), []),
    "foreign table by a pattern": (with_table(kind="f"), [("information", "not-a-table")]),
    "temporary table": (with_table(persistence="t"), [("information", "not-a-table")]),
    "no schema usage": (with_table(has_usage=False), [("error", "schema-usage")]),
    "index of the identity dropped": (with_table(replica_identity="i"), [("error", "replica-identity")]),
    "identity by index": (
        with_table(replica_identity="i", has_identity_index=True, has_primary_key=False, key_index="k"),
        [],
    ),
    "FULL with primary key": (
        with_table(replica_identity="f"),
        [("information", "replica-identity-full")],
    ),
    "FULL without key": (
        with_table(replica_identity="f", has_primary_key=False),
        [("warning", "no-primary-key")],
    ),
    "many tables": (
        replace(READY, tables=(TABLE,) * MOST_TABLES),
        [("warning", "too-many-tables")],
    ),
    "publication that the user may create": (
        replace(with_table(owned=True), publication=None, can_create=True),
        [],
    ),
    "publication of tables of others": (
        replace(READY, publication=None, can_create=True),
        [("error", "publication")],
    ),
    "publication of all tables": (replace(READY, publication=Publication("kappa", all_tables=True)), []),
    "domain in an array": (
        with_column(type="public.positive[]", type_kind="d", is_array=True),
        [("warning", "column-type")],
    ),
    "array of texts": (with_column(type="text[]", is_array=True), []),
    "enum": (with_column(type="public.mood", type_kind="e"), []),
    "generated column in 18": (
        with_column(180000, is_generated=True),
        [("warning", "generated-column"), ("information", "failover-slots")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_facts_lead_to_exactly_these_findings(case: str) -> None:
    facts, expected = CASES[case]
    assert list_rules(facts) == expected


def test_a_generated_column_of_18_can_be_published() -> None:
    facts = with_column(180000, is_generated=True)
    assert check(facts)[0].statements == (
        'ALTER PUBLICATION "kappa" SET (publish_generated_columns = stored);',
    )
    published = replace(facts, publication=replace(PUBLICATION, generated_columns=True))
    assert "generated-column" not in [rule for _, rule in list_rules(published)]


def test_rds_grants_its_role_instead_of_the_attribute() -> None:
    (found,) = check(replace(READY, can_replicate=False, has_rds_role=True))
    assert found.statements == ('GRANT rds_replication TO "reader";',)


def test_a_partitioned_table_is_published_with_its_root() -> None:
    root = replace(TABLE, kind="p")
    part = replace(
        TABLE, name=TableName("public", "orders_1"), root=ORDERS, has_select=False, has_usage=False
    )
    found = check(replace(READY, publication=None, tables=(root, part)))
    assert [each.rule for each in found] == ["publication"]
    assert found[0].statements == (
        'CREATE PUBLICATION "kappa" FOR TABLE "public"."orders" WITH (publish_via_partition_root = true);',
    )


def test_partitions_in_a_publication_stand_for_their_root() -> None:
    root = replace(TABLE, kind="p")
    part = replace(TABLE, name=TableName("public", "orders_1"), root=ORDERS)
    publication = Publication("kappa", tables=frozenset({part.name}))
    found = check(replace(READY, publication=publication, tables=(root, part)))
    assert [each.rule for each in found] == ["partition-root"]


def test_only_errors_make_a_database_not_ready() -> None:
    assert is_ready(check(with_settings(max_slot_wal_keep_size="-1")))
    assert not is_ready(check(with_settings(wal_level="minimal")))


def test_errors_come_first() -> None:
    found = check(with_settings(max_slot_wal_keep_size="-1", wal_level="replica"))
    assert [each.severity for each in found] == [Severity.ERROR, Severity.WARNING]


OWN, STANDBY = Slot("kappa", active=True, failover=False), Slot("standby", active=True)
FAILOVER: dict[str, tuple[PostgresFacts, list[str]]] = {
    "PostgreSQL 16": (replace(READY, version=160000), ["PostgreSQL 16 has no failover slots."]),
    "a standby": (
        replace(with_settings(hot_standby_feedback="on"), in_recovery=True, version=170000),
        ["A slot on a standby is not copied to other servers."],
    ),
    "a slot that was created without": (
        replace(with_settings(synchronized_standby_slots="standby"), version=170000, slots=(OWN, STANDBY)),
        ["The slot was created without failover."],
    ),
    "slots of standbys that are away": (
        replace(with_settings(synchronized_standby_slots='standby, "gone"'), version=170000, slots=(replace(STANDBY, active=False),)),
        ["It names slot standby, which is of a standby that does not follow.", "It names slot gone, which does not exist."],
    ),
    "nothing is synchronized": (replace(READY, version=170000), ["synchronized_standby_slots is empty."]),
    "all is well": (
        replace(with_settings(synchronized_standby_slots="standby"), version=180000, slots=(replace(OWN, failover=True), STANDBY)),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILOVER)
def test_a_slot_that_is_to_survive_a_failover(name: str) -> None:
    facts, wanted = FAILOVER[name]
    request = Request(parse_patterns(("orders",), "public"), slot="kappa", failover=True)
    found = [each for each in check_database(facts, request) if each.severity is not Severity.INFORMATION and each.rule != "slot-inactive"]  # fmt: skip
    assert [each.message for each in found] == wanted
