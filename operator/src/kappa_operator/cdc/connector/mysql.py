"""Debezium's connectors for MySQL and MariaDB. Both keep the history of the schemas in a topic of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kappa_crds.databases import MySql
from kappa_operator.cdc.connector.common import Source, build_common, check_values
from kappa_operator.cdc.connector.expressions import to_expression
from kappa_operator.cdc.connector.names import TRUSTSTORE, find_file

MYSQL_CLASS = "io.debezium.connector.mysql.MySqlConnector"
MARIADB_CLASS = "io.debezium.connector.mariadb.MariaDbConnector"
TRUSTSTORE_PASSWORD = "changeit"  # noqa: S105 - Java requires one; the file has certificates of authorities only
_VERIFIED = {MYSQL_CLASS: "verify_identity", MARIADB_CLASS: "verify-full"}
_PLAIN = {MYSQL_CLASS: "disabled", MARIADB_CLASS: "disable"}


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """Where the history of the schemas is kept: the topic, which is also the consumer group, the brokers, and settings without secrets."""

    topic: str
    bootstrap_servers: tuple[str, ...]
    client: Mapping[str, str] = field(default_factory=dict)


def build_mysql(source: Source, database: MySql, history: SchemaHistory) -> dict[str, str]:
    """Return the configuration for MySQL or MariaDB."""
    kind = MYSQL_CLASS if source.spec.mysql is not None else MARIADB_CLASS
    schemas = dict.fromkeys(each.partition(".")[0] for each in source.spec.tables.include)
    config = {
        **build_common(source, ""),
        "connector.class": kind,
        "database.server.id": str(database.server_id),
        "database.include.list": ",".join(map(to_expression, schemas)),
        "include.schema.changes": "false",
        "database.ssl.mode": _PLAIN[kind],
        # A connection that was cut is noticed within two intervals only.
        "connect.keep.alive.interval.ms": "10000",
        **_build_history(history),
    }
    if database.tls is not None:
        config |= {
            "database.ssl.mode": _VERIFIED[kind],
            "database.ssl.truststore": find_file(source.name, TRUSTSTORE),
            "database.ssl.truststore.password": TRUSTSTORE_PASSWORD,
        }
    elif kind == MYSQL_CLASS:
        config["driver.allowPublicKeyRetrieval"] = "true"
    return check_values(source, config)


def _build_history(history: SchemaHistory) -> dict[str, str]:
    start = "schema.history.internal."
    properties = {
        f"{start}kafka.topic": history.topic,
        f"{start}kafka.bootstrap.servers": ",".join(history.bootstrap_servers),
        f"{start}consumer.group.id": history.topic,
        f"{start}store.only.captured.tables.ddl": "true",
    }
    for role in ("producer", "consumer"):
        properties |= {f"{start}{role}.{name}": value for name, value in history.client.items()}
    return properties
