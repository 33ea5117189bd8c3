"""Records what a real Debezium writes about a real MariaDB: `python -m recorded.mariadb` replaces the files beside it.

The session has a snapshot, changes of each kind, values of odd types in a snapshot and in the binary log, zero dates, a change of the
binary log, and a connector that is killed, so that it writes changes twice. `stock.json` has the rows of a table at the end.
"""

import json
from typing import Any

from lab.broker import Broker
from lab.connect import ConnectWorker
from lab.debezium import configure_mariadb, write_json
from lab.mariadb import MariaDB
from recorded.debezium import FOLDER, Session, write_records

PREFIX = "ware.ware."
TABLES = "oddities", "zeros", "stock"


def _configure(database: MariaDB, bootstrap: str) -> dict[str, str]:
    return {
        **configure_mariadb(database, bootstrap, "ware", "ware"),
        "include.schema.changes": "false",
        "poll.interval.ms": "100",
        "errors.max.retries": "0",
        "provide.transaction.metadata": "true",
        "decimal.handling.mode": "precise",
        "bigint.unsigned.handling.mode": "precise",
        **write_json(keys_with_schemas=False, values_with_schemas=False),
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
