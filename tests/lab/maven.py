"""Archives that tests run, from Maven's repository: fetched once, checked, and kept in the cache as they are needed."""

import hashlib
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


def fetch(archive: Archive, unpack: Callable[[Path, Path], object]) -> Path:
    """Return the folder that `unpack` makes of the archive, made if it is not in the cache; raise LabError where it is another file."""
    version = archive.artifact.split(":")[2]
    target = CACHE / f"{archive.name.replace(' ', '-')}-{version}-{archive.sha256[:12]}"
    if target.exists():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
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
    return target
