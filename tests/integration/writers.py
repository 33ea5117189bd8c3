"""Threads that write to a database while a test looks at it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def writing(write: Callable[[int, threading.Event], None], count: int = 3) -> Iterator[None]:
    """Run `write` in some threads, each with its number; it has to return soon after the event is set, at the end of the block."""
    stop = threading.Event()
    threads = [threading.Thread(target=write, args=(number, stop)) for number in range(count)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in threads:
            each.join()
