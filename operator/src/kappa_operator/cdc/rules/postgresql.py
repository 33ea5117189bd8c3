"""Rules about a PostgreSQL server and the user of the connector."""

from collections.abc import Iterator

from kappa_operator.cdc.facts import PostgresFacts, Slot
from kappa_operator.cdc.findings import Finding, Severity
from kappa_operator.cdc.quoting import quote_postgresql, quote_postgresql_text
from kappa_operator.cdc.rules.failover import check_failover
from kappa_operator.cdc.rules.request import Request

OLDEST, NEWEST = 12, 18
"""Major versions that Debezium 3.x supports."""
_DEAD = ("lost", "unreserved")
_RESTART = "Restart the server afterwards."
_RELOAD = "SELECT pg_reload_conf();"
_STATUS_INTERVAL_MS = 10_000
"""How often Debezium confirms its position."""


def check_server(facts: PostgresFacts, request: Request) -> Iterator[Finding]:
    """Yield what is wrong with the server and the user."""
    own = next((each for each in facts.slots if each.name == request.slot), None)
    yield from _check_version(facts)
    if facts.major < OLDEST:
        return
    yield from _check_recovery(facts)
    yield from _check_wal_level(facts)
    if own is None:
        yield from _check_capacity(facts, "max_replication_slots", len(facts.slots), "replication slots")
    if own is None or not own.active:
        yield from _check_capacity(facts, "max_wal_senders", facts.senders, "WAL senders")
    yield from _check_sender_timeout(facts)
    yield from _check_wal_limit(facts)
    for slot in facts.slots:
        if slot is not own:
            yield from _check_slot(slot)
    yield from _check_replication(facts)
    yield from check_failover(facts, request, own)


def _check_version(facts: PostgresFacts) -> Iterator[Finding]:
    if facts.major < OLDEST:
        yield Finding(
            Severity.ERROR, "version", "server", f"PostgreSQL {facts.major} is older than {OLDEST}.",
            "Debezium does not support it.", advice="Upgrade the server.",
        )  # fmt: skip
    if facts.major > NEWEST:
        yield Finding(
            Severity.INFORMATION, "version", "server", f"PostgreSQL {facts.major} is newer than {NEWEST}.",
            "Debezium 3 was released before it.", advice="Test the connector first.",
        )  # fmt: skip


def _check_recovery(facts: PostgresFacts) -> Iterator[Finding]:
    if not facts.in_recovery:
        return
    if facts.major < 16:
        yield Finding(
            Severity.ERROR, "standby", "server", "The server is a standby.",
            "Logical decoding on a standby needs PostgreSQL 16.", advice="Connect to the primary.",
        )  # fmt: skip
        return
    feedback = facts.settings.get("hot_standby_feedback") == "on"
    statements = ("ALTER SYSTEM SET hot_standby_feedback = 'on';", _RELOAD)
    yield Finding(
        Severity.INFORMATION if feedback else Severity.WARNING,
        "standby",
        "server",
        "The server is a standby." if feedback else "The server is a standby without hot_standby_feedback.",
        "Publications are created on the primary. Without the feedback, or after a change of wal_level there, the slot is lost.",
        () if feedback else statements,
    )


def _check_wal_level(facts: PostgresFacts) -> Iterator[Finding]:
    level = facts.settings.get("wal_level")
    if level != "logical":
        yield Finding(
            Severity.ERROR, "wal-level", "wal_level", f"wal_level is {level}, not logical.",
            "The WAL lacks what logical decoding needs.",
            ("ALTER SYSTEM SET wal_level = 'logical';",), advice=f"{_RESTART} On Amazon RDS, set rds.logical_replication = 1.",
        )  # fmt: skip


def _check_capacity(facts: PostgresFacts, setting: str, used: int, what: str) -> Iterator[Finding]:
    most = facts.get_int(setting)
    if used >= most:
        yield Finding(
            Severity.ERROR, setting.replace("_", "-"), setting, f"All {most} {what} are in use.",
            "The connector needs one of its own.",
            (f"ALTER SYSTEM SET {setting} = {used + 4};",), advice=_RESTART,
        )  # fmt: skip


def _check_sender_timeout(facts: PostgresFacts) -> Iterator[Finding]:
    milliseconds = facts.get_int("wal_sender_timeout")
    if milliseconds > 2 * _STATUS_INTERVAL_MS:
        return
    why = (
        "The server never notices a connection that is gone, so its slot stays in use."
        if milliseconds == 0
        else f"Debezium confirms its position every {_STATUS_INTERVAL_MS // 1000} s, so the server closes its connection."
    )
    yield Finding(
        Severity.WARNING, "wal-sender-timeout", "wal_sender_timeout", f"wal_sender_timeout is {milliseconds} ms.", why,
        ("ALTER SYSTEM SET wal_sender_timeout = '60s';", _RELOAD),
    )  # fmt: skip


def _check_wal_limit(facts: PostgresFacts) -> Iterator[Finding]:
    if facts.major >= 13 and facts.get_int("max_slot_wal_keep_size") < 0:
        yield Finding(
            Severity.WARNING,
            "max-slot-wal-keep-size",
            "max_slot_wal_keep_size",
            "The WAL that a slot keeps has no limit.",
            "A connector that is stopped fills the disk, and the database stops. Beyond the limit the slot is lost instead, and a new snapshot is needed.",
            ("ALTER SYSTEM SET max_slot_wal_keep_size = '50GB';", _RELOAD),
            advice="Replace 50GB by what the disk has free, and alert before it is reached.",
        )


def _check_slot(slot: Slot) -> Iterator[Finding]:
    drop = (f"SELECT pg_drop_replication_slot({quote_postgresql_text(slot.name)});",)
    subject = f"slot {slot.name}"
    if slot.wal_status in _DEAD and not slot.active:
        yield Finding(
            Severity.WARNING, "slot-lost", subject, f"The slot is {slot.wal_status}.",
            "Its consumer cannot continue without a gap.", drop, advice="Its consumer needs a new snapshot.",
        )  # fmt: skip
    elif not slot.active:
        size = (
            "an unknown amount" if slot.retained_bytes is None else f"{slot.retained_bytes / 2**20:,.0f} MiB"
        )
        yield Finding(
            Severity.WARNING, "slot-inactive", subject, f"No consumer is connected, and the slot keeps {size} of WAL.",
            "The WAL grows until a consumer connects or the disk is full.", drop,
            advice="Drop the slot only if its consumer never returns: what it has not read is lost for it.",
        )  # fmt: skip


def _check_replication(facts: PostgresFacts) -> Iterator[Finding]:
    if facts.can_replicate or facts.is_superuser:
        return
    role = quote_postgresql(facts.user)
    statement = (
        f"GRANT rds_replication TO {role};" if facts.has_rds_role else f"ALTER ROLE {role} REPLICATION;"
    )
    yield Finding(
        Severity.ERROR, "replication", f"user {facts.user}", "The user may not use replication.",
        "The connector cannot create its slot and read the WAL.", (statement,),
    )  # fmt: skip
