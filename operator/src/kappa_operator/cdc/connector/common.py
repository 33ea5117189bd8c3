"""What connectors of all databases have in common.

Values come from a contract that has no place for a property of the author's choice: no class, transformation, statement or file. As a
second wall, `check_values` refuses whatever Kafka Connect would replace, but for the source's own credentials.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kappa_crds.cdcsource import CDCSourceSpec, Columns, Delivery, SnapshotMode
from kappa_crds.envelope import DecimalEncoding
from kappa_crds.quantities import parse_duration, parse_size
from kappa_crds.topic import Cleanup
from kappa_operator.cdc.connector.expressions import list_columns, list_tables, qualify, to_expression
from kappa_operator.cdc.connector.names import PASSWORD, USERNAME, refer
from kappa_operator.cdc.connector.outbox import GROUP, ROUTED, build_outbox

OWNER, CREDENTIALS = "kappa.uid", "kappa.credentials"
"""Properties of our own, which Debezium ignores: the uid of the CDCSource, and a fingerprint of its credentials."""
MAX_MESSAGE_BYTES = "max.message.bytes"
"""The config of a topic that limits its records."""
_TRANSACTIONS = "transactions"
"""The group of the topic with the begin and end of each transaction."""
_BUFFER_BYTES = 33_554_432
"""Kafka's default of buffer.memory, which has to have room for the largest record."""
SIGNAL_TABLE = "signal.data.collection"
POLL_INTERVAL, POLL_MILLIS = "poll.interval.ms", "100"
"""How long a change waits for others. Debezium's 500 ms are most of the time to the topic; the transactions of Kafka stay ten per second."""
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_SNAPSHOTS = {
    SnapshotMode.INITIAL: "initial",
    SnapshotMode.NEVER: "no_data",
    SnapshotMode.WHEN_NEEDED: "when_needed",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A source, as its configuration needs it. `credentials` is a fingerprint that changes with its Secrets."""

    namespace: str
    name: str
    uid: str
    spec: CDCSourceSpec
    credentials: str = ""

    @property
    def prefix(self) -> str:
        """Return what the names of its topics begin with."""
        return self.spec.topic_prefix or self.name


def build_common(source: Source, default_schema: str) -> dict[str, str]:
    """Return the properties of a connector, whatever the database."""
    spec, topics = source.spec, source.spec.topics
    tables = list_tables(spec.tables.include, spec.tables.exclude, default_schema)
    is_exact = spec.delivery is Delivery.EXACTLY_ONCE
    return {
        **_build_limits(spec),
        POLL_INTERVAL: POLL_MILLIS,
        **{name: str(number) for name, number in spec.config.items()},
        OWNER: source.uid,
        CREDENTIALS: source.credentials,
        "tasks.max": "1",
        "topic.prefix": source.prefix,
        "database.hostname": spec.database.host,
        "database.port": str(spec.database.port),
        "database.user": refer(source.name, USERNAME),
        "database.password": refer(source.name, PASSWORD),
        "table.include.list": tables,
        "snapshot.mode": _SNAPSHOTS[spec.snapshot.mode],
        "heartbeat.interval.ms": str(round(parse_duration(spec.heartbeat_interval) * 1000)),
        "tombstones.on.delete": _flag(spec.tombstones),
        "provide.transaction.metadata": _flag(spec.transactions),
        "decimal.handling.mode": "precise" if spec.decimals is DecimalEncoding.BASE64 else "string",
        "exactly.once.support": "required" if is_exact else "requested",
        "errors.max.retries": "0",  # the operator restarts failed tasks, and reports why they failed
        "topic.creation.default.partitions": str(topics.partitions),
        "topic.creation.default.replication.factor": str(topics.replication or -1),
        "topic.creation.default.cleanup.policy": topics.cleanup.value,
        **_build_groups(source),
        **_build_truncations(spec),
        **_build_converters(),
        **dict(_build_columns(spec.columns or Columns())),
        **_build_keys(spec, default_schema),
        **_build_outbox(source, default_schema),
        **_build_signals(spec, default_schema),
    }


def _build_groups(source: Source) -> dict[str, str]:
    """Return the properties of topics that are not those of tables. Compaction would remove events, and would keep all transactions.

    Kafka Connect takes the first group that fits, and that of events fits all names.
    """
    groups = (_TRANSACTIONS,) * source.spec.transactions + (GROUP,) * (source.spec.outbox is not None)
    if not groups:
        return {}
    found = {
        "topic.creation.groups": ",".join(groups),
        **{f"topic.creation.{group}.cleanup.policy": "delete" for group in groups},
    }
    if _TRANSACTIONS in groups:
        found[f"topic.creation.{_TRANSACTIONS}.include"] = to_expression(f"{source.prefix}.transaction")
        found[f"topic.creation.{_TRANSACTIONS}.partitions"] = "1"
    if GROUP in groups:
        found[f"topic.creation.{GROUP}.include"] = f"{to_expression(source.prefix)}[.][^.]+"
    return found


def _build_truncations(spec: CDCSourceSpec) -> dict[str, str]:
    """Return the property that has truncations written. A compacted topic refuses them, as they have no key, and the router of an outbox
    fails on them."""
    writes = spec.topics.cleanup is Cleanup.DELETE and spec.outbox is None
    return {"skipped.operations": "none"} if writes else {}


def _build_limits(spec: CDCSourceSpec) -> dict[str, str]:
    """Return the properties for large records. Debezium's queue is bounded by bytes: else it holds thousands of them in memory."""
    if spec.max_record_size is None:
        return {}
    size = parse_size(spec.max_record_size)
    groups = ("default",) if spec.outbox is None else ("default", GROUP)
    return {
        **{f"topic.creation.{group}.{MAX_MESSAGE_BYTES}": str(size) for group in groups},
        "producer.override.max.request.size": str(size),
        "producer.override.buffer.memory": str(max(size, _BUFFER_BYTES)),
        "max.queue.size.in.bytes": str(size),
    }


def _build_outbox(source: Source, default_schema: str) -> dict[str, str]:
    spec = source.spec
    if spec.outbox is None:
        return {}
    table = qualify(spec.outbox.table, default_schema)
    if not any(
        re.fullmatch(to_expression(qualify(each, default_schema)), table) for each in spec.tables.include
    ):
        raise ValueError(
            f"spec.tables.include has no {spec.outbox.table}, the table of spec.outbox, so no event would be read; add it"
        )
    return build_outbox(spec.outbox, source.prefix, default_schema)


def _build_signals(spec: CDCSourceSpec, default_schema: str) -> dict[str, str]:
    if spec.signal_table is None:
        return {}
    return {SIGNAL_TABLE: qualify(spec.signal_table, default_schema), "signal.enabled.channels": "source"}


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _build_converters() -> dict[str, str]:
    return {
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
    }


def _build_columns(columns: Columns) -> Iterator[tuple[str, str]]:
    """Yield the properties of columns. Those of the same length, or of the same hash and salt, share one."""
    lists: dict[str, list[str]] = {}
    if columns.exclude:
        lists["column.exclude.list"] = list(columns.exclude)
    for masked in columns.mask:
        lists.setdefault(f"column.mask.with.{masked.length}.chars", []).extend(masked.columns)
    for cut in columns.truncate:
        lists.setdefault(f"column.truncate.to.{cut.length}.chars", []).extend(cut.columns)
    for hashed in columns.hash:
        name = f"column.mask.hash.v2.{hashed.algorithm}.with.salt.{hashed.salt}"
        lists.setdefault(name, []).extend(hashed.columns)
    yield from ((name, list_columns(patterns)) for name, patterns in lists.items())


def _build_keys(spec: CDCSourceSpec, default_schema: str) -> dict[str, str]:
    keys = [
        f"{to_expression(qualify(key.table, default_schema))}:{','.join(key.columns)}" for key in spec.keys
    ]
    return {"message.key.columns": ";".join(keys)} if keys else {}


def check_values(source: Source, config: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration; raise ValueError where a value would be replaced by a secret that is not the source's own."""
    own = {refer(source.name, USERNAME), refer(source.name, PASSWORD)}
    for name, value in config.items():
        if value not in own and ("${" in value.replace(ROUTED, "") or not value.isprintable()):
            raise ValueError(f"the value of {name} has a character sequence that Kafka Connect may replace")
    return dict(config)
