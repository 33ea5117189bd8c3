"""Archives and jars that tests run, from Maven's repository: fetched once, checked, and kept in the cache as they are needed."""

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.paths import CACHE
from lab.progress import step
from lab.shell import run


@dataclass(frozen=True)
class Archive:
    """A file in Maven's repository; `artifact` is `group:name:version:type`, or with `:classifier` after it."""

    name: str
    artifact: str
    sha256: str

    @property
    def file(self) -> str:
        """Return the file's name."""
        _, name, version, kind, *classifier = self.artifact.split(":")
        return f"{'-'.join([name, version, *classifier])}.{kind}"


def make_once(target: Path, make: Callable[[], object]) -> Path:
    """Return something of the cache, which `make` makes if it is not there: in one process at a time, as sessions of tests start together."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f".{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                make()
    return target


def fetch(archive: Archive, unpack: Callable[[Path, Path], object]) -> Path:
    """Return the folder that `unpack` makes of the archive, made if it is not in the cache; raise LabError where it is another file."""
    version = archive.artifact.split(":")[2]
    target = CACHE / f"{archive.name.replace(' ', '-')}-{version}-{archive.sha256[:12]}"
    return make_once(target, lambda: _fetch(archive, unpack, target))


def _fetch(archive: Archive, unpack: Callable[[Path, Path], object], target: Path) -> None:
    with step(archive.name, done="fetched"), tempfile.TemporaryDirectory(dir=CACHE) as part:
        run(
            [
                "mvn",
                "-q",
                "-B",
                "dependency:copy",
                f"-Dartifact={archive.artifact}",
                f"-DoutputDirectory={part}",
            ]
        )
        file, made = Path(part) / archive.file, Path(part) / "made"
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != archive.sha256:
            raise LabError(f"{file.name} has the sha256 {found}, expected {archive.sha256}")
        made.mkdir()
        unpack(file, made)
        made.rename(target)


@dataclass(frozen=True)
class Jars:
    """The jars that a POM names, with all that they need; `lock` has the SHA-256 of each."""

    name: str
    pom: Path
    lock: Path

    @property
    def folder(self) -> Path:
        """Where the jars are, whether fetched yet or not."""
        identity = hashlib.sha256(self.pom.read_bytes() + self.lock.read_bytes()).hexdigest()[:12]
        return CACHE / f"{self.name}-{identity}"

    def fetch(self) -> Path:
        """Return the folder, made if it is not in the cache; raise LabError where jars are others."""
        return make_once(self.folder, self._fetch)

    def _fetch(self) -> None:
        with step(f"{self.name} jars", done="fetched"):
            target = self.folder
            part = CACHE / f".{target.name}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={part}", "-DincludeScope=runtime"]
            run(["mvn", "-q", "-B", "-f", self.pom, *goal])
            self._check(part)
            part.rename(target)

    def _check(self, jars: Path) -> None:
        lines = [line.split() for line in self.lock.read_text().splitlines()]
        lock = {name: digest for digest, name in lines}
        found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars.glob("*.jar")}
        wrong = sorted(name for name in lock.keys() | found.keys() if lock.get(name) != found.get(name))
        if wrong:
            raise LabError(f"these jars differ from {self.lock.name}: {', '.join(wrong)}")
