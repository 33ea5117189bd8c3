"""Kafka's jars: resolved by Maven, checked against the lock, kept in the cache.

The same folder makes the image of the cluster's brokers and runs the single broker of a test.
"""

import hashlib
import shutil
from pathlib import Path

from lab.errors import LabError
from lab.paths import CACHE, SOURCES
from lab.progress import step
from lab.shell import run

VERSION = "4.3.1"
_POM = SOURCES / "kafka" / "pom.xml"
_LOCK = SOURCES / "kafka" / "jars.sha256"


def folder() -> Path:
    """Where the jars are, whether fetched yet or not."""
    identity = hashlib.sha256(_POM.read_bytes() + _LOCK.read_bytes()).hexdigest()[:12]
    return CACHE / f"kafka-{identity}"


def _check(jars: Path) -> None:
    lines = [line.split() for line in _LOCK.read_text().splitlines()]
    lock = {name: digest for digest, name in lines}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.glob("*.jar")}
    wrong = sorted(name for name in lock.keys() | found.keys() if lock.get(name) != found.get(name))
    if wrong:
        raise LabError(f"these jars differ from {_LOCK.name}: {', '.join(wrong)}")


def fetch() -> Path:
    """Resolve the jars if they are not in the cache."""
    target = folder()
    if target.exists():
        return target
    with step("kafka jars", done="fetched"):
        part = CACHE / f".{target.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={part}", "-DincludeScope=runtime"]
        run(["mvn", "-q", "-B", "-f", _POM, *goal])
        _check(part)
        part.rename(target)
    return target
