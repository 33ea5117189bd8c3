"""Spark as the image has it, for the JVMs of tests: without unused jars, with the archive of classes that a driver starts from.

It is in the cache, in a folder for each content: a JVM takes an archive only with the paths and times of the jars that it was recorded
with, so the runtime's own jar is copied there. With an old archive a test would start slowly, in silence; an old folder is never used.
"""

import fcntl
import hashlib
import os
import runpy
import shutil
import sys
import time
from pathlib import Path

import pyspark

from kappa_pipelines.jars import CORE, OWN, S3, fetch_jars
from lab.paths import CACHE, REPOSITORY
from lab.progress import step
from lab.shell import run

_PIPELINES = REPOSITORY / "pipelines"
_SCRIPTS = (
    "prune_jars.py",
    "unused-jars.txt",
    "archive_classes.py",
    "src/kappa_pipelines/jars.lock",
    "src/kappa_pipelines/jars-s3.lock",
)
_PREFIX = "spark-"
_UNUSED_DAYS = 7


def environment() -> dict[str, str]:
    """Return the variables with which a driver starts from the folder, if it has been made for the present sources."""
    home = folder()
    archive = class_archive(home)
    if not archive.exists():
        return {}
    archive.touch()  # a folder in use is kept; the JVM checks the times of jars only
    return {
        "SPARK_HOME": str(home),
        "KAPPA_CLASS_ARCHIVE": str(archive),
        "LD_LIBRARY_PATH": str(home / "native"),
    }


def class_archive(home: Path) -> Path:
    """Return the file with the classes, which is written last."""
    return home / "classes.jsa"


def folder() -> Path:
    """Return the folder of the present sources, jars and JVM, whether it has been made or not."""
    module = runpy.run_path(str(_PIPELINES / "jvm" / "build.py"))
    digest = hashlib.sha256(f"{pyspark.__version__} {module['hash_sources']()} ".encode())
    for path in (*(_PIPELINES / name for name in _SCRIPTS), Path(__file__), _describe_java()):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return CACHE / f"{_PREFIX}{digest.hexdigest()[:12]}"


def _describe_java() -> Path:
    java = Path(shutil.which("java") or "java").resolve()
    return java.parent.parent / "release"


def ensure() -> Path:
    """Return the folder; make it if it is not there, and remove those that no test has used for a week."""
    home = folder()
    with (CACHE / "spark.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not class_archive(home).exists():
            with step("spark of tests", done="classes are recorded"):
                _make(home)
        _remove_unused()
    return home


def _make(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    _run_script("prune_jars.py", Path(pyspark.__file__).parent, home)
    for jar in fetch_jars(locks=(CORE, S3)):
        if jar.name == OWN:
            shutil.copy2(jar, home / "jars")
        else:
            (home / "jars" / jar.name).symlink_to(jar)
    for part in ("order", "desugar", "record"):
        _run_script("archive_classes.py", part, home)


def _run_script(name: str, *arguments: Path | str) -> None:
    options = {**os.environ, "SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC"}
    run([sys.executable, _PIPELINES / name, *arguments], env=options)


def _remove_unused() -> None:
    """Remove folders that were not used for long, and what interrupted runs left."""
    for other in CACHE.glob(f"{_PREFIX}*"):
        archive = class_archive(other)
        used = archive if archive.exists() else other
        if time.time() - used.stat().st_mtime > _UNUSED_DAYS * 86_400:
            shutil.rmtree(other, ignore_errors=True)
