"""Records what a real Debezium writes about a real PostgreSQL: `python -m recorded.debezium` replaces the files beside it.

The topics of the example `orders` are in its folder.

The session has what is hard to imitate: a snapshot, changes of each kind, a key that changes, values of odd types, a large value that an
update leaves as it is, a truncation, an incremental snapshot, and a connector that is killed, so that it writes changes twice.
`rows.json` has the rows of the database at the end, which tests compare tables with.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import psycopg
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from lab.broker import Broker
from lab.connect import ConnectWorker
from lab.debezium import configure_postgres, write_json
from lab.paths import REPOSITORY
from lab.postgres import Postgres
from lab.shell import wait_until

FOLDER = Path(__file__).parent
PREFIX = "shop.public."
EXAMPLE = REPOSITORY / "pipelines" / "examples" / "orders" / "data"
_SHOP, _OTHERS = ("customers", "orders", "items"), ("carts", "oddities")
TABLES = *_SHOP, *_OTHERS
_STATEMENTS = FOLDER / "session.sql"
_HEADER_KEYS = "__debezium.newkey", "__debezium.oldkey"


def _configure(database: Postgres, prefix: str, *, schemas: bool) -> dict[str, str]:
    return {
        **configure_postgres(database, prefix),
        "slot.name": prefix,
        "poll.interval.ms": "100",
        "errors.max.retries": "0",
        "skipped.operations": "none",
        "provide.transaction.metadata": "true",
        "signal.data.collection": "public.signals",
        **write_json(keys_with_schemas=schemas, values_with_schemas=schemas),
    }


class Database(Protocol):
    """A database of a session."""

    def execute(self, statement: Any, /) -> object:
        """Run a statement in a transaction of its own."""


class Session:
    """A database, its connector and the topics of its changes."""

    def __init__(self, bootstrap: str, database: Database, statements: Path = _STATEMENTS) -> None:
        self.bootstrap, self._database, self._statements = bootstrap, database, statements

    def run(self, part: str) -> None:
        """Run a part of the statements: what is below `-- part: NAME`."""
        text = self._statements.read_text().split(f"-- part: {part}\n")[1].split("-- part: ")[0]
        for statement in text.split(";"):
            if statement.strip():
                self._database.execute(statement.strip())

    def read(self, topic: str) -> list[Message]:
        """Return all records of a topic, none of one that does not exist yet."""
        # The end counts markers of transactions too, so only the broker knows that there are no more records.
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "none", "enable.partition.eof": True}
        )
        at = TopicPartition(topic, 0, 0)
        try:
            consumer.get_watermark_offsets(at, timeout=10)
            consumer.assign([at])
            found: list[Message] = []
            while (message := consumer.poll(30)) is not None and message.error() is None:
                found.append(message)
            return found
        except KafkaException:
            return []
        finally:
            consumer.close()

    def wait(self, topic: str, what: Callable[[dict[str, Any]], bool], times: int = 1) -> None:
        """Wait for a number of events of a topic."""

        def has_come() -> bool:
            values = [json.loads(value) for each in self.read(topic) if (value := each.value()) is not None]
            return sum(what(value.get("payload", value)) for value in values) >= times

        wait_until(has_come, f"changes of {topic}", seconds=60)


def find_records(topic: str) -> Path:
    """Return the file with the records of a topic."""
    is_shop = topic.startswith(PREFIX) and topic.removeprefix(PREFIX) in _SHOP
    return (EXAMPLE if is_shop else FOLDER) / f"{topic}.records.jsonl"


def write_records(topic: str, messages: list[Message]) -> None:
    """Replace the file with the records of a topic."""
    with find_records(topic).open("w") as lines:
        for message in messages:
            lines.write(json.dumps(_describe(message)) + "\n")


def _describe(message: Message) -> dict[str, Any]:
    key, value = message.key(), message.value()
    found = {
        "key": None if key is None else key.decode(),
        "value": None if value is None else value.decode(),
    }
    given: Any = message.headers() or ()
    headers = {name: content.decode() for name, content in given}
    return found | ({"headers": headers} if headers else {})


def _dump_rows(database: Postgres) -> None:
    rows = {}
    with psycopg.connect(database.address) as connection:
        for table in TABLES:
            query = f"SELECT row_to_json(t)::text FROM {table} t ORDER BY id"  # noqa: S608 - a name above
            found = connection.execute(query).fetchall()
            rows[table] = [json.loads(text, parse_float=str) for (text,) in found]
    (FOLDER / "rows.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def _names(name: str) -> Callable[[dict[str, Any]], bool]:
    """Return a condition for the customer of this name."""
    return lambda value: (value.get("after") or {}).get("name") == name


def record() -> None:
    """Record a session."""
    with Broker() as broker, Postgres() as database:
        session = Session(broker.bootstrap, database)
        session.run("schema")
        with ConnectWorker(broker.bootstrap, "shop", _configure(database, "shop", schemas=False)) as worker:
            session.wait(PREFIX + "customers", lambda value: value["op"] == "r", 4)
            worker.restart(graceful=True)
            session.run("changes")
            session.wait(PREFIX + "customers", _names("last"))
            worker.restart(graceful=False)
            session.wait(PREFIX + "customers", _names("last"), 2)
            session.run("snapshot")
            session.wait(PREFIX + "customers", lambda value: value["source"]["snapshot"] == "incremental", 4)
            session.run("end")
            session.wait(PREFIX + "customers", _names("the end"))
            for table in TABLES:
                write_records(PREFIX + table, session.read(PREFIX + table))
        _dump_rows(database)
        with ConnectWorker(broker.bootstrap, "typed", _configure(database, "typed", schemas=True)):
            session.wait("typed.public.customers", lambda value: value["op"] == "r", 4)
            database.execute("DELETE FROM customers WHERE id = 3")
            session.wait("typed.public.customers", lambda value: value["op"] == "d")
            write_records("typed.public.customers", session.read("typed.public.customers"))


if __name__ == "__main__":
    record()
