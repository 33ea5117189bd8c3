"""The keys of a terminal, one at a time and not shown, and word of its changes of size."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

try:
    import termios
    import tty
except ImportError:  # Windows has terminals of another kind; there it is printed once
    HAS_TERMIOS = False
else:
    HAS_TERMIOS = True

_MOST = 64
"""Bytes that are read at once; a key that is held down comes in many."""


def is_interactive() -> bool:
    """Return whether a person can see what is printed and press keys."""
    return HAS_TERMIOS and sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def listen(on_key: Callable[[str], None], on_resize: Callable[[], None]) -> Iterator[None]:
    """Have keys and changes of size told while the event loop runs; the terminal is afterwards as it was before."""
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    loop.add_reader(number, lambda: _tell(number, on_key))
    loop.add_signal_handler(signal.SIGWINCH, on_resize)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _tell(number: int, on_key: Callable[[str], None]) -> None:
    text = os.read(number, _MOST).decode(errors="replace")
    for key in text or "q":  # a terminal that is gone
        on_key(key)
