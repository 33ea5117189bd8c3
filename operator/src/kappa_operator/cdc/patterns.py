"""Which tables are requested: `SCHEMA.TABLE`, with `*` and `?` in either part. Names are case-sensitive."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kappa_operator.cdc.facts import TableName


@dataclass(frozen=True)
class TablePattern:
    """A pattern. Without a dot, the schema is the default: `public`, or the database of the URL."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str, default_schema: str) -> "TablePattern":
        """Return a pattern; raise ValueError where a part is empty."""
        schema, dot, name = text.partition(".")
        if not dot:
            schema, name = default_schema, text
        if not schema or not name:
            raise ValueError(f"{text!r} is not SCHEMA.TABLE")
        return cls(schema, name)

    @property
    def is_exact(self) -> bool:
        """Return whether it names one table."""
        return not set("*?") & set(self.schema + self.name)

    def to_like(self) -> tuple[str, str]:
        """Return patterns for LIKE with the escape character `|`, so that a query returns only what can match."""
        return _to_like(self.schema), _to_like(self.name)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    def matches(self, table: TableName) -> bool:
        """Return whether a table matches."""
        return _matches(self.schema, table.schema) and _matches(self.name, table.name)


def parse_patterns(texts: Iterable[str], default_schema: str) -> tuple[TablePattern, ...]:
    """Return patterns; all tables of the default schema where there is none."""
    return tuple(TablePattern.parse(each, default_schema) for each in texts) or (
        TablePattern(default_schema, "*"),
    )


def _matches(pattern: str, name: str) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(expression, name, re.DOTALL) is not None


def _to_like(pattern: str) -> str:
    known = {"*": "%", "?": "_", "%": "|%", "_": "|_", "|": "||"}
    return "".join(known.get(char, char) for char in pattern)
