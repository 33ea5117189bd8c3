"""The shop on a cluster that has the platform: database, source and views, an application at work, and the comparison."""

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from demo import platform
from demo.errors import DemoError
from demo.shop.application import ADD_COLUMN, Application, Database, Row, create_tables
from demo.shop.manifests import ORDER, TABLES, Example, build_secret
from demo.shop.views import VIEWS, Comparison, View, compare_view
from demo.topics import remove_topics
from lab.database_pods import HOST, POSTGRES, DatabasePod, RunningDatabase
from lab.kube import kubectl
from lab.network import DATABASE_PORT
from lab.shell import wait_until

DATABASE, NAMESPACE = "shop", "shop-database"
SERVER = DatabasePod(POSTGRES, NAMESPACE, DATABASE_PORT)
_READY_SECONDS = 240
_EQUAL_SECONDS = 120.0
_PAUSE = 0.03
"""Seconds between two transactions."""


@dataclass(frozen=True)
class Shop:
    """A database with the tables of the shop, and the password of the connector."""

    server: RunningDatabase
    password: str

    @contextmanager
    def connect(self) -> Iterator[Database]:
        """Give a connection of the administrator."""
        with connect(self.server, DATABASE) as connection:
            yield connection

    @property
    def url(self) -> str:
        """Return the URL of the database, with the user of the connector."""
        return f"postgresql://debezium@{HOST}:{self.server.port}/{DATABASE}"


def connect(server: RunningDatabase, database: str) -> psycopg.Connection[Row]:
    """Return a connection of the administrator to a database, with TLS."""
    return psycopg.connect(
        host=HOST,
        port=server.port,
        user="postgres",
        password=server.server.password,
        dbname=database,
        sslmode="require",
        connect_timeout=5,
        autocommit=True,
        # A server that is lost with its address sends no word: the client notices it within some seconds.
        tcp_user_timeout=5_000,
        keepalives_idle=2,
        keepalives_interval=1,
        keepalives_count=3,
    )


def clean(example: Example, bootstrap: str, server: DatabasePod = SERVER) -> list[str]:
    """Remove everything of a former run; return the topics that the platform had left."""
    if kubectl("get", "namespace", example.namespace, "--ignore-not-found", "-o", "name").strip():
        # Each kind needs the next one to be removed in order.
        for file in reversed(ORDER):
            resources = [platform.name_resource(document) for document in reversed(example.documents(file))]
            platform.delete("-n", example.namespace, *resources)
        platform.delete("namespace", example.namespace)
    server.remove()
    return remove_topics(example.topics, bootstrap)


def open_shop(server: DatabasePod = SERVER) -> Shop:
    """Start the database, and create its tables with their first rows."""
    running, password = server.start(), secrets.token_hex(16)
    wait_until(lambda: _answers(running), "PostgreSQL answers on the loopback", seconds=30)
    with connect(running, "postgres") as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}".encode())
    shop = Shop(running, password)
    with shop.connect() as database:
        create_tables(database, password)
    return shop


def _answers(server: RunningDatabase) -> bool:
    try:
        connect(server, "postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def follow_shop(example: Example, shop: Shop) -> None:
    """Apply the manifests, and wait until all rows are in the topics and the pipeline runs."""
    platform.create_namespace(example.namespace)
    platform.enable_namespace(example.namespace)
    secret = build_secret(shop.server, shop.password)
    documents = example.documents("kafka.yaml", "cdcsource.yaml", "pipeline.yaml")
    platform.apply_documents(example.namespace, [secret, *documents])
    platform.wait_documents(example.namespace, documents, _READY_SECONDS)


def run_application(
    example: Example, shop: Shop, seconds: float, seed: int, say: Callable[[str], None]
) -> Application:
    """Write for some seconds. Half-way the customers get a column, and another pipeline has a view of it."""
    with shop.connect() as database:
        application = Application(database, seed)
        began = time.monotonic()
        while (age := time.monotonic() - began) < seconds:
            if age > seconds / 2 and not application.has_tiers:
                database.execute(ADD_COLUMN.encode())
                application.has_tiers = True
                platform.apply_documents(example.namespace, example.documents("tiers.yaml"))
            application.work()
            count = application.done.total()
            tier = " · customers have the column tier" if application.has_tiers else ""
            say(f"{count:,} transactions · {count / max(age, 1):.0f}/s{tier}")
            time.sleep(_PAUSE)
    return application


def await_equal(
    example: Example, shop: Shop, bootstrap: str, say: Callable[[str], None], views: Sequence[View] = VIEWS
) -> list[Comparison]:
    """Compare the views with the database until they are equal, or it takes too long, and return the last comparison."""
    deadline = time.monotonic() + _EQUAL_SECONDS
    with shop.connect() as database:
        while True:
            found = [compare_view(view, example.name_view(view.topic), database, bootstrap) for view in views]
            different = sum(len(each.differences) for each in found)
            if not different or time.monotonic() > deadline:
                return found
            say(f"{different:,} differences: the views have not followed yet")
            time.sleep(1.0)


def prove_topics(example: Example, shop: Shop, bootstrap: str) -> dict[str, str]:
    """Return what `kappa cdc reconcile` prints about each table; DemoError where it finds no equality."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Path(folder) / "ca.crt"
        authority.write_text(shop.server.authority)
        return {table: _prove(example, shop, bootstrap, table, authority) for table in TABLES}


def _prove(example: Example, shop: Shop, bootstrap: str, table: str, authority: Path) -> str:
    command = [
        str(Path(sys.executable).with_name("kappa")), "cdc", "reconcile", shop.url, "--ca-file", str(authority),
        "--table", f"{example.schema}.{table}", "--topic", example.name_table(table), "--bootstrap", bootstrap,
    ]  # fmt: skip
    environment = {**os.environ, "PGPASSWORD": shop.password, "MYSQL_PWD": shop.password}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoError(f"kappa cdc reconcile of {table}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip().splitlines()[-1]
