"""Positions in the binary log of MariaDB as numbers in their order: the number of the file, then the byte in it.

A snapshot has the end of the last transaction that it has. An event has the byte at which it begins, so it is below that exactly if its
transaction had committed. Transactions are whole in one file.
"""

import re

_BITS = 48
_NUMBERED = re.compile(r"[\w.-]{1,255}\.(\d{1,18})", re.ASCII)
"""A name gets into messages, and another text of a server must not."""


def encode_position(file: str, byte: int) -> int:
    """Return the number of a position; raise ValueError for a file whose name has no number."""
    found = _NUMBERED.fullmatch(file)
    if found is None:
        raise ValueError("the name of the file is none of a binary log")
    return (int(found[1]) << _BITS) + int(byte)


def format_position(file: str, byte: int) -> str:
    """Return a position for people."""
    return f"{file}:{byte}"
