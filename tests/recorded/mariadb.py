"""Records what a real Debezium writes about a real MariaDB: `python -m recorded.mariadb` replaces the files beside it.

The session has a snapshot, changes of each kind, values of odd types in a snapshot and in the binary log, zero dates, a change of the
binary log, and a connector that is killed, so that it writes changes twice. `stock.json` has the rows of a table at the end.
"""

import json
from typing import Any

from lab.broker import Broker
from lab.connect import ConnectWorker
from lab.mariadb import MariaDB
from recorded.debezium import FOLDER, Session, write_records

PREFIX = "ware.ware."
TABLES = "oddities", "zeros", "stock"


def _configure(database: MariaDB, bootstrap: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": "7",
        "database.ssl.mode": "disable",
        "database.include.list": "ware",
        "topic.prefix": "ware",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "schema.history.internal.kafka.topic": "ware.history",
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        "include.schema.changes": "false",
        "poll.interval.ms": "100",
        "errors.max.retries": "0",
        "provide.transaction.metadata": "true",
        "decimal.handling.mode": "precise",
        "bigint.unsigned.handling.mode": "precise",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def _is_named(value: dict[str, Any], name: str) -> bool:
    return (value.get("after") or {}).get("name") == name


def record() -> None:
    """Record a session."""
    with Broker() as broker, MariaDB() as database:
        session = Session(broker.bootstrap, database, FOLDER / "session.mariadb.sql")
        session.run("schema")
        with ConnectWorker(broker.bootstrap, "ware", _configure(database, broker.bootstrap)) as worker:
            session.wait(f"{PREFIX}stock", lambda value: value["op"] == "r", 3)
            worker.restart(graceful=True)
            session.run("changes")
            session.wait(f"{PREFIX}stock", lambda value: _is_named(value, "last"))
            worker.restart(graceful=False)
            session.wait(f"{PREFIX}stock", lambda value: _is_named(value, "last"), 2)
            session.run("end")
            session.wait(f"{PREFIX}stock", lambda value: _is_named(value, "the end"))
            for table in TABLES:
                write_records(PREFIX + table, session.read(PREFIX + table))
        rows = database.execute("SELECT id, name, amount FROM ware.stock ORDER BY id")
    lines = [json.dumps(dict(zip(("id", "name", "amount"), row, strict=True))) for row in rows]
    (FOLDER / "stock.json").write_text("[\n " + ",\n ".join(lines) + "\n]\n")


if __name__ == "__main__":
    record()
