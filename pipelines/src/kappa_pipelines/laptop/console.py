"""What the commands of the laptop share: their files, their Spark, their words on a screen."""

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from kappa_crds.manifests import ManifestError
from kappa_crds.revision import Revision
from kappa_pipelines.driver.session import create_session
from kappa_pipelines.jars import JarError
from kappa_pipelines.laptop.quiet import leave_out_chatter

FAILED, UNUSABLE = 1, 2
"""Exit codes: something is wrong with a pipeline; the command itself could not be carried out."""


def build_parser(command: str, description: str) -> argparse.ArgumentParser:
    """Return the parser of a command that reads manifests."""
    parser = argparse.ArgumentParser(prog=f"kappa {command}", description=description)
    parser.add_argument("-f", "--filename", action="append", required=True, help="manifest file, or -")
    return parser


def start_spark(revision: Revision) -> SparkSession:
    """Return the session, quiet: what fails is told by the command."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with leave_out_chatter():
        spark = create_session(revision)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def guard(work: Callable[[], int]) -> int:
    """Return the exit code of the work; what makes it impossible is one line on stderr."""
    try:
        return work()
    except (ManifestError, JarError, OSError) as error:
        return complain(str(error))


@contextlib.contextmanager
def catch_stop() -> Iterator[Callable[[], bool]]:
    """Give what says whether a stop was asked for, with Ctrl-C or SIGTERM; a second one ends the command as it always does.

    Spark's own answer to Ctrl-C is to cancel what runs, which fails the queries.
    """
    asked = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, frame: object) -> None:
        asked.set()
        restore()

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked.is_set
    finally:
        restore()


def complain(message: str) -> int:
    """Say what is wrong with what was asked for, and return the exit code for that."""
    print(f"error: {message}", file=sys.stderr)
    return UNUSABLE


def name_pipeline(manifest: dict[str, Any]) -> str:
    """Return how a pipeline is called on the screen."""
    return f"pipeline/{manifest['metadata']['name']}"


def say(text: str) -> None:
    """Show progress."""
    print(text, file=sys.stderr, flush=True)
