"""What a change of a CDCSource means for its topics: pure, from two specs.

Debezium changes nothing about what it has written, and few changes need a new snapshot; most keep the position. What a person has to know
before is which rows of the topics stay as they were.
"""

from collections.abc import Callable, Iterable, Iterator

from kappa_crds.cdcsource import CDCSourceSpec, Columns, Delivery, SnapshotMode, SourceState
from kappa_crds.databases import SlotGuard
from kappa_crds.model import Model
from kappa_crds.quantities import parse_size

Explain = Callable[[CDCSourceSpec, CDCSourceSpec, str], Iterator[str]]
_KEEPS = "rows in the topics stay as they are until they change or are read again"


def describe_source_change(old: CDCSourceSpec | None, new: CDCSourceSpec, name: str) -> Iterator[str]:
    """Yield what a change means, the most important first; what a new source begins with where `old` is None."""
    if old is None:
        yield from _explain_start(new)
        return
    changed = [field for field in CDCSourceSpec.model_fields if getattr(old, field) != getattr(new, field)]
    for field, explain in EXPLAINED.items():
        if field in changed:
            yield from explain(old, new, name)
    if _differs_in_connector(old, new, changed) or old.snapshot.mode is not new.snapshot.mode:
        is_forgotten = old.snapshot.request != new.snapshot.request
        kept = "" if is_forgotten else "; the position is kept, so no snapshot is taken"
        yield f"the task of the connector restarts{kept}"


def _differs_in_connector(old: CDCSourceSpec, new: CDCSourceSpec, changed: Iterable[str]) -> bool:
    """Return whether the connector has other properties. The guard of a slot is the operator's own."""
    guarded = [each.postgresql and each.postgresql.replace(slot_guard=SlotGuard()) for each in (old, new)]
    ignored = {"postgresql"} if guarded[0] == guarded[1] else set()
    return bool((RESTARTING - ignored) & set(changed))


def _explain_start(new: CDCSourceSpec) -> Iterator[str]:
    if new.snapshot.mode is SnapshotMode.NEVER:
        yield "the source begins at the end of the log of the database; rows that the tables have already are not read"
    else:
        yield "the source begins with a snapshot of all rows of its tables, unless Kafka Connect has the position of an earlier one"


def _explain_snapshot(old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    before, after = old.snapshot, new.snapshot
    if before.request != after.request and after.mode is SnapshotMode.NEVER:
        yield "the position is forgotten, and with snapshot mode Never the connector continues at the end of the log: changes between are missing"
    elif before.request != after.request:
        yield "a new snapshot: the position is forgotten, and all rows of all tables are read again; rows that were deleted meanwhile stay in the topics"
    wanted, known = after.incremental, before.incremental
    if wanted is not None and (known is None or known.request != wanted.request):
        tables = ", ".join(each.table for each in wanted.tables)
        yield f"an incremental snapshot: rows of {tables} are read again while changes are read"
        if new.signal_table is None:
            yield "it waits, because spec.signalTable is missing"
    elif wanted is not None and known is not None and wanted.stop and not known.stop:
        yield "the incremental snapshot is stopped; rows that were read stay in the topics"
    if before.mode is not after.mode:
        yield f"snapshot mode {after.mode} counts at the next start without a position; no snapshot is taken now"


def _explain_tables(old: CDCSourceSpec, new: CDCSourceSpec, name: str) -> Iterator[str]:
    added = [*_subtract(new.tables.include, old.tables.include), *_subtract(old.tables.exclude, new.tables.exclude)]  # fmt: skip
    gone = [*_subtract(old.tables.include, new.tables.include), *_subtract(new.tables.exclude, old.tables.exclude)]  # fmt: skip
    if added:
        yield f"added to the tables: {', '.join(added)}; their changes are read from now on, and rows that they have already are not"
        options = (
            "".join(f" --table {each}" for each in added if not set("*?") & set(each)) or " --table TABLE"
        )
        first = "" if new.signal_table else "set spec.signalTable, and then "
        yield f"for these rows, {first}run: kappa cdc snapshot {name}{options}"
    if gone:
        yield f"removed from the tables: {', '.join(gone)}; topics and rows stay, and changes from now on are missing, also if they are added again"


def _explain_columns(old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    before, after = old.columns or Columns(), new.columns or Columns()
    parts = [part for part in Columns.model_fields if getattr(before, part) != getattr(after, part)]
    yield f"columns ({', '.join(parts)}) are written otherwise from now on; {_KEEPS}"
    if any(_is_hidden_more(getattr(before, part), getattr(after, part)) for part in parts):
        yield "values that are hidden from now on are still in the topics, and in state and topics that pipelines made of them; delete the topics to be rid of them"
    if before.hash and after.hash and before.hash != after.hash:
        yield "hashes of before and after may differ for equal values, so they cannot be joined"


def _is_hidden_more(before: Iterable[object], after: Iterable[object]) -> bool:
    return bool(_subtract(map(_write, after), map(_write, before)))


def _write(value: object) -> str:
    return value.model_dump_json() if isinstance(value, Model) else str(value)


def _explain_keys(_old: CDCSourceSpec, _new: CDCSourceSpec, _name: str) -> Iterator[str]:
    yield "records have other keys from now on, so compaction never removes rows with their old keys; a CDCSource with another topicPrefix has none of them"


def _explain_offsets(_old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    wanted = new.offsets
    if wanted is None or (wanted.set is None and not wanted.reset):
        return
    is_stopped = new.state is SourceState.STOPPED
    what = "is forgotten" if wanted.set is None else f"becomes {wanted.set.lsn}: transactions before it are not read"  # fmt: skip
    yield (
        f"the position {what}"
        if is_stopped
        else "the position is not changed, because spec.state is not Stopped"
    )


def _explain_database(old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    was, now = old.database, new.database
    if (was.host, was.port) != (now.host, now.port):
        yield f"the connector continues at {now.host}:{now.port} at its position; a database with another system identifier, or without the slot, is reported as ChangesLost"
    if old.postgresql and new.postgresql and old.postgresql.publication != new.postgresql.publication:
        yield "another publication: changes of tables that it lacks are not read"


def _explain_outbox(_old: CDCSourceSpec, _new: CDCSourceSpec, _name: str) -> Iterator[str]:
    yield "events of the outbox are written by the new settings from now on; those that were written stay where they are"


def _explain_topics(_old: CDCSourceSpec, _new: CDCSourceSpec, _name: str) -> Iterator[str]:
    yield "spec.topics counts for topics that are created from now on; existing ones are not changed"


def _explain_record_size(old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    before, after = (parse_size(each.max_record_size or "1Mi") for each in (old, new))
    if after < before:
        yield "records that are larger fail from now on; max.message.bytes of the topics stays as it is"


def _explain_decimals(_old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    yield f"decimals are written as {new.decimals} from now on, and pipelines read one form (envelope.decimals); {_KEEPS}"


def _explain_tombstones(_old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    if not new.tombstones:
        yield "deletions are not followed by tombstones from now on, so compaction keeps a record of each deleted row"


def _explain_transactions(_old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    what = "have" if new.transactions else "do not have"
    yield f"events {what} their transaction from now on; those in the topics stay as they are"


def _explain_delivery(_old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    if new.delivery is Delivery.AT_LEAST_ONCE:
        yield "changes may be written more than once where a worker dies; tables of pipelines ignore the repetitions"


def _explain_signal_table(_old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    if new.signal_table is None:
        yield "snapshots of some tables cannot be requested any more; one that is under way ends without the rest of its rows"
    else:
        yield f"table {new.signal_table} has to be in the database; the check reports the statement that creates it"


def _explain_schema_changes(_old: CDCSourceSpec, new: CDCSourceSpec, _name: str) -> Iterator[str]:
    if new.schema_changes is not None and new.schema_changes.accept:
        yield f"the change with the fingerprint {new.schema_changes.accept} is accepted"


def _explain_nothing(_old: CDCSourceSpec, _new: CDCSourceSpec, _name: str) -> Iterator[str]:
    """Explain a change that concerns no row: the API server refuses it, or only the operator uses the field."""
    yield from ()


def _subtract(some: Iterable[str], others: Iterable[str]) -> list[str]:
    known = set(others)
    return [each for each in some if each not in known]


EXPLAINED: dict[str, Explain] = {
    "snapshot": _explain_snapshot, "offsets": _explain_offsets, "tables": _explain_tables, "columns": _explain_columns,
    "keys": _explain_keys, "postgresql": _explain_database, "mysql": _explain_database, "mariadb": _explain_database,
    "outbox": _explain_outbox, "decimals": _explain_decimals, "topics": _explain_topics, "max_record_size": _explain_record_size, "tombstones": _explain_tombstones,
    "transactions": _explain_transactions, "delivery": _explain_delivery, "signal_table": _explain_signal_table,
    "schema_changes": _explain_schema_changes, "cluster_ref": _explain_nothing, "topic_prefix": _explain_nothing,
    "heartbeat_interval": _explain_nothing, "config": _explain_nothing, "state": _explain_nothing, "restart": _explain_nothing,
    "check_interval": _explain_nothing, "proof": _explain_nothing, "deletion_policy": _explain_nothing, "topic_deletion_policy": _explain_nothing,
}  # fmt: skip
"""What explains the change of each field, in the order of its sentences. No field is missing."""
RESTARTING = frozenset({
    "postgresql", "mysql", "mariadb", "tables", "columns", "keys", "outbox", "topics", "decimals", "tombstones", "transactions",
    "heartbeat_interval", "delivery", "config", "signal_table", "max_record_size",
})  # fmt: skip
"""Fields that become properties of the connector, as does snapshot.mode."""
