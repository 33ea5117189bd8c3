"""Selects the consumer groups of a LagPolicy."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_MARKS = re.compile(r"kappa\.[^.]+\.[^.]+\.[^.]+\..+")
"""The groups of the commit markers of exactly-once sinks; their offsets are not offsets of records."""


def name_group(namespace: str, pipeline: str) -> str:
    """Return the group of a pipeline, as its revision names it."""
    return f"kappa.{namespace}.{pipeline}"


def find_groups(known: Iterable[str], globs: Sequence[str]) -> frozenset[str]:
    """Return the groups that match a glob."""
    if not globs:
        return frozenset()
    pattern = _compile(tuple(globs))
    return frozenset(
        group
        for group in known
        if pattern.fullmatch(group) and (group in globs or not _MARKS.fullmatch(group))
    )


def find_named(globs: Iterable[str]) -> tuple[str, ...]:
    """Return the globs that are names: such a group is reported when it does not exist."""
    return tuple(glob for glob in globs if "*" not in glob and "?" not in glob)


@lru_cache(maxsize=256)
def _compile(globs: tuple[str, ...]) -> re.Pattern[str]:
    def translate(glob: str) -> str:
        return re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".")

    return re.compile("|".join(map(translate, globs)))
