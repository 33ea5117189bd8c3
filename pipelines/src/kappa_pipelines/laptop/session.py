"""The Spark session of a command, without the messages that its JVM and its Python workers print.

For each start of a query with state in Python, Spark 4.2 starts a worker that prints its progress to standard output. The
JVM copies it to its standard error, and no setting prevents that, nor the JVM's own warning of the modules that Spark uses. So the JVM
is started with a pipe as its standard error, and all other lines are copied from the pipe.
"""

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.driver.session import create_session
from kappa_pipelines.laptop.console import say

_CHATTER = re.compile(
    rb"(Starting )?Streaming TransformWithStateIn\w+ Python worker\b|WARNING: Using incubator modules"
)
_STDERR = 2
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Compiles Java code once and with little effort: half of the processor time of a start, but slower on much data."""


def start_spark(revision: Revision, *, quick: bool = True) -> SparkSession:
    """Return the session. It logs nothing: the command itself reports failures.

    With `quick` the JVM is set up for a short run, if this call starts it.
    """
    options = f"{_QUICK_START} {revision.spark_conf.get(_JAVA_OPTIONS, '')}".strip()
    if SparkContext._gateway is None:
        say("starting Spark …")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with leave_out_chatter():
        spark = create_session(revision, further={_JAVA_OPTIONS: options} if quick else {})
    spark.sparkContext.setLogLevel("OFF")
    return spark


def pass_on(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines without those messages; Spark prints an empty line after each of them."""
    was_chatter = False
    for line in lines:
        is_empty_rest = was_chatter and not line.strip()
        was_chatter = _CHATTER.match(line) is not None
        if not was_chatter and not is_empty_rest:
            yield line


@contextlib.contextmanager
def leave_out_chatter() -> Iterator[None]:
    """Filter those messages from the standard error of a JVM that is started in this context."""
    if SparkContext._gateway is not None:  # it was started before
        yield
        return
    sys.stderr.flush()
    screen = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    threading.Thread(target=_copy, args=(reading, screen), daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(screen, _STDERR)


def _copy(reading: int, screen: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in pass_on(lines):
            os.write(screen, line)
