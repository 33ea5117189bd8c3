"""What the commands without a cluster share: their output and how they end."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kappa_crds.manifests import ManifestError
from kappa_pipelines.jars import JarError

FAILED, UNUSABLE = 1, 2
"""Exit codes: a pipeline is invalid or failed; the command cannot run as requested."""
Report = Callable[[list[str], dict[str, Any] | None], None]
"""Takes a report on a resource, as lines for people and as data for programs; None for a summary."""


def guard(work: Callable[[], int]) -> int:
    """Return the exit code of the work; an error that prevents it is one line on stderr."""
    try:
        return work()
    except (ManifestError, JarError, OSError, UnicodeDecodeError) as error:
        return complain(" ".join(str(error).split()))


@contextlib.contextmanager
def catch_stop() -> Iterator[Callable[[], bool]]:
    """Give a function that returns whether Ctrl-C or SIGTERM requested a stop; a second signal ends the command at once.

    On Ctrl-C Spark itself cancels its jobs, which fails the queries.
    """
    requested = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def request(number: int, frame: object) -> None:
        requested.set()
        restore()

    for number in before:
        signal.signal(number, request)
    try:
        yield requested.is_set
    finally:
        restore()


def complain(message: str) -> int:
    """Print an error of the request, and return its exit code."""
    print(f"error: {message}", file=sys.stderr)
    return UNUSABLE


def name_resource(manifest: dict[str, Any]) -> str:
    """Return the name of a resource as kubectl prints it."""
    return f"{manifest['kind'].lower()}/{manifest['metadata']['name']}"


def say(text: str) -> None:
    """Show progress."""
    print(text, file=sys.stderr, flush=True)
