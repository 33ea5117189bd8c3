"""The Spark of a command, without what its JVM and its Python workers print of themselves.

For each start of a query with state in Python, Spark 4.2 starts a worker that prints its progress to standard output. The
JVM passes that on to its standard error, and no setting prevents it; nor the JVM's own warning of the modules that Spark takes. So the JVM
is started with a pipe there, from which all other lines are passed on.
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


def start_spark(revision: Revision) -> SparkSession:
    """Return the session, quiet: the command itself reports what fails."""
    if SparkContext._gateway is None:
        say("starting Spark …")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with leave_out_chatter():
        spark = create_session(revision)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def pass_on(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that matter; after one that does not, Spark prints an empty one."""
    was_chatter = False
    for line in lines:
        is_empty_rest = was_chatter and not line.strip()
        was_chatter = _CHATTER.match(line) is not None
        if not was_chatter and not is_empty_rest:
            yield line


@contextlib.contextmanager
def leave_out_chatter() -> Iterator[None]:
    """Let a JVM that is started meanwhile write to our standard error without those lines."""
    if SparkContext._gateway is not None:  # it has been started before
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
