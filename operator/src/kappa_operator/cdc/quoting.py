"""Identifiers and literals in statements, quoted by the rules of each database.

A name may have any character. PostgreSQL has escapes for those that are not printable, so a statement is one line and
cannot steer a terminal.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kappa_operator.cdc.facts import TableName


def quote_postgresql(name: str) -> str:
    """Return an identifier of PostgreSQL in double quotes."""
    doubled = name.replace('"', '""')
    if name.isprintable():
        return f'"{doubled}"'
    escaped = doubled.replace("\\", "\\\\")
    return 'U&"' + "".join(char if char.isprintable() else f"\\+{ord(char):06X}" for char in escaped) + '"'


def quote_postgresql_table(table: TableName) -> str:
    """Return a table of PostgreSQL with its schema."""
    return f"{quote_postgresql(table.schema)}.{quote_postgresql(table.name)}"


def quote_postgresql_text(text: str) -> str:
    """Return a literal of PostgreSQL, for any value of `standard_conforming_strings`."""
    doubled = text.replace("'", "''")
    if "\\" not in text:
        return f"'{doubled}'"
    escaped = doubled.replace("\\", "\\\\")
    return f"E'{escaped}'"


def quote_mysql(name: str) -> str:
    """Return an identifier of MySQL or MariaDB in backquotes, which work with every `sql_mode`."""
    return "`" + name.replace("`", "``") + "`"


def quote_mysql_table(table: TableName) -> str:
    """Return a table of MySQL with its database."""
    return f"{quote_mysql(table.schema)}.{quote_mysql(table.name)}"


def quote_mysql_account(account: tuple[str, str]) -> str:
    """Return an account: user and host."""
    return f"{quote_mysql(account[0])}@{quote_mysql(account[1])}"


def quote_mysql_text(text: str) -> str:
    """Return a literal of MySQL or MariaDB, for any `sql_mode`: what a backslash means depends on it."""
    if "\\" in text:
        return f"_utf8mb4 X'{text.encode().hex().upper()}'"
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


@dataclass(frozen=True)
class Dialect:
    """How a database quotes names and texts."""

    name: Callable[[str], str]
    text: Callable[[str], str]

    def table(self, table: TableName) -> str:
        """Return a table with its schema."""
        return f"{self.name(table.schema)}.{self.name(table.name)}"


POSTGRESQL = Dialect(quote_postgresql, quote_postgresql_text)
MYSQL = Dialect(quote_mysql, quote_mysql_text)
