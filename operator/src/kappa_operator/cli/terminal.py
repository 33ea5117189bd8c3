"""Reads single keys of a terminal without echo, and reports changes of its size."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

try:
    import termios
    import tty
except ImportError:  # Windows has no termios; there it is printed once
    HAS_TERMIOS = False
else:
    HAS_TERMIOS = True

_MOST = 64
"""Bytes to read at once; a key that is held down sends many."""


def is_interactive() -> bool:
    """Return whether input and output are a terminal."""
    return HAS_TERMIOS and sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def listen(on_key: Callable[[str], None], on_resize: Callable[[], None]) -> Iterator[None]:
    """Report keys and changes of size while the event loop runs; restore the terminal afterwards."""
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    loop.add_reader(number, lambda: _report(number, on_key))
    loop.add_signal_handler(signal.SIGWINCH, on_resize)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _report(number: int, on_key: Callable[[str], None]) -> None:
    text = os.read(number, _MOST).decode(errors="replace")
    for key in text or "q":  # the terminal was closed
        on_key(key)
