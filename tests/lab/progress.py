"""One line for each step, with the time since the command started, and a line every ten seconds in a step that takes longer.

On a terminal the line of a step that runs is updated in place.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INTERVAL_SECONDS = 10.0
_TERMINAL_SECONDS = 1.0
_CLEAR = "\r\x1b[2K"
_WIDTH = 110

_started = time.monotonic()
_lock = threading.Lock()
_steps: list["Step"] = []
"""The steps that run; the last one is the innermost."""


def report(text: str) -> None:
    """Print one line to stderr, so that stdout stays for results."""
    _write(f"{_CLEAR if sys.stderr.isatty() else ''}{_stamp()} {text}\n")


def _stamp() -> str:
    return f"[{time.monotonic() - _started:6.1f}s]"


def _write(text: str) -> None:
    with _lock:
        sys.stderr.write(text)
        sys.stderr.flush()


class Step:
    """A step that runs. `detail` returns what it does at the moment, and how much of it is done."""

    def __init__(self, name: str, detail: Callable[[], str]) -> None:
        self.name = name
        self.detail = detail
        self.began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def start(self) -> None:
        """Show it from now on."""
        _steps.append(self)
        self._thread.start()

    def end(self) -> None:
        """Stop showing it."""
        self._ended.set()
        self._thread.join()
        _steps.remove(self)

    def _show(self) -> None:
        in_place = sys.stderr.isatty()
        while not self._ended.wait(_TERMINAL_SECONDS if in_place else INTERVAL_SECONDS):
            if _steps[-1] is not self:
                continue
            text = f"{self.name}: {self.detail()} ({time.monotonic() - self.began:.0f} s)"
            if in_place:
                _write(f"{_CLEAR}{_stamp()} {text[:_WIDTH]}")
            else:
                report(text)


@contextmanager
def step(name: str, done: str = "ready", detail: Callable[[], str] = lambda: "running") -> Iterator[None]:
    """Report a step: while it runs, and when it has ended, with its duration if that is noticeable."""
    running = Step(name, detail)
    running.start()
    try:
        yield
    except BaseException:
        running.end()
        report(f"{name}: FAILED")
        raise
    running.end()
    took = time.monotonic() - running.began
    report(f"{name}: {done}" + (f" (took {took:.1f} s)" if took >= 1 else ""))
