"""What a pod answers about a database, whether its slot kept all changes, and what a failed task means."""

import dataclasses
from typing import Any

import pytest

from kappa_crds.cdcsource_status import SlotStatus
from kappa_operator.cdc.connector.failures import explain_failure
from kappa_operator.cdc.facts import (
    Connection,
    MySQLFacts,
    MySQLTable,
    PostgresFacts,
    PostgresTable,
    Publication,
    Slot,
    TableName,
)
from kappa_operator.cdc.findings import Severity
from kappa_operator.cdc.guard import find_loss, find_position, format_lsn
from kappa_operator.cdc.outcome import judge
from kappa_operator.cdc.shapes import compute_fingerprint, unpack
from kappa_operator.cdc.work import MOST_BYTES, DatabaseRequest

ORDERS, LOGS = TableName("public", "orders"), TableName("public", "logs")
SETTINGS = {"wal_level": "logical", "max_replication_slots": "10", "max_wal_senders": "10", "wal_sender_timeout": "60000", "max_slot_wal_keep_size": "1000"}  # fmt: skip
FACTS = PostgresFacts(
    version=150000, user="reader", database="shop", settings=SETTINGS, is_superuser=False, can_create=True,
    system="7711", timeline=2, tables=(PostgresTable(ORDERS, owned=True),), connection=Connection(),
)  # fmt: skip
SLOT = Slot("kappa", active=False, retained_bytes=2**20, wal_status="reserved", confirmed=500)


def ask(**fields: Any) -> DatabaseRequest:
    known = {
        "task": "Check",
        "kind": "postgresql",
        "host": "db",
        "port": 5432,
        "database": "shop",
        "tls": True,
    }
    return DatabaseRequest.model_validate(
        {**known, "include": ["*"], "slot": "kappa", "publication": "kappa", **fields}
    )


def change(**fields: Any) -> PostgresFacts:
    return dataclasses.replace(FACTS, **fields)


def test_a_database_that_is_ready_has_its_tables_counted() -> None:
    result = judge(FACTS, ask())
    assert (result.errors, result.tables, result.problem) == (0, 1, "")
    assert (result.slot, result.system, result.timeline) == (None, "7711", 2)


def test_the_slot_of_the_connector_is_described_and_not_reported_as_forgotten() -> None:
    result = judge(change(slots=(SLOT, Slot("other", active=False))), ask())
    assert result.slot is not None
    assert (result.slot.confirmed, result.slot.retained, result.slot.system) == (500, "1 MiB", "7711")
    assert [each.subject for each in result.findings if each.rule == "slot-inactive"] == ["slot other"]


def test_the_slot_of_the_connector_needs_no_free_one() -> None:
    full = {**SETTINGS, "max_replication_slots": "1"}
    assert judge(change(slots=(SLOT,), settings=full), ask()).errors == 0
    assert judge(change(slots=(SLOT,), settings=full), ask(slot="new")).errors == 1


def test_columns_of_mysql_are_those_of_captured_tables_that_events_have() -> None:
    names = [TableName("shop", name) for name in ("orders", "signals", "other", "view")]
    columns = (("id", "int", True), ("secret", "varchar", False))
    facts = MySQLFacts(
        (10, 11), True, ("reader", "%"), "", tables=(*map(MySQLTable, names[:3]), MySQLTable(names[3], "VIEW")),
        shapes=dict.fromkeys(names, columns),
    )  # fmt: skip
    asked = ask(kind="mysql", include=["shop.*"], exclude=["shop.oth*"], hidden=["shop.*.SECRET"], signal_table="shop.signals")  # fmt: skip
    result = judge(facts, asked)
    assert unpack(result.columns) == {"shop.orders": columns[:1]}
    assert result.fingerprint == compute_fingerprint({"shop.orders": columns[:1]})
    assert result.files == ""


@pytest.mark.parametrize(
    ("fields", "severity"),
    [
        ({}, Severity.ERROR),
        ({"compacted": False}, Severity.WARNING),
        ({"keyed": ["public.lo*"]}, None),
        ({"keyed": ["public.orders"]}, Severity.ERROR),
        ({"exclude": ["logs"]}, None),
    ],
    ids=["compacted", "not compacted", "with a key", "another has a key", "excluded"],
)
def test_a_table_without_a_key_is_an_error_in_compacted_topics(
    fields: dict[str, Any], severity: Severity | None
) -> None:
    logs = PostgresTable(LOGS, has_primary_key=False, replica_identity="f", owned=True)
    result = judge(change(tables=(*FACTS.tables, logs)), ask(**fields))
    found = [each.severity for each in result.findings if each.rule == "no-primary-key"]
    assert found == ([] if severity is None else [severity])


def test_files_of_tables_are_read_where_topics_are_compacted() -> None:
    facts = change(
        tables=(PostgresTable(ORDERS, owned=True, file=16405), PostgresTable(LOGS, kind="p", owned=True))
    )
    assert unpack(judge(facts, ask()).files) == {"public.orders": "16405"}
    assert judge(facts, ask(compacted=False)).files == ""


@pytest.mark.parametrize(
    ("publication", "fields", "owns"),
    [
        (None, {}, True),
        (Publication("kappa", owned=True, all_tables=True), {}, True),
        (Publication("kappa", owned=False, all_tables=True), {}, False),
        (Publication("kappa", owned=True, all_tables=True), {"is_publication_given": True}, False),
    ],
    ids=["none", "own", "of others", "named"],
)
def test_only_an_own_publication_is_changed(
    publication: Publication | None, fields: dict[str, Any], owns: bool
) -> None:
    assert judge(change(publication=publication), ask(**fields)).owns_publication == owns


def test_the_answer_fits_whatever_the_names_are() -> None:
    """Kubernetes keeps 4096 bytes. Errors come first, and a statement is whole or not there."""
    tables = tuple(
        PostgresTable(TableName("public", f"table {number} " + "é" * 50), has_primary_key=False, owned=True)
        for number in range(500)
    )
    result = judge(change(tables=tables), ask())
    assert len(result.model_dump_json(exclude_none=True).encode()) <= MOST_BYTES
    assert result.errors == 1000
    assert result.findings[0].severity is Severity.ERROR
    assert all(
        each.statement.endswith(";") or each.statement == "" or each.rule == "publication"
        for each in result.findings
    )


BEFORE = SlotStatus(name="kappa", system="7711", timeline=1, confirmed=400)


@pytest.mark.parametrize(
    ("before", "now", "system", "position", "text"),
    [
        (BEFORE, BEFORE, "7711", 400, None),
        (BEFORE, BEFORE.replace(confirmed=500), "7711", 500, None),
        (BEFORE, BEFORE.replace(confirmed=501), "7711", 500, "0/1F5, after 0/1F4"),
        (None, BEFORE, "7711", 399, "was created again or moved"),
        (BEFORE, None, "7711", 500, "does not exist any more"),
        (BEFORE, None, "7711", None, None),
        (None, None, "", 500, "does not exist any more"),
        (BEFORE, BEFORE, "8822", 500, "its system identifier was 7711 and is 8822"),
        (BEFORE, BEFORE, "", 500, None),
        (BEFORE, BEFORE.replace(timeline=2), "7711", 500, None),
        (BEFORE, BEFORE.replace(wal_status="lost"), "7711", 500, "SELECT pg_drop_replication_slot('kappa');"),
        (BEFORE, BEFORE.replace(wal_status="unreserved"), "7711", 500, None),
        (BEFORE, BEFORE.replace(confirmed=None), "7711", 500, None),
    ],
)  # fmt: skip
def test_a_slot_lost_changes_if_it_is_ahead_gone_or_of_another_database(
    before: SlotStatus | None, now: SlotStatus | None, system: str, position: int | None, text: str | None
) -> None:
    found = find_loss(before, "kappa", now, system, position)
    assert (found is None) == (text is None)
    assert text is None or text in (found or "")


def test_the_position_is_the_furthest_that_was_stored() -> None:
    """As Debezium 3.7 wrote them: after a snapshot, and after a commit."""
    assert find_position({"lsn": 22323648, "txId": 729, "ts_usec": 1795570106653507}) == 22323648
    assert find_position({"lsn_proc": 10, "messageType": "COMMIT", "lsn_commit": 12, "lsn": 11}) == 12
    assert find_position({}) is None
    assert format_lsn(0x16B3748_00000000 + 0x0A) == "16B3748/A"


UNPUBLISHED = """org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event producer. This connector will be stopped.
\tat io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:67)
Caused by: org.postgresql.util.PSQLException: ERROR: publication "kappa_example" does not exist
  Where: slot "kappa_example", output plugin "pgoutput", in the change callback, associated LSN 0/151F548
"""
TOO_LARGE = """org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception trying to send
Caused by: org.apache.kafka.common.KafkaException: Cannot execute transactional method because we are in an error state
Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is 3200737 bytes when serialized which is larger than 1048576, which is the value of the max.request.size configuration.
"""
"""As a worker of Kafka Connect reported them."""


@pytest.mark.parametrize(
    ("trace", "message", "is_lost"),
    [
        ("io.debezium.DebeziumException: …, but this is no longer available on the server. Reconfigure", "the database does not have the changes", True),
        ("org.postgresql.util.PSQLException: FATAL: password authentication failed for user \"x\"", "refuses the user or the password", False),
        ("ERROR: replication slot \"kappa\" is active for PID 42", "another process reads the replication slot", False),
        ("java.net.UnknownHostException: db.example", "cannot resolve the host", False),
        ("org.apache.kafka.connect.errors.ConnectException: secret row (1, 'me@example.com')\n\tat x", "ConnectException; the log of the workers has details", False),
        (UNPUBLISHED, "the publication was dropped, and the slot cannot decode", True),
        ("Publication autocreation is disabled: publication \"p\" does not exist", "unknown error; the log", False),
        (TOO_LARGE, "a row is 3200737 bytes as a record, and at most 1048576 are allowed; set spec.maxRecordSize to 4Mi or more, or leave out", False),
        (TOO_LARGE.replace("3200737", "100000745"), "leave out or truncate its large column with spec.columns: no more than 90 MiB are possible", False),
        ("java.lang.OutOfMemoryError: Java heap space", "a worker has too little memory for a row", False),
        ("org.apache.kafka.common.errors.RecordTooLargeException: The request included a message larger than", "a row is larger than max.message.bytes of its topic", False),
        ("", "unknown error; the log of the workers has details", False),
        ("<html>me@example.com", "unknown error; the log of the workers has details", False),
    ],
)  # fmt: skip
def test_a_failure_is_explained_without_its_text(trace: str, message: str, is_lost: bool) -> None:
    found = explain_failure(trace)
    assert message in found.message
    assert found.is_lost == is_lost
    assert found.needs_new_slot == (trace == UNPUBLISHED)
    assert "example" not in found.message
