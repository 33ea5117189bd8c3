"""The columns of the tables of a source, packed for an answer of 4 KiB, and how two states of them differ. Pure.

A shape has, for each table, its columns with name, type, and whether the key has them. Where that is too long, a table has a digest in
place of its columns: a change is noticed all the same, and names the table only.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MOST_BYTES = 2400
_UNPACKED = 2**20
Column = tuple[str, str, bool]
Columns = tuple[Column, ...] | str
Shape = Mapping[str, Columns]


@dataclass(frozen=True)
class ShapeChange:
    """A difference, in words. One that is `breaking` removes or retypes what consumers may read."""

    text: str
    breaking: bool = True


def compute_fingerprint(shape: Shape) -> str:
    """Return the fingerprint of a shape that is whole."""
    return hashlib.sha256(_write(shape).encode()).hexdigest()[:12]


def digest_tables(shape: Shape) -> str:
    """Return a text that changes with the names of the tables."""
    return hashlib.sha256("\n".join(sorted(shape)).encode()).hexdigest()[:12]


def pack(shape: Shape, most: int = MOST_BYTES) -> str:
    """Return a shape as text of at most so many bytes: whole, with digests, or empty where neither fits."""
    for each in (shape, {table: _digest(columns) for table, columns in shape.items()}):
        packed = base64.b85encode(zlib.compress(_write(each).encode(), 9)).decode()
        if len(packed) <= most:
            return packed
    return ""


def unpack(text: str) -> Shape:
    """Return a shape; an empty one for a text that is none."""
    try:
        plain = zlib.decompressobj().decompress(base64.b85decode(text), _UNPACKED)
        found = json.loads(plain)
        return {
            str(table): columns if isinstance(columns, str) else tuple(_read(each) for each in columns)
            for table, columns in found.items()
        }
    except (ValueError, TypeError, AttributeError, zlib.error):
        return {}


def _read(column: object) -> Column:
    if not isinstance(column, list) or len(column) != 3:
        raise ValueError("a column has three parts")
    return str(column[0]), str(column[1]), bool(column[2])


def _write(shape: Shape) -> str:
    return json.dumps(shape, sort_keys=True, separators=(",", ":"))


def _digest(columns: Columns) -> str:
    if isinstance(columns, str):
        return columns
    return base64.b85encode(hashlib.sha256(json.dumps(columns).encode()).digest()[:5]).decode()


def compare(before: Shape, after: Shape) -> Iterator[ShapeChange]:
    """Yield what has changed, those that break consumers first."""
    changes = [change for table in sorted({*before, *after}) for change in _compare(table, before, after)]
    yield from sorted(changes, key=lambda each: not each.breaking)


def _compare(table: str, before: Shape, after: Shape) -> Iterator[ShapeChange]:
    if table not in after:
        yield ShapeChange(f"table {table} was dropped or renamed")
    elif table not in before:
        yield ShapeChange(f"table {table} was added", breaking=False)
    elif _digest(before[table]) != _digest(after[table]):
        old, new = before[table], after[table]
        if isinstance(old, str) or isinstance(new, str):
            yield ShapeChange(f"table {table}: its columns were changed")
        else:
            yield from _compare_columns(f"table {table}", old, new)


def _compare_columns(table: str, old: tuple[Column, ...], new: tuple[Column, ...]) -> Iterator[ShapeChange]:
    was, now = {each[0]: each for each in old}, {each[0]: each for each in new}
    renamed = _find_renamed(old, new)
    for name in (each for each in was if each not in now):
        if name in renamed:
            yield ShapeChange(f"{table}: column {name} was renamed to {renamed[name]}")
        else:
            yield ShapeChange(f"{table}: column {name} was dropped")
    for name, kind, _ in new:
        if name not in was:
            if name not in renamed.values():
                yield ShapeChange(f"{table}: column {name} ({kind}) was added", breaking=False)
        elif was[name][1] != kind:
            yield ShapeChange(f"{table}: column {name} was {was[name][1]} and is {kind}")
    keys = [
        [renamed.get(name, name) if each is old else name for name, _, is_key in each if is_key]
        for each in (old, new)
    ]
    if keys[0] != keys[1]:
        yield ShapeChange(f"{table}: its key is {', '.join(keys[1]) or 'none'} and was {', '.join(keys[0]) or 'none'}")  # fmt: skip


def _find_renamed(old: tuple[Column, ...], new: tuple[Column, ...]) -> dict[str, str]:
    """Return new names by old ones. A column that is renamed keeps its place and type; one that is dropped leaves no place."""
    if len(old) != len(new):
        return {}
    pairs = list(zip(old, new, strict=True))
    known = {each[0] for each in old} & {each[0] for each in new}
    is_in_place = all(before[0] == after[0] for before, after in pairs if {before[0], after[0]} & known)
    return {b[0]: a[0] for b, a in pairs if b[0] != a[0] and b[1] == a[1]} if is_in_place else {}
