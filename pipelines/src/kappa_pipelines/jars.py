"""The jars of Spark for Kafka, Avro and buckets: Maven fetches them, `jars.lock` and `jars-s3.lock` have their checksums.

The runtime's own jar is in this package: `pipelines/jvm/build.py` makes it. Where it is missing, Spark's functions read and write
JSON, and no sink writes exactly once.

`python -m kappa_pipelines.jars [DESTINATION]` puts them into a folder (by default the cache) and prints it. The
image is built from such a folder; tests use the cache.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

CORE, S3 = "jars.lock", "jars-s3.lock"
"""The locks: jars of all drivers, and those of drivers with a checkpoint in a bucket."""

_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>kappa</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<build><plugins><plugin><groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>
<configuration><artifactItems>{items}</artifactItems></configuration></plugin></plugins></build></project>"""
_ITEM = (
    "<artifactItem><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></artifactItem>"
)

OWN = "kappa-jvm.jar"


class JarError(Exception):
    """Maven failed, or a jar does not match the lock."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Return the file's name."""
        return f"{self.artifact}-{self.version}.jar"


def read_lock(text: str) -> tuple[Jar, ...]:
    """Return the jars of a lock: lines of `group:artifact:version sha256`; `#` starts a comment."""
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple(_parse_jar(*line) for line in lines)


def _parse_jar(coordinates: str, sha256: str) -> Jar:
    group, artifact, version = coordinates.split(":")
    return Jar(group, artifact, version, sha256)


def locked_jars(*locks: str) -> tuple[Jar, ...]:
    """Return the jars of some of the package's locks."""
    return tuple(jar for lock in locks for jar in read_lock((files("kappa_pipelines") / lock).read_text()))


def default_folder() -> Path:
    """Return the cache's folder: `$KAPPA_CACHE/jars`, or `~/.cache/kappa/jars`."""
    return Path(os.environ.get("KAPPA_CACHE") or Path.home() / ".cache" / "kappa") / "jars"


def fetch_jars(folder: Path | None = None, *, locks: tuple[str, ...] = (CORE,)) -> tuple[Path, ...]:
    """Return the paths of the jars of some locks in a folder, fetching what is missing or wrong, and of the own jar; JarError if that fails.

    Other versions of the same artifacts are removed from the folder.
    """
    target = folder or default_folder()
    jars = locked_jars(*locks)
    missing = tuple(jar for jar in jars if not _is_right(target / jar.file, jar))
    if missing:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".part-") as part:
            _run_maven(Path(part), missing)
            for jar in missing:
                _move(Path(part) / jar.file, target / jar.file, jar)
    _remove_old_versions(target, jars)
    return (*(target / jar.file for jar in jars), *find_own_jar())


def find_own_jar() -> tuple[Path, ...]:
    """Return the path of the runtime's own jar, if it has been built."""
    own = Path(str(files("kappa_pipelines") / OWN))
    return (own,) if own.is_file() else ()


def _remove_old_versions(folder: Path, jars: tuple[Jar, ...]) -> None:
    for jar in jars:
        for other in folder.glob(f"{jar.artifact}-[0-9]*.jar"):
            if other.name != jar.file:
                other.unlink()


def _is_right(path: Path, jar: Jar) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256


def _run_maven(folder: Path, jars: tuple[Jar, ...]) -> None:
    items = "".join(_ITEM.format(jar.group, jar.artifact, jar.version) for jar in jars)
    (folder / "pom.xml").write_text(_POM.format(items=items))
    maven = shutil.which("mvn")
    if maven is None:
        raise JarError("mvn is not installed; install Maven, or copy the jars of the lock into the folder")
    command = [maven, "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy"]
    options = [f"-DoutputDirectory={folder}", "-Dmdep.useBaseVersion=true"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise JarError(f"mvn failed: {(done.stdout + done.stderr)[-2000:]}")


def _move(source: Path, target: Path, jar: Jar) -> None:
    if not _is_right(source, jar):
        raise JarError(f"{jar.file} does not match the lock; it is damaged or was replaced")
    source.replace(target)


if __name__ == "__main__":
    paths = fetch_jars(Path(sys.argv[1]) if len(sys.argv) > 1 else None, locks=(CORE, S3))
    sys.stdout.write(f"{paths[0].parent}\n")
