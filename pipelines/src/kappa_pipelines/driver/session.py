"""The Spark session of a driver, and the wait for its executors."""

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.resources import as_file, files
from pathlib import Path

from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.revision.settings import build_spark_settings

_POLL_SECONDS = 0.5
# pyspark logs every refusal of a statement beside raising it; ours are explained, and some are only "not yet".
_REFUSALS = "SQLQueryContextLogger"
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")


def create_session(
    revision: Revision,
    pod_name: str | None = None,
    further: Mapping[str, str] | None = None,
    *,
    address: str | None = None,
) -> SparkSession:
    """Start the JVM and return the session; it logs warnings and worse. `further` are settings that win over the revision's.

    With the driver's own pod named, executors are owned by it and go when it goes. They reach it at its `address`: two drivers of
    a pipeline may stand side by side.
    """
    logging.getLogger(_REFUSALS).disabled = True
    os.environ.setdefault(
        "PYSPARK_PYTHON", sys.executable
    )  # for Python's workers, on executors the same image
    settings = build_spark_settings(revision) | dict(further or {})
    if pod_name is not None and wanted_executors(revision) > 0:
        settings["spark.kubernetes.driver.pod.name"] = pod_name
        settings |= {"spark.driver.host": address} if address is not None else {}
    with as_file(files("kappa_pipelines") / "log4j2.properties") as properties:
        settings[_JAVA_OPTIONS[0]] += f" -Dlog4j2.configurationFile=file:{properties}{_archive_options()}"
        builder = SparkSession.Builder()
        for key, value in settings.items():
            builder = builder.config(key, value)
        return _keep_files_single(builder.getOrCreate())


def _keep_files_single(spark: SparkSession) -> SparkSession:
    """Have Hadoop write no file of checksums beside each local file, and return the session.

    Two files are not replaced at once: after a crash between them the new content would be refused for the old checksum.
    Spark's own checksums of state stay. On executors, whose files are never replaced, it does no harm.
    """
    files = spark._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    files.getLocal(spark._jsparkSession.sessionState().newHadoopConf()).setWriteChecksum(False)
    return spark


def use_own_python() -> None:
    """Let Python's workers be of the same installation as the driver; on executors that is the same image."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _archive_options() -> str:
    """Return the options that start the JVM from the image's archive of classes, if there is one.

    A JVM that cannot use it, because its class path or its heap differ, starts without it and says nothing.
    """
    archive = os.environ.get("KAPPA_CLASS_ARCHIVE")
    if archive is None or not Path(archive).exists():
        return ""
    return f" -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"


def wanted_executors(revision: Revision) -> int:
    """Return how many executors a revision asks for; 0 where tasks run in the driver."""
    if revision.spark_conf.get("spark.master", "local").startswith("local"):
        return 0
    return int(revision.spark_conf.get("spark.executor.instances", "0"))


def count_executors(spark: SparkSession) -> int:
    """Return the executors that have registered, without the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def await_executors(
    spark: SparkSession,
    is_stopping: Callable[[], bool],
    report: Callable[[int], None],
    pause: float = _POLL_SECONDS,
) -> None:
    """Wait until one executor has registered, or a stop is asked for. How long is up to the operator."""
    while not is_stopping():
        found = count_executors(spark)
        report(found)
        if found > 0:
            return
        time.sleep(pause)
