"""One line a step, with the time since the command started: it shows where the minutes go."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_started = time.monotonic()


def report(text: str) -> None:
    """Print one line to stderr, so that stdout stays for results."""
    print(f"[{time.monotonic() - _started:6.1f}s] {text}", file=sys.stderr, flush=True)


@contextmanager
def step(name: str, done: str = "ready") -> Iterator[None]:
    """Report a step when it has ended, with how long it took if that is noticeable."""
    began = time.monotonic()
    try:
        yield
    except BaseException:
        report(f"{name}: FAILED")
        raise
    took = time.monotonic() - began
    report(f"{name}: {done}" + (f" (took {took:.1f} s)" if took >= 1 else ""))
