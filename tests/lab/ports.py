"""Ports for servers of tests: each process has a block of its own, so that none takes what another one is about to use."""

import fcntl
import functools
import itertools
import os
import random
from collections.abc import Iterator
from typing import IO

from lab.errors import LabError
from lab.paths import CACHE

_BLOCKS = [range(first, first + 300) for first in range(12_000, 30_000, 300)]
"""Below the ports that Linux gives to outgoing connections: one of those could take a port before its server starts."""
_locks: list[IO[str]] = []
"""Open for as long as the process lives: with it the locks go, however it ends."""


def hold_block() -> range:
    """Return ports that no other process has, and has none of this one either; LabError where all blocks are held."""
    folder = CACHE / "ports"
    folder.mkdir(parents=True, exist_ok=True)
    for block in random.sample(_BLOCKS, len(_BLOCKS)):
        lock = (folder / str(block.start)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            _locks.append(lock)
            return block
    raise LabError(f"{len(_BLOCKS)} processes hold all ports for tests; end those that are left over")


def next_ports() -> Iterator[int]:
    """Return the ports of this process, over and over: one that was given away comes again as late as possible."""
    return _repeat(os.getpid())


@functools.cache
def _repeat(_process: int) -> Iterator[int]:
    return itertools.cycle(hold_block())
