"""Rules about the publication that the connector reads. An administrator creates it, or the user if it owns all tables."""

from collections.abc import Iterator

from kappa_operator.cdc.facts import PostgresFacts, PostgresTable, Publication
from kappa_operator.cdc.findings import Finding, Severity
from kappa_operator.cdc.quoting import quote_postgresql, quote_postgresql_table
from kappa_operator.cdc.rules.postgresql_tables import list_published
from kappa_operator.cdc.rules.request import Request

_REQUIRED = frozenset({"insert", "update", "delete"})


def check_publication(facts: PostgresFacts, request: Request) -> Iterator[Finding]:
    """Yield what is wrong with the publication."""
    tables = list_published(facts, request)
    if not tables:
        return
    if facts.publication is None:
        yield from _check_creation(facts, request, tables)
        return
    yield from _check_members(facts, facts.publication, tables)
    yield from _check_root(facts.publication, tables)
    yield from _check_operations(facts.publication)
    yield from _check_filters(facts.publication, tables)


def _check_creation(facts: PostgresFacts, request: Request, tables: list[PostgresTable]) -> Iterator[Finding]:
    owns = facts.can_create and all(each.owned for each in tables)
    if facts.is_superuser or (owns and not _has_partitions(tables)):
        return
    names = ", ".join(quote_postgresql_table(each.name) for each in tables)
    root = (
        " WITH (publish_via_partition_root = true)" if facts.major >= 13 and _has_partitions(tables) else ""
    )
    yield Finding(
        Severity.ERROR, "publication", f"publication {request.publication}", "The publication does not exist.",
        f"User {facts.user} cannot create it: that needs CREATE on the database and the ownership of each table.",
        (f"CREATE PUBLICATION {quote_postgresql(request.publication)} FOR TABLE {names}{root};",),
    )  # fmt: skip


def _has_partitions(tables: list[PostgresTable]) -> bool:
    return any(each.kind == "p" for each in tables)


def _check_members(
    facts: PostgresFacts, publication: Publication, tables: list[PostgresTable]
) -> Iterator[Finding]:
    missing = [each for each in tables if not _is_member(each, facts, publication)]
    if not missing or (facts.is_superuser or (publication.owned and all(each.owned for each in missing))):
        return
    names = ", ".join(quote_postgresql_table(each.name) for each in missing)
    yield Finding(
        Severity.ERROR, "publication-tables", f"publication {publication.name}",
        f"It lacks {', '.join(str(each.name) for each in missing[:5])}" + (f" and {len(missing) - 5} more." if len(missing) > 5 else "."),
        "Changes of these tables would not arrive, and no error would show it.",
        (f"ALTER PUBLICATION {quote_postgresql(publication.name)} ADD TABLE {names};",),
    )  # fmt: skip


def _is_member(table: PostgresTable, facts: PostgresFacts, publication: Publication) -> bool:
    """Without `via_root`, a publication of a partitioned table has its partitions as members."""
    if publication.all_tables or table.name in publication.tables or table.root in publication.tables:
        return True
    partitions = [each.name for each in facts.tables if each.root == table.name and each.kind == "r"]
    return bool(partitions) and publication.tables.issuperset(partitions)


def _check_root(publication: Publication, tables: list[PostgresTable]) -> Iterator[Finding]:
    for table in tables:
        if table.kind == "p" and not publication.via_root:
            yield Finding(
                Severity.ERROR, "partition-root", f"table {table.name}", f"Publication {publication.name} publishes its partitions.",
                "Changes arrive under the names of the partitions, so those of the requested table are missing.",
                (f"ALTER PUBLICATION {quote_postgresql(publication.name)} SET (publish_via_partition_root = true);",),
            )  # fmt: skip
            return


def _check_operations(publication: Publication) -> Iterator[Finding]:
    missing = sorted(_REQUIRED - publication.operations)
    if missing:
        yield Finding(
            Severity.ERROR, "publication-operations", f"publication {publication.name}",
            f"It does not publish {' and '.join(missing)}.",
            "These changes would not arrive, and no error would show it.",
            (f"ALTER PUBLICATION {quote_postgresql(publication.name)} SET (publish = 'insert, update, delete, truncate');",),
        )  # fmt: skip


def _check_filters(publication: Publication, tables: list[PostgresTable]) -> Iterator[Finding]:
    name = quote_postgresql(publication.name)
    for table in tables:
        if table.name in publication.filtered:
            full = quote_postgresql_table(table.name)
            yield Finding(
                Severity.WARNING, "publication-filter", f"table {table.name}",
                f"Publication {publication.name} omits rows or columns of it.",
                "The snapshot has rows and columns whose changes do not arrive.",
                (f"ALTER PUBLICATION {name} DROP TABLE {full};", f"ALTER PUBLICATION {name} ADD TABLE {full};"),
                advice="Run both in one transaction.",
            )  # fmt: skip
