"""Rules about failover slots of PostgreSQL 17: whether the slot of the connector survives a failover.

Source: PostgreSQL, "Logical Replication Failover" and `ALTER_REPLICATION_SLOT` of the replication protocol.
"""

from collections.abc import Iterator

from kappa_operator.cdc.facts import PostgresFacts, Slot
from kappa_operator.cdc.findings import Finding, Severity
from kappa_operator.cdc.rules.request import Request

FIRST = 17
"""The first major version that has failover slots."""
_RELOAD = "SELECT pg_reload_conf();"


def check_failover(facts: PostgresFacts, request: Request, own: Slot | None) -> Iterator[Finding]:
    """Yield what keeps the slot from surviving a failover where that is wanted, and that it could where it is not."""
    if request.failover:
        yield from _check_wanted(facts, own)
    elif facts.major >= FIRST and not facts.in_recovery:
        yield Finding(
            Severity.INFORMATION, "failover-slots", "server", "The server supports failover slots.",
            "With slot.failover of Debezium, and sync_replication_slots on the standby, the slot survives a failover.",
        )  # fmt: skip


def _check_wanted(facts: PostgresFacts, own: Slot | None) -> Iterator[Finding]:
    if facts.major < FIRST:
        yield Finding(
            Severity.WARNING, "failover-slots", "server", f"PostgreSQL {facts.major} has no failover slots.",
            "The slot is lost with a failover, and a new snapshot is needed.", advice=f"Upgrade the server to PostgreSQL {FIRST}.",
        )  # fmt: skip
        return
    if facts.in_recovery:
        yield Finding(
            Severity.WARNING, "failover-slots", "server", "A slot on a standby is not copied to other servers.",
            "It is lost with a failover, and a new snapshot is needed.", advice="Read from the primary.",
        )  # fmt: skip
        return
    if own is not None and own.failover is False:
        yield Finding(
            Severity.WARNING, "failover-slots", f"slot {own.name}", "The slot was created without failover.",
            "It is lost with a failover, and a new snapshot is needed.",
            advice=f"Pause the connector and run over a replication connection: ALTER_REPLICATION_SLOT {own.name} (FAILOVER true);",
        )  # fmt: skip
    if not facts.settings.get("synchronized_standby_slots"):
        yield Finding(
            Severity.WARNING, "synchronized-standby-slots", "synchronized_standby_slots", "synchronized_standby_slots is empty.",
            "The connector may read changes that the standby lacks, and they are gone after a failover.",
            ("ALTER SYSTEM SET synchronized_standby_slots = 'standby';", _RELOAD),
            advice="Replace standby by the physical slot of the standby, which needs sync_replication_slots = on.",
        )  # fmt: skip
