"""The Spark session of a driver, and the wait for its executors."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.core.context import DEFAULT_CONFIGS
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.driver.jvm import Jvm, complete, direct_compilers, start_plain, use_own_python
from kappa_pipelines.driver.unused_tools import leave_out_test_tools
from kappa_pipelines.executors import are_enough, build_executor_settings, find_executors
from kappa_pipelines.revision.settings import build_spark_settings

_POLL_SECONDS = 0.1
"""As often as Spark itself checks for executors: a start waits for them."""
# pyspark logs each rejected statement and also raises an error, which the runtime explains.
_REFUSALS = "SQLQueryContextLogger"
_MASTER = "spark.master"
_opened: dict[str, str] = {}
"""The settings with which the JVM opens a session; empty if it opens none, or that was taken."""


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
    return start_session(settings | build_executor_settings(revision, pod_name, address))


def launch_jvm(revision: Revision, early: Jvm | None = None) -> None:
    """Connect to the JVM in a thread, and return at once; start it unless that was done. `start_session` waits, and may have further settings.

    The JVM opens the session too, unless it may get settings that decide how it starts. A failure is not reported here: `start_session`
    then starts the JVM itself and raises the error.
    """
    leave_out_test_tools()
    settings = complete(build_spark_settings(revision))
    is_known = find_executors(revision) == 0 and revision.spec.trigger.real_time is None
    opened = {**DEFAULT_CONFIGS, **settings} if is_known and _MASTER in settings else {}
    texts = {key: str(value) for key, value in opened.items()}
    threading.Thread(target=_launch, args=(settings, texts, early), name="launch", daemon=True).start()


def _launch(settings: Mapping[str, Any], opened: dict[str, str], early: Jvm | None) -> None:
    with contextlib.suppress(PySparkException, OSError), SparkContext._lock:  # the lock of a session's start
        jvm = start_plain(settings, early)
        if jvm is not None:
            jvm.open_session(opened)
        conf = SparkConf(loadDefaults=False).setAll(list(direct_compilers(settings).items()))
        SparkContext._ensure_initialized(gateway=None if jvm is None else jvm.connect(), conf=conf)
        if jvm is not None:
            _opened.update(opened)


def start_session(settings: Mapping[str, Any]) -> SparkSession:
    """Return the session with settings; start the JVM unless that was done."""
    logging.getLogger(_REFUSALS).disabled = True
    use_own_python()
    leave_out_test_tools()
    wanted = complete(settings)
    return _take_session(wanted) or _keep_files_single(
        SparkSession.Builder().config(map=wanted).getOrCreate()
    )


def _take_session(settings: Mapping[str, Any]) -> SparkSession | None:
    """Return the session that the JVM has opened; None if there is none."""
    with SparkContext._lock:
        opened = dict(_opened)
        _opened.clear()
        jvm: Any = SparkContext._jvm
        session = jvm.kappa.start.Driver.take() if opened else None
        if session is None:
            return None
        context = session.sparkContext()
        if any(opened.get(key, value) != value for key, value in settings.items()):
            context.stop()
            return None
        for key in settings.keys() - opened.keys():  # of the pool of consumers, which the first task makes
            context.conf().set(key, settings[key])
        conf = SparkConf(_jvm=jvm, _jconf=context.conf())
        return SparkSession(SparkContext(conf=conf, jsc=jvm.JavaSparkContext(context)), session)


def _keep_files_single(spark: SparkSession) -> SparkSession:
    """Disable Hadoop's checksum files for local files, and return the session.

    A file and its checksum file are not replaced atomically: after a crash between them, the old checksum rejects the new content.
    Spark's own checksums of state stay. Executors never replace files, so they need no change.
    """
    files = spark._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    files.getLocal(spark._jsparkSession.sessionState().newHadoopConf()).setWriteChecksum(False)
    return spark


def count_executors(spark: SparkSession) -> int:
    """Return the number of executors that have started, without the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def count_registered(spark: SparkSession) -> int:
    """Return the number of executors that have registered, as Spark counts them before it starts: some are starting still."""
    return int(spark.sparkContext._jsc.sc().getExecutorIds().size())


def await_executors(
    spark: SparkSession, revision: Revision, is_stopping: Callable[[], bool], report: Callable[[int], None]
) -> int:
    """Wait until enough executors have registered and one has started, or a stop is requested; return how many have registered.

    The operator has the timeout.
    """
    began = time.monotonic()
    while True:
        found, registered = count_executors(spark), count_registered(spark)
        report(found)
        is_ready = found > 0 and are_enough(revision, registered, time.monotonic() - began)
        if is_ready or is_stopping():
            return registered
        time.sleep(_POLL_SECONDS)
