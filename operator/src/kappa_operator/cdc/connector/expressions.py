"""Patterns of tables and columns as the regular expressions of Debezium, which matches whole names without regard to case.

Every sign that is no letter, digit or underscore is escaped. So no pattern ends a list, or begins what Kafka Connect replaces by a secret.
"""

from collections.abc import Iterable

_WILD = {"*": "[^.]*", "?": "[^.]"}


def to_expression(pattern: str) -> str:
    """Return the expression of a name with * and ?."""
    return "".join(_WILD.get(char) or _escape(char) for char in pattern)


def _escape(char: str) -> str:
    return char if char.isalnum() or char == "_" else f"\\{char}"


def qualify(pattern: str, default_schema: str) -> str:
    """Return the pattern of a table with its schema."""
    return pattern if "." in pattern else f"{default_schema}.{pattern}"


def list_tables(include: Iterable[str], exclude: Iterable[str], default_schema: str) -> str:
    """Return the list of tables. Debezium has either a list of those to include or one of those to exclude, so what is excluded is a look-ahead."""
    left = "|".join(to_expression(qualify(each, default_schema)) for each in exclude)
    ahead = f"(?!(?:{left})$)" if left else ""
    return ",".join(ahead + to_expression(qualify(each, default_schema)) for each in include)


def list_columns(patterns: Iterable[str]) -> str:
    """Return the list of columns."""
    return ",".join(map(to_expression, patterns))
