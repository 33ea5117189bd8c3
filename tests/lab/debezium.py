"""What every connector of Debezium in a test needs: its database, its prefix, and topics on one broker. Tests add the rest."""

from lab.mariadb import MariaDB
from lab.mysql import MySQL
from lab.postgres import DATABASE, USER, Postgres

JSON = "org.apache.kafka.connect.json.JsonConverter"
_ONE_BROKER = {
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
}


def configure_postgres(database: Postgres, prefix: str) -> dict[str, str]:
    """Return the properties of a connector of PostgreSQL."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": USER,
        "database.password": "unused",
        "database.dbname": DATABASE,
        "topic.prefix": prefix,
        "plugin.name": "pgoutput",
        **_ONE_BROKER,
    }


def configure_mariadb(database: MariaDB, bootstrap: str, name: str, prefix: str) -> dict[str, str]:
    """Return the properties of a connector of one database of MariaDB or MySQL, with the history of its schemas in a topic."""
    is_mysql = isinstance(database, MySQL)
    return {
        "connector.class": f"io.debezium.connector.{'mysql.MySql' if is_mysql else 'mariadb.MariaDb'}Connector",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": "4711",
        "database.ssl.mode": "disabled" if is_mysql else "disable",
        "database.include.list": name,
        "topic.prefix": prefix,
        "schema.history.internal.kafka.topic": f"{prefix}.history",
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        **_ONE_BROKER,
    }


def write_json(*, keys_with_schemas: bool, values_with_schemas: bool) -> dict[str, str]:
    """Return the properties by which a connector or worker writes JSON."""
    return {
        "key.converter": JSON,
        "key.converter.schemas.enable": str(keys_with_schemas).lower(),
        "value.converter": JSON,
        "value.converter.schemas.enable": str(values_with_schemas).lower(),
    }
