"""Rules about failover slots of PostgreSQL 17: whether the slot of the connector survives a failover.

Source: PostgreSQL, "Logical Replication Failover" and `ALTER_REPLICATION_SLOT` of the replication protocol.
"""

from collections.abc import Iterable, Iterator

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
    awaited = [name.strip().strip('"') for name in facts.settings.get("synchronized_standby_slots", "").split(",") if name.strip()]  # fmt: skip
    yield from _check_awaited(facts, awaited)
    if not awaited:
        yield Finding(
            Severity.WARNING, "synchronized-standby-slots", "synchronized_standby_slots", "synchronized_standby_slots is empty.",
            "The connector may read changes that the standby lacks, and they are gone after a failover.",
            ("ALTER SYSTEM SET synchronized_standby_slots = 'standby';", _RELOAD),
            advice="Replace standby by the physical slot of the standby, which needs sync_replication_slots = on.",
        )  # fmt: skip


def _check_awaited(facts: PostgresFacts, names: Iterable[str]) -> Iterator[Finding]:
    """Yield the slots of standbys that the server waits for in vain. After a failover they may be those of the former primary."""
    known = {each.name: each for each in facts.slots}
    for name in names:
        slot = known.get(name)
        if slot is None or not slot.active:
            missing = "does not exist" if slot is None else "is of a standby that does not follow"
            yield Finding(
                Severity.ERROR, "synchronized-standby-slots", "synchronized_standby_slots", f"It names slot {name}, which {missing}.",
                "The server sends no change to the connector until that standby has it.",
                ("ALTER SYSTEM SET synchronized_standby_slots = '';", _RELOAD),
                advice="The statement continues without a standby: changes that are read then may be gone after a failover.",
            )  # fmt: skip
