"""What the output of SHOW GRANTS allows."""

import re
from collections.abc import Iterable

from kappa_operator.cdc.facts import Grant, TableName

_LINE = re.compile(
    r"GRANT (?P<privileges>.+?) ON (?:TABLE )?(?P<object>(?:`(?:[^`]|``)*`|\*)\.(?:`(?:[^`]|``)*`|\*)) TO "
)
_COLUMNS = re.compile(r"\([^)]*\)")
_ALL = "ALL PRIVILEGES"


def parse_grants(lines: Iterable[str]) -> tuple[Grant, ...]:
    """Return the grants on tables. Privileges on some columns only are left out: the connector reads all of them."""
    return tuple(grant for line in lines if (grant := _parse(line)) is not None)


def _parse(line: str) -> Grant | None:
    found = _LINE.match(line)
    if found is None:
        return None
    schema, table = re.findall(r"`(?:[^`]|``)*`|\*", found["object"])
    listed = _COLUMNS.sub("(", found["privileges"]).split(",")
    names = frozenset(each.strip().upper() for each in listed if "(" not in each)
    return Grant(names, _unquote(schema), _unquote(table))


def _unquote(name: str) -> str | None:
    return None if name == "*" else name[1:-1].replace("``", "`")


def has_global(grants: Iterable[Grant], names: Iterable[str]) -> bool:
    """Return whether one of the privileges is granted on `*.*`."""
    accepted = {*names, _ALL}
    return any(each.schema is None and accepted & each.privileges for each in grants)


def has_on_table(grants: Iterable[Grant], name: str, table: TableName) -> bool:
    """Return whether a privilege is granted on a table, its database or everything."""
    accepted = {name, _ALL}
    return any(accepted & each.privileges and _covers(each, table) for each in grants)


def _covers(grant: Grant, table: TableName) -> bool:
    if grant.schema is None:
        return True
    if grant.table is not None:
        return (grant.schema, grant.table) == (table.schema, table.name)
    return re.fullmatch(_to_expression(grant.schema), table.schema) is not None


def _to_expression(pattern: str) -> str:
    """Return the expression of a database in a grant, where `%` and `_` are wildcards unless escaped."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    known = {"%": ".*", "_": "."}
    return "".join(known.get(each, re.escape(each[-1])) for each in parts)
