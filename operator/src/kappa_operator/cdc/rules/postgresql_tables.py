"""Rules about the requested tables of a PostgreSQL database."""

from collections.abc import Iterator

from kappa_operator.cdc.facts import MOST_TABLES, PostgresColumn, PostgresFacts, PostgresTable
from kappa_operator.cdc.findings import Finding, Severity
from kappa_operator.cdc.patterns import TablePattern
from kappa_operator.cdc.quoting import quote_postgresql, quote_postgresql_table
from kappa_operator.cdc.rules.request import Request

_KINDS = {"v": "view", "m": "materialized view", "f": "foreign table"}
_UNMAPPED_ARRAYS = frozenset({"money", "name", "interval", "bit varying", "xml", "point", "refcursor"})
_UNMAPPED = frozenset(
    {"pg_lsn", "pg_snapshot", "txid_snapshot", "tsquery", "jsonpath", "xid", "xid8", "cid", "tid", "aclitem"}
)  # fmt: skip
_UNMAPPED_KINDS = frozenset({"c", "m"})
"""Composite types and multiranges."""


def is_requested(table: PostgresTable, request: Request) -> bool:
    """Return whether a pattern matches the table or the partitioned table that it belongs to."""
    names = [table.name] if table.root is None else [table.name, table.root]
    return any(pattern.matches(name) for pattern in request.patterns for name in names)


def list_published(facts: PostgresFacts, request: Request) -> list[PostgresTable]:
    """Return the tables that a publication has to name: partitions belong to their root if it is requested."""
    requested = [each for each in facts.tables if is_requested(each, request)]
    names = {each.name for each in requested}
    return [
        each for each in requested if each.is_stored and each.persistence != "t" and each.root not in names
    ]


def check_tables(facts: PostgresFacts, request: Request) -> Iterator[Finding]:
    """Yield what is wrong with the requested tables."""
    for pattern in request.patterns:
        yield from _check_pattern(pattern, facts)
    if len(facts.tables) >= MOST_TABLES:
        yield Finding(
            Severity.WARNING, "too-many-tables", "tables", f"Only the first {MOST_TABLES} tables were checked.",
            "The rest may lack what the connector needs.", advice="Name the tables with --table.",
        )  # fmt: skip
    yield from _check_schemas(facts, request)
    published = {each.name for each in list_published(facts, request)}
    for table in facts.tables:
        if is_requested(table, request):
            yield from _check_table(table, facts, request, is_root=table.name in published)


def _check_pattern(pattern: TablePattern, facts: PostgresFacts) -> Iterator[Finding]:
    if not any(pattern.matches(each.name) for each in facts.tables):
        yield Finding(
            Severity.ERROR, "no-such-table", f"table {pattern}", "No table matches.",
            "The connector would read nothing.", advice="Names are case-sensitive. Correct the pattern, or create the table.",
        )  # fmt: skip


def _check_schemas(facts: PostgresFacts, request: Request) -> Iterator[Finding]:
    role = quote_postgresql(facts.user)
    schemas = {each.name.schema for each in list_published(facts, request) if not each.has_usage}
    for schema in sorted(schemas):
        yield Finding(
            Severity.ERROR, "schema-usage", f"schema {schema}", f"User {facts.user} lacks USAGE.",
            "The snapshot cannot read the tables of the schema.",
            (f"GRANT USAGE ON SCHEMA {quote_postgresql(schema)} TO {role};",),
        )  # fmt: skip


def _check_table(
    table: PostgresTable, facts: PostgresFacts, request: Request, *, is_root: bool
) -> Iterator[Finding]:
    if not table.is_stored or table.persistence == "t":
        yield from _refuse(table, request)
        return
    if table.persistence == "u":
        yield _describe_unlogged(table)
    if is_root:
        yield from _check_select(table, facts)
        yield from _check_row_security(table, facts)
    if table.kind == "r":
        yield from _check_identity(table)
    if is_root:
        yield from _check_columns(table, facts)


def _refuse(table: PostgresTable, request: Request) -> Iterator[Finding]:
    named = any(each.is_exact and each.matches(table.name) for each in request.patterns)
    what = "temporary table" if table.is_stored else _KINDS.get(table.kind, "relation of an unknown kind")
    yield Finding(
        Severity.ERROR if named else Severity.INFORMATION,
        "not-a-table",
        f"table {table.name}",
        f"It is a {what}" + (", and cannot be captured." if named else ", and is not captured."),
        "Its changes are not in the WAL of this database.",
        advice="Name the tables that have its rows instead." if named else "",
    )


def _describe_unlogged(table: PostgresTable) -> Finding:
    return Finding(
        Severity.ERROR, "unlogged", f"table {table.name}", "The table is unlogged.",
        "Its changes are not in the WAL, and it cannot be in a publication.",
        (f"ALTER TABLE {quote_postgresql_table(table.name)} SET LOGGED;",),
        advice="The statement rewrites the table and locks it.",
    )  # fmt: skip


def _check_select(table: PostgresTable, facts: PostgresFacts) -> Iterator[Finding]:
    if not table.has_select:
        name, role = quote_postgresql_table(table.name), quote_postgresql(facts.user)
        yield Finding(
            Severity.ERROR, "select", f"table {table.name}", f"User {facts.user} lacks SELECT.",
            "The snapshot cannot read the table.", (f"GRANT SELECT ON TABLE {name} TO {role};",),
        )  # fmt: skip


def _check_row_security(table: PostgresTable, facts: PostgresFacts) -> Iterator[Finding]:
    if table.has_row_security:
        yield Finding(
            Severity.ERROR, "row-security", f"table {table.name}", f"Row-level security hides rows from user {facts.user}.",
            "The snapshot would lack rows, and no error would show it.",
            (f"ALTER ROLE {quote_postgresql(facts.user)} BYPASSRLS;",),
        )  # fmt: skip


def _check_identity(table: PostgresTable) -> Iterator[Finding]:
    """Partitions have replica identities of their own, so each is checked."""
    identity = table.replica_identity
    usable = {"d": table.has_primary_key, "i": table.has_identity_index, "f": True}.get(identity, False)
    if not usable:
        yield Finding(
            Severity.ERROR, "replica-identity", f"table {table.name}", _explain_identity(table),
            "In a publication, updates and deletes of this table fail: also those of the application.",
            (_build_identity(table),),
        )  # fmt: skip
    elif identity == "f" and table.has_primary_key:
        yield Finding(
            Severity.INFORMATION, "replica-identity-full", f"table {table.name}", "The replica identity is FULL.",
            "Updates and deletes write the whole previous row to the WAL. Events have it; the primary key alone needs less WAL.",
        )  # fmt: skip
    if not table.has_primary_key and table.key_index is None:
        yield Finding(
            Severity.WARNING, "no-primary-key", f"table {table.name}", "The table has no primary key.",
            "Events have no key, so their topic cannot be compacted, and an update cannot be matched to its row.",
            advice="Add a primary key, or choose key columns in the connector (message.key.columns).",
        )  # fmt: skip


def _explain_identity(table: PostgresTable) -> str:
    return {
        "d": "The table has no primary key and the default replica identity.",
        "n": "The replica identity is NOTHING.",
        "i": "The index of the replica identity does not exist.",
    }.get(table.replica_identity, "The replica identity is unknown.")


def _build_identity(table: PostgresTable) -> str:
    if table.has_primary_key:
        identity = "DEFAULT"
    elif table.key_index is not None:
        identity = f"USING INDEX {quote_postgresql(table.key_index)}"
    else:
        identity = "FULL"
    return f"ALTER TABLE {quote_postgresql_table(table.name)} REPLICA IDENTITY {identity};"


def _check_columns(table: PostgresTable, facts: PostgresFacts) -> Iterator[Finding]:
    for column in table.columns:
        subject = f"column {table.name}.{column.name}"
        if is_unmapped(column):
            yield Finding(
                Severity.WARNING, "column-type", subject, f"Debezium does not map the type {column.type}.",
                "The column is missing in events.",
                advice="Exclude the column, or set include.unknown.datatypes to get its bytes.",
            )  # fmt: skip
        elif lost := _find_lost_value(column):
            table_name, name = quote_postgresql_table(table.name), quote_postgresql(column.name)
            yield Finding(
                Severity.WARNING, "lost-value", subject, f"Debezium loses {lost}.",
                "Snapshots have it, and later changes have NULL in its place, so the topic differs from the table.",
                (f"ALTER TABLE {table_name} ALTER COLUMN {name} TYPE text;",) if column.type == "name" else (),
                advice="The statement may rewrite the table. Or exclude the column."
                if column.type == "name" else "Exclude the column, or store the value as JSON.",
            )  # fmt: skip
        if column.is_generated:
            yield from _check_generated(subject, facts)


def _find_lost_value(column: PostgresColumn) -> str:
    """Return what changes lack of a column, seen in Debezium 3.7."""
    if column.is_array:
        return "the elements of an array of two or more dimensions" if column.dimensions > 1 else ""
    return "values of the type name" if column.type == "name" else ""


def is_unmapped(column: PostgresColumn) -> bool:
    """Return whether Debezium omits a column by default, because of its type."""
    if column.type_kind in _UNMAPPED_KINDS:
        return True
    base = column.type.removesuffix("[]").partition("(")[0]
    return base in _UNMAPPED or (column.is_array and (base in _UNMAPPED_ARRAYS or column.type_kind == "d"))


def _check_generated(subject: str, facts: PostgresFacts) -> Iterator[Finding]:
    publication = facts.publication
    if facts.major >= 18 and publication is not None and publication.generated_columns:
        return
    statements: tuple[str, ...] = ()
    if facts.major >= 18 and publication is not None:
        name = quote_postgresql(publication.name)
        statements = (f"ALTER PUBLICATION {name} SET (publish_generated_columns = stored);",)
    yield Finding(
        Severity.WARNING, "generated-column", subject, "The column is generated, and is not in the stream.",
        "The snapshot has its values and later changes do not.", statements,
        advice="" if statements else "Exclude the column, or calculate it in a view.",
    )  # fmt: skip
