"""Debezium's connector for PostgreSQL."""

from kappa_crds.databases import PostgreSql
from kappa_operator.cdc.connector.common import Source, build_common, check_values
from kappa_operator.cdc.connector.names import CA, find_file, name_publication, name_slot

CLASS = "io.debezium.connector.postgresql.PostgresConnector"
SCHEMA = "public"
"""The schema of patterns without one."""


def build_postgresql(source: Source, database: PostgreSql, *, owns_publication: bool) -> dict[str, str]:
    """Return the configuration. The publication is created, and changed with the tables, only where it is the connector's own."""
    is_managed = database.publication is None and owns_publication
    config = {
        **build_common(source, SCHEMA),
        "connector.class": CLASS,
        "plugin.name": "pgoutput",
        "database.dbname": database.database,
        "slot.name": name_slot(source.namespace, source.name, database),
        "slot.drop.on.stop": "false",
        "publication.name": name_publication(source.namespace, source.name, database),
        "publication.autocreate.mode": "filtered" if is_managed else "disabled",
        "database.sslmode": "disable",
    }
    if database.failover_slot:
        config["slot.failover"] = "true"  # ignored by servers before PostgreSQL 17
    if database.tls is not None:
        config |= {"database.sslmode": "verify-full", "database.sslrootcert": find_file(source.name, CA)}
    return check_values(source, config)
