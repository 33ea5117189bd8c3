"""Build the Java module against the jars of the installed pyspark and of the lock, unless it is built: `python pipelines/jvm/build.py`.

The jar is a part of the Python package, so whatever installs the runtime has it. Its manifest has a hash of what it was built from.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

from kappa_pipelines.jars import CORE, OWN, fetch_jars, locked_jars

_FOLDER = Path(__file__).resolve().parent
_SOURCES = _FOLDER / "src"
JAR = _FOLDER.parent / "src" / "kappa_pipelines" / "kappa-jvm.jar"
_MANIFEST = "META-INF/MANIFEST.MF"
_RELEASE = "17"
_SHORT_RUN = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
"""Options of the compiler's JVM, which compiles its own code with little effort: half of the processor time of a build."""


def build(jar: Path = JAR, sources: Path = _SOURCES) -> bool:
    """Compile the sources into the jar; return whether that was necessary. The same sources give the same jar."""
    made_from = hash_sources(sources)
    if _read_hash(jar) == made_from:
        return False
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent, prefix=".jvm-") as folder:
        classes, part = Path(folder, "classes"), Path(folder, jar.name)
        _compile(sources, classes)
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, _MANIFEST, f"Manifest-Version: 1.0\r\nMade-From: {made_from}\r\n\r\n".encode())
            for path in sorted(classes.rglob("*.class")):
                _add(archive, path.relative_to(classes).as_posix(), path.read_bytes())
        part.replace(jar)
    return True


def hash_sources(sources: Path = _SOURCES) -> str:
    """Return a hash of the sources, this program, and the versions of Spark and of the jars in the lock."""
    digest = hashlib.sha256(f"{pyspark.__version__} {locked_jars(CORE)} {_RELEASE}".encode())
    for path in [Path(__file__), *sorted(sources.rglob("*.java"))]:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:32]


def _compile(sources: Path, classes: Path) -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    path = os.pathsep.join([f"{jars}/*", *(str(jar) for jar in fetch_jars() if jar.name != OWN)])
    # Spark's classes refer to annotations and jars that are not there; that gives warnings of no use.
    options = ["--release", _RELEASE, "-proc:none", "-Xlint:all,-path,-classfile", "-Xmaxwarns", "1000"]
    command = ["javac", *_SHORT_RUN, *options, "-cp", path, "-d", str(classes)]
    files = map(str, sorted(sources.rglob("*.java")))
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    found = [line for line in done.stderr.splitlines(keepends=True) if line.startswith(str(sources))]
    if done.returncode != 0 or found:
        sys.exit(f"javac failed: {''.join(found) or done.stderr}")


def _read_hash(jar: Path) -> str | None:
    try:
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read(_MANIFEST).decode().splitlines()
    except (FileNotFoundError, KeyError, zipfile.BadZipFile):
        return None
    return next((line.split(": ")[1] for line in lines if line.startswith("Made-From: ")), None)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


if __name__ == "__main__":
    if build():
        print(f"built {JAR.name}")
