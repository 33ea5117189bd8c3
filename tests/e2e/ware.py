"""A warehouse in a MariaDB of the cluster: one table that is written to all the time, its topic, and what differs between them."""

import contextlib
import json
import random
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self, TypeAlias

import pymysql

from demo.compare import read_topic
from kappa_crds import API_VERSION
from lab.database_pods import HOST, DatabasePod, RunningDatabase
from lab.shell import wait_until

NAME = "ware"
TABLE = f"{NAME}.stock"
ROWS = 500
_SECRET = "ware-database"
_PAUSE = 0.05
_CUT = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError)
_GRANTS = "BINLOG MONITOR, REPLICATION SLAVE, RELOAD, SHOW DATABASES, LOCK TABLES"

Row = tuple[Any, ...]
Connection: TypeAlias = "pymysql.Connection[pymysql.cursors.Cursor]"


@dataclass
class Ware:
    """A context: the table, and a thread that writes to it, over as many connections as the database cuts."""

    database: RunningDatabase
    seed: int
    password: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    """The password of the user `debezium`."""
    done: int = 0
    """Transactions whose commit was confirmed."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=NAME)
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def read_rows(self) -> dict[int, Row]:
        """Return the rows of the table by their key."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, name, amount, changed FROM ware.stock")
            return {row[0]: row for row in cursor}

    def create_table(self) -> None:
        """Create the table with its first rows, and the user of the connector."""
        wait_until(self._answers, "MariaDB answers on the loopback", seconds=30)
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE ware")
            cursor.execute(
                "CREATE TABLE ware.stock (id INT PRIMARY KEY, name VARCHAR(80), amount INT NOT NULL, changed TIMESTAMP(6) NOT NULL)"
            )
            cursor.execute("CREATE USER debezium IDENTIFIED BY %s", (self.password,))
            cursor.execute(f"GRANT {_GRANTS} ON *.* TO debezium")
            cursor.execute("GRANT SELECT ON ware.* TO debezium")
            rows = [(number, f"box {number}") for number in range(1, ROWS + 1)]
            cursor.executemany("INSERT INTO ware.stock VALUES (%s, %s, 10, now(6))", rows)
            connection.commit()

    def _answers(self) -> bool:
        try:
            self._connect().close()
        except pymysql.err.OperationalError:
            return False
        return True

    def _connect(self) -> Connection:
        return pymysql.connect(
            host=HOST,
            port=self.database.port,
            user="root",
            password=self.database.server.password,
            connect_timeout=5,
            read_timeout=10,
            ssl={"check_hostname": False},
        )

    def _run(self) -> None:
        try:
            while not self._ended.wait(0.2):
                with contextlib.suppress(*_CUT), self._connect() as connection:
                    self._work(connection)
        except Exception as error:
            self.error = error

    def _work(self, connection: Connection) -> None:
        while not self._ended.wait(_PAUSE):
            with connection.cursor() as cursor:
                for _ in range(self._random.randint(1, 4)):
                    cursor.execute(*self._choose())
            connection.commit()
            self.done += 1

    def _choose(self) -> tuple[str, tuple[int, ...]]:
        """Return a statement about a random row: it is inserted or replaced, changed, renumbered or deleted."""
        row = self._random.randint(1, 2 * ROWS)
        choices: Mapping[str, tuple[int, ...]] = {
            "REPLACE INTO ware.stock VALUES (%s, 'a new box', 1, now(6))": (row,),
            "UPDATE ware.stock SET amount = amount + 1, changed = now(6) WHERE id BETWEEN %s AND %s": (row, row + 9),
            "UPDATE IGNORE ware.stock SET id = %s WHERE id = %s": (self._random.randint(1, 2 * ROWS), row),
            "DELETE FROM ware.stock WHERE id = %s": (row,),
        }  # fmt: skip
        return self._random.choice(list(choices.items()))


def read_table(topic: str, bootstrap: str) -> dict[int, Row]:
    """Return the rows of a topic of change events: the last one of each key, without deleted ones."""
    found: dict[int, Row] = {}
    for message in read_topic(topic, bootstrap):
        key = json.loads(message.key() or b"")["id"]
        found.pop(key, None)
        after = json.loads(message.value() or b"{}").get("after")
        if after is not None:
            changed = datetime.fromisoformat(after["changed"]).replace(tzinfo=None)
            found[key] = (after["id"], after["name"], after["amount"], changed)
    return found


def build_secret(ware: Ware) -> dict[str, Any]:
    """Return the Secret of the source."""
    annotations = {"secrets.kappa-platform.io/database": ware.database.server.address}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _SECRET, "annotations": annotations},
        "stringData": {
            "username": "debezium",
            "password": ware.password,
            "ca.crt": ware.database.authority,
        },
    }


def build_source(database: DatabasePod, prefix: str) -> dict[str, Any]:
    """Return the CDCSource, with that beginning of its topics."""
    server = {
        "host": database.host,
        "serverId": 7_001,
        "credentialsSecretRef": {"name": _SECRET},
        "tls": {"caSecretRef": {"name": _SECRET}},
    }
    spec = {
        "mariadb": server,
        "tables": {"include": [TABLE]},
        "topicPrefix": prefix,
        "restart": {"initialDelay": "2s", "maxDelay": "10s"},
        "deletionPolicy": "Delete",
        "topicDeletionPolicy": "Delete",
    }
    return {"apiVersion": API_VERSION, "kind": "CDCSource", "metadata": {"name": NAME}, "spec": spec}


def list_differences(expected: Mapping[int, Row], found: Mapping[int, Row]) -> Iterator[str]:
    """Yield the rows that differ, or that only one side has."""
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            yield f"{key}: {expected.get(key)} in the database, {found.get(key)} in the topic"
