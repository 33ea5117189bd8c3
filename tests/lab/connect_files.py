"""What a Kafka Connect worker of a test is started from: the jars of the image, Debezium's connectors, and an archive of classes."""

import hashlib
import sys
import tarfile
from pathlib import Path

from lab.maven import Archive, fetch, make_once
from lab.paths import CACHE, REPOSITORY
from lab.progress import step
from lab.shell import run

_DEBEZIUM = {
    "postgres": Archive(
        "debezium",
        "io.debezium:debezium-connector-postgres:3.7.0.Final:tar.gz:plugin",
        "660673cbabd2f269da21409208ebd0f0d9977bd92e824fc9daa272f240e88e51",
    ),
    "mysql": Archive(
        "debezium mysql",
        "io.debezium:debezium-connector-mysql:3.6.1.Final:tar.gz:plugin",
        "1dfd80c86e204406c5d886836da1f022e4955bc3900c0491b892c22c8b901af2",
    ),
    "mariadb": Archive(
        "debezium mariadb",
        "io.debezium:debezium-connector-mariadb:3.5.0.Final:tar.gz:plugin",
        "1ccab832edc5d1e667607361905e70689a308c9e5cb1561d79808084811e938f",
    ),
}


def _unpack(file: Path, folder: Path) -> None:
    with tarfile.open(file) as files:
        files.extractall(folder, filter="data")


def fetch_debezium(database: str = "postgres") -> Path:
    """Return the folder with Debezium's connector for a database, a plugin path."""
    return fetch(_DEBEZIUM[database], _unpack)


def fetch_connect() -> Path:
    """Kafka Connect and its plugins, which the folder of the image fetches and checks."""
    source = REPOSITORY / "connect"
    locks = b"".join((source / name).read_bytes() for name in ("pom.xml", "jars.sha256", "plugins.sha256"))
    target = CACHE / f"connect-{hashlib.sha256(locks).hexdigest()[:12]}"

    def make() -> None:
        with step("kafka connect", done="fetched"):
            run([sys.executable, source / "fetch.py", target])

    return make_once(target, make)


def class_path() -> str:
    """Return the class path of a worker, which is that of the image."""
    return f"{fetch_connect()}/libs/*"


def class_archive() -> Path:
    """Return the file with the classes that a worker loads, which `record_classes` makes: a start without it takes 1.7 times as long."""
    return CACHE / f"{fetch_connect().name}.jsa"


def from_archive() -> list[str]:
    """Return the options of a JVM that starts a worker from that file, if it is there."""
    archive = class_archive()
    options = [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return options if archive.exists() else []
