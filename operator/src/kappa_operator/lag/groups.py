"""Which consumer groups a LagPolicy is about."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_MARKS = re.compile(r"kappa\.[^.]+\.[^.]+\.[^.]+\..+")
"""The groups in which sinks that write exactly once keep their marks: their offsets are no offsets of records."""


def name_group(namespace: str, pipeline: str) -> str:
    """Return the group of a pipeline, as its revision names it."""
    return f"kappa.{namespace}.{pipeline}"


def find_groups(known: Iterable[str], globs: Sequence[str]) -> frozenset[str]:
    """Return those groups that a glob matches."""
    if not globs:
        return frozenset()
    pattern = _compile(tuple(globs))
    return frozenset(
        group
        for group in known
        if pattern.fullmatch(group) and (group in globs or not _MARKS.fullmatch(group))
    )


def find_named(globs: Iterable[str]) -> tuple[str, ...]:
    """Return the globs that are names: such a group is missed when it is not there."""
    return tuple(glob for glob in globs if "*" not in glob and "?" not in glob)


@lru_cache(maxsize=256)
def _compile(globs: tuple[str, ...]) -> re.Pattern[str]:
    def translate(glob: str) -> str:
        return re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".")

    return re.compile("|".join(map(translate, globs)))
