"""Records what a real Debezium writes about a real MariaDB and a real MySQL: `python -m recorded.mariadb [mysql]` replaces the files beside it.

The session has a snapshot, changes of each kind, values of odd types in a snapshot and in the binary log, zero dates, a change of the
binary log, and a connector that is killed, so that it writes changes twice. `stock.json` has the rows of a table at the end, which are
the same in both. Topics of MySQL begin with `mysql`.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from lab.broker import Broker
from lab.connect import ConnectWorker
from lab.debezium import configure_mariadb, write_json
from lab.mariadb import MariaDB
from lab.mysql import MySQL
from recorded.debezium import FOLDER, Session, write_records

_STATEMENTS = FOLDER / "session.mariadb.sql"
TABLES = "oddities", "zeros", "stock"


def _configure(database: MariaDB, bootstrap: str, prefix: str) -> dict[str, str]:
    return {
        **configure_mariadb(database, bootstrap, "ware", prefix),
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


def record(server: MariaDB, prefix: str, statements: Path) -> None:
    """Record a session."""
    with Broker() as broker, server as database:
        session, start = Session(broker.bootstrap, database, statements), f"{prefix}.ware."
        session.run("schema")
        with ConnectWorker(
            broker.bootstrap, "ware", _configure(database, broker.bootstrap, prefix)
        ) as worker:
            session.wait(f"{start}stock", lambda value: value["op"] == "r", 3)
            worker.restart(graceful=True)
            session.run("changes")
            session.wait(f"{start}stock", lambda value: _is_named(value, "last"))
            worker.restart(graceful=False)
            session.wait(f"{start}stock", lambda value: _is_named(value, "last"), 2)
            session.run("end")
            session.wait(f"{start}stock", lambda value: _is_named(value, "the end"))
            for table in TABLES:
                write_records(start + table, session.read(start + table))
        rows = database.execute("SELECT id, name, amount FROM ware.stock ORDER BY id")
    lines = [json.dumps(dict(zip(("id", "name", "amount"), row, strict=True))) for row in rows]
    (FOLDER / "stock.json").write_text("[\n " + ",\n ".join(lines) + "\n]\n")


def record_mysql() -> None:
    """Record the same session of MySQL, which has no type UUID."""
    with tempfile.TemporaryDirectory() as folder:
        statements = Path(folder) / "session.sql"
        statements.write_text(_STATEMENTS.read_text().replace("code UUID", "code CHAR(36)"))
        record(MySQL(gtid_mode="ON", enforce_gtid_consistency="ON"), "mysql", statements)


if __name__ == "__main__":
    if "mysql" in sys.argv[1:]:
        record_mysql()
    else:
        record(MariaDB(), "ware", _STATEMENTS)
