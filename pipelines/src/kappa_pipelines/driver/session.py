"""The Spark session of a driver, and the wait for its executors."""

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.driver.jvm import CLASS_PATH, is_plain, launch
from kappa_pipelines.jars import OWN
from kappa_pipelines.revision.settings import FILE_SYSTEM, HADOOP_FILES, build_spark_settings

_POLL_SECONDS = 0.5
# pyspark logs each rejected statement and also raises an error, which the runtime explains.
_REFUSALS = "SQLQueryContextLogger"
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")


def create_session(
    revision: Revision,
    pod_name: str | None = None,
    further: Mapping[str, str] | None = None,
    *,
    address: str | None = None,
) -> SparkSession:
    """Start the JVM and return the session, which logs warnings and errors. `further` settings override those of the revision.

    With `pod_name`, the driver's pod owns its executors, so Kubernetes deletes them with it. They reach it at its `address`, because a
    pipeline may have two drivers.
    """
    settings: dict[str, Any] = {**build_spark_settings(revision), **(further or {})}
    if pod_name is not None and wanted_executors(revision) > 0:
        settings["spark.kubernetes.driver.pod.name"] = pod_name
        settings |= {"spark.driver.host": address} if address is not None else {}
    return start_session(settings)


def launch_jvm(settings: Mapping[str, Any]) -> None:
    """Start the JVM in a thread, and return at once. `start_session` waits for it, and may have further settings of Spark.

    A failure is not reported here: `start_session` then starts the JVM itself and raises the error.
    """
    use_own_python()
    complete = _direct_compilers(_complete(settings))
    threading.Thread(target=_launch, args=(complete,), name="launch", daemon=True).start()


def _launch(settings: Mapping[str, Any]) -> None:
    with contextlib.suppress(PySparkException, OSError), SparkContext._lock:  # the lock of a session's start
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = launch(settings) if is_plain(settings) else None
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def start_session(settings: Mapping[str, Any]) -> SparkSession:
    """Return the session with settings; start the JVM unless that was done."""
    logging.getLogger(_REFUSALS).disabled = True
    use_own_python()
    return _keep_files_single(SparkSession.Builder().config(map=_complete(settings)).getOrCreate())


def _complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the options of the driver's JVM."""
    with as_file(files("kappa_pipelines") / "log4j2.properties") as properties:
        options = f" -Dlog4j2.configurationFile=file:{properties}{_archive_options()}"
    return {**_find_classes(settings), _JAVA_OPTIONS[0]: settings[_JAVA_OPTIONS[0]] + options}


def _find_classes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with which the JVM finds the classes of all jars from its start; without the runtime's own jar, with Hadoop's files.

    Hadoop loads our class for local files before Spark adds `spark.jars`. In the image all jars are in Spark's own folders, and the
    JVM takes its archive of classes only with the class path of these.
    """
    home = Path(_find_spark_home())
    present = {jar.name for folder in ("jars", "lib") for jar in home.glob(f"{folder}/*.jar")}
    jars = [jar for jar in settings.get("spark.jars", "").split(",") if jar and Path(jar).name not in present]
    found = {**settings, **({CLASS_PATH: os.pathsep.join(jars)} if jars else {})}
    if OWN not in present and not any(jar.endswith(f"/{OWN}") for jar in jars):
        found |= {FILE_SYSTEM: HADOOP_FILES} if FILE_SYSTEM in settings else {}
    return found


def _direct_compilers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with which C2 leaves out what runs only while a driver starts: parsers, and makers of lambda expressions (ADR 84).

    The JVM prints a line about it, which commands of the laptop must not.
    """
    with as_file(files("kappa_pipelines") / "compiler.directives") as directives:
        options = f" -XX:+UnlockDiagnosticVMOptions -XX:CompilerDirectivesFile={directives}"
    return {**settings, _JAVA_OPTIONS[0]: settings[_JAVA_OPTIONS[0]] + options}


def _keep_files_single(spark: SparkSession) -> SparkSession:
    """Disable Hadoop's checksum files for local files, and return the session.

    A file and its checksum file are not replaced atomically: after a crash between them, the old checksum rejects the new content.
    Spark's own checksums of state stay. Executors never replace files, so they need no change.
    """
    files = spark._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    files.getLocal(spark._jsparkSession.sessionState().newHadoopConf()).setWriteChecksum(False)
    return spark


def use_own_python() -> None:
    """Use the driver's Python installation for Python's workers; executors use the same image."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _archive_options() -> str:
    """Return the JVM options for the class archive of the image, if there is one.

    A JVM with another class path or heap ignores the archive silently. It maps it at the address that it was made for: elsewhere each
    of its 200 MB would be read, changed and kept at the start (ADR 92).
    """
    archive = os.environ.get("KAPPA_CLASS_ARCHIVE")
    if archive is None or not Path(archive).exists():
        return ""
    place = " -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
    return f" -XX:SharedArchiveFile={archive}{place} -Xlog:cds=off -Xlog:cds+dynamic=off"


def wanted_executors(revision: Revision) -> int:
    """Return the number of executors of a revision; 0 if tasks run in the driver."""
    if revision.spark_conf.get("spark.master", "local").startswith("local"):
        return 0
    return int(revision.spark_conf.get("spark.executor.instances", "0"))


def count_executors(spark: SparkSession) -> int:
    """Return the number of registered executors, without the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def await_executors(
    spark: SparkSession,
    is_stopping: Callable[[], bool],
    report: Callable[[int], None],
    pause: float = _POLL_SECONDS,
) -> None:
    """Wait until one executor has registered or a stop is requested. The operator has the timeout."""
    while not is_stopping():
        found = count_executors(spark)
        report(found)
        if found > 0:
            return
        time.sleep(pause)
