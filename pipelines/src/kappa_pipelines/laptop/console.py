"""What the commands of the laptop share: their files and their output."""

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kappa_crds.manifests import ManifestError
from kappa_pipelines.errors import DriverError
from kappa_pipelines.jars import JarError

FAILED, UNUSABLE = 1, 2
"""Exit codes: something is wrong with a pipeline; the command itself could not be carried out."""


def build_parser(command: str, description: str) -> argparse.ArgumentParser:
    """Return the parser of a command that reads manifests."""
    parser = argparse.ArgumentParser(prog=f"kappa {command}", description=description)
    parser.add_argument("-f", "--filename", action="append", required=True, help="manifest file, or -")
    return parser


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


def name_resource(manifest: dict[str, Any]) -> str:
    """Return the name of a resource on the screen, as kubectl prints it."""
    return f"{manifest['kind'].lower()}/{manifest['metadata']['name']}"


def report_each(
    manifests: Iterable[dict[str, Any]], describe: Callable[[dict[str, Any]], Iterable[str]]
) -> int:
    """Print the lines about each resource, or what is wrong with it; return 0, or 1 where one is wrong."""
    code = 0
    for manifest in manifests:
        try:
            lines = list(describe(manifest))
        except DriverError as error:
            lines, code = [f"{name_resource(manifest)}: {error.reason}: {error.message}"], FAILED
        print(*lines, sep="\n", flush=True)
    return code


def say(text: str) -> None:
    """Show progress."""
    print(text, file=sys.stderr, flush=True)
