"""The shop of the demo in a MariaDB of the cluster: the same application and views, with the words of this database."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from demo.shop.application import EXAMPLE, Database, Result, fill_tables
from demo.shop.manifests import SECRET
from demo.shop.scene import DATABASE, Shop
from lab.database_pods import HOST, DatabasePod

_SESSION = "SET sql_mode = 'STRICT_TRANS_TABLES,PIPES_AS_CONCAT', time_zone = '+00:00'"


def _read_time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass(frozen=True)
class Connection:
    """A connection with the methods of psycopg that the application uses."""

    inner: "pymysql.Connection[pymysql.cursors.Cursor]"

    def execute(self, query: bytes, params: Sequence[object] | None = None, /) -> Result:
        """Run a statement and return its rows."""
        cursor = self.inner.cursor()
        cursor.execute(query.decode(), params or None)
        return cast("Result", cursor)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction, and commit it where the block has no error."""
        self.inner.begin()
        try:
            yield
        except BaseException:
            if self.inner.open:
                self.inner.rollback()
            raise
        self.inner.commit()


@dataclass(frozen=True)
class MariaDBShop(Shop):
    """A database with the tables of the shop, and the password of the connector."""

    @contextmanager
    def connect(self) -> Iterator[Database]:
        """Give a connection of the administrator."""
        with connect(self, DATABASE) as connection:
            yield Connection(connection)

    @property
    def url(self) -> str:
        """Return the URL of the server, with the user of the connector."""
        return f"mariadb://debezium@{HOST}:{self.server.port}"

    def create_tables(self) -> None:
        """Create the tables with their first rows. There are no foreign keys."""
        with connect(self, None) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
            cursor.execute(f"GRANT SELECT ON {DATABASE}.* TO debezium")
        with self.connect() as database:
            for statement in build_schema():
                database.execute(statement.encode())
            fill_tables(database)


def connect(shop: Shop, database: str | None) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    """Return a connection of the administrator, with TLS."""
    return pymysql.connect(
        host=HOST,
        port=shop.server.port,
        user="root",
        password=shop.server.server.password,
        database=database,
        autocommit=True,
        connect_timeout=5,
        read_timeout=10,
        init_command=_SESSION,
        ssl={"check_hostname": False},
        conv={**conversions, FIELD_TYPE.TIMESTAMP: _read_time},
    )


def build_schema() -> list[str]:
    """Return the statements that create the tables of the example."""
    text = (EXAMPLE / "schema.sql").read_text().replace("TIMESTAMPTZ", "TIMESTAMP(6)")
    text = re.sub(r" REFERENCES \w+", "", text)
    return re.findall(r"^CREATE TABLE [^;]+", text, re.MULTILINE)


def build_database(server: DatabasePod) -> dict[str, Any]:
    """Return the fields of the CDCSource in which it differs from the one of PostgreSQL."""
    secret = {"name": SECRET}
    database = {
        "host": server.host,
        "serverId": 7_002,
        "credentialsSecretRef": secret,
        "tls": {"caSecretRef": secret},
    }
    return {"mariadb": database, "tables": {"include": [f"{DATABASE}.*"]}}
