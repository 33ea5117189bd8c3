"""What the commands of the laptop share: their files and their output."""

import argparse
import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kappa_crds.manifests import ManifestError
from kappa_pipelines.errors import DriverError
from kappa_pipelines.jars import JarError

FAILED, UNUSABLE = 1, 2
"""Exit codes: something is wrong with a pipeline; the command itself could not be carried out."""


def build_parser(command: str, description: str) -> argparse.ArgumentParser:
    """Return the parser of a command that reads manifests."""
    parser = argparse.ArgumentParser(prog=f"kappa {command}", description=description)
    parser.add_argument("filename", nargs="*", action="extend", metavar="FILE", help="manifest file, or -")
    parser.add_argument("-f", "--filename", action="append", help="the same, as kubectl has it")
    return parser


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the arguments, `filename` being all files; ends the command where there is none."""
    given = parser.parse_intermixed_args(arguments)
    if not given.filename:
        parser.error("name a manifest: FILE or -f FILE")
    return given


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
    manifests: Iterable[dict[str, Any]],
    describe: Callable[[dict[str, Any]], Iterable[str]],
    *,
    as_json: bool = False,
) -> int:
    """Print the lines about each resource, or what is wrong with it; return 0, or 1 where one is wrong."""
    reports: list[dict[str, Any]] = []
    for manifest in manifests:
        name = name_resource(manifest)
        try:
            lines, report = list(describe(manifest)), {"resource": name, "valid": True}
        except DriverError as error:
            lines = [f"{name}: {error.reason}: {error.message}"]
            report = {"resource": name, "valid": False, "reason": error.reason, "message": error.message}
        reports.append(report)
        if not as_json:
            print(*lines, sep="\n", flush=True)
    if as_json:
        print(json.dumps(reports, indent=2))
    return 0 if all(report["valid"] for report in reports) else FAILED


def say(text: str) -> None:
    """Show progress."""
    print(text, file=sys.stderr, flush=True)
