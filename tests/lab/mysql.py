"""A MySQL for a test, on the loopback, with a binary log: what change data capture reads.

Neither Maven's repository nor Debian's stable releases have a server of MySQL. Debian's unstable release has one, whose libraries are newer
than those of the machine, so it is run by the loader of that release. The release moves, so its version is not locked; apt verifies the
signature of what it fetches. A mirror that is not current any more is as good, so the signature may be old.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.mariadb import MariaDB
from lab.paths import CACHE
from lab.progress import step
from lab.shell import run

_FOLDER = CACHE / "mysql-unstable"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"


def fetch_mysql() -> Path:
    """Return the folder with MySQL and all of its libraries, fetched if it is not in the cache."""
    if _FOLDER.exists():
        return _FOLDER
    CACHE.mkdir(parents=True, exist_ok=True)
    with step("mysql", done="fetched"), tempfile.TemporaryDirectory(dir=CACHE) as part:
        made = Path(part) / "made"
        run([
            "mmdebstrap", "--quiet", "--variant=extract", '--aptopt=Acquire::Check-Valid-Until "false"',
            "--include=mysql-server-core", "unstable", made, "http://deb.debian.org/debian",
        ])  # fmt: skip
        made.rename(_FOLDER)
    return _FOLDER


class MySQL(MariaDB):
    """A context manager; the administrator is `root` without a password. An argument of None leaves a setting out."""

    name = "MySQL"
    seconds = 60.0

    def __init__(self, **settings: str | None) -> None:
        super().__init__(
            **{"mysqlx": "0", "secure_file_priv": "NULL", "innodb_buffer_pool_size": "64M", **settings}
        )

    def _prepare(self) -> None:
        run([*self._build_program(), "--initialize-insecure"])

    def _build_command(self) -> Sequence[str]:
        return [
            *self._build_program(), "--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self._home / 'socket'}",
            f"--pid-file={self._home / 'pid'}", *self._build_options(),
        ]  # fmt: skip

    def _build_program(self) -> list[str]:
        base = fetch_mysql()
        libraries = base / _LIBRARIES
        return [
            str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries), str(base / "usr/sbin/mysqld"), "--no-defaults",
            f"--basedir={base / 'usr'}", f"--datadir={self._home / 'data'}", "--user=root",
        ]  # fmt: skip
