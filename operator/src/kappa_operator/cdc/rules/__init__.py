"""The rules: facts and a request in, findings out. They do no I/O.

Findings about tables come before those about the publication: a table needs a replica identity before it is published,
or its updates fail. So statements can be run in the order of the findings.
"""

from kappa_operator.cdc.facts import Connection, Facts, PostgresFacts
from kappa_operator.cdc.findings import Finding, Severity, is_ready, sort_findings
from kappa_operator.cdc.quoting import quote_postgresql
from kappa_operator.cdc.rules.mysql import check_mysql
from kappa_operator.cdc.rules.postgresql import OLDEST, check_server
from kappa_operator.cdc.rules.postgresql_tables import check_tables
from kappa_operator.cdc.rules.publication import check_publication
from kappa_operator.cdc.rules.request import Request

__all__ = ["Finding", "Request", "Severity", "check_database", "describe_connect_denied", "is_ready"]


def check_database(facts: Facts, request: Request) -> tuple[Finding, ...]:
    """Return all findings about a database, errors first."""
    if isinstance(facts, PostgresFacts) and facts.major < OLDEST:
        found = [*check_server(facts, request)]
    elif isinstance(facts, PostgresFacts):
        found = [
            *check_server(facts, request),
            *check_tables(facts, request),
            *check_publication(facts, request),
        ]
    else:
        found = [*check_mysql(facts, request)]
    return sort_findings([*found, *_check_connection(facts.connection)])


def describe_connect_denied(user: str, database: str) -> Finding:
    """Return the finding about a user of PostgreSQL who may not connect."""
    role, name = quote_postgresql(user), quote_postgresql(database)
    return Finding(
        Severity.ERROR,
        "connect",
        f"database {database}",
        f"User {user} lacks CONNECT.",
        "The connector cannot connect. The rest could not be checked.",
        (f"GRANT CONNECT ON DATABASE {name} TO {role};",),
    )


def _check_connection(connection: Connection) -> list[Finding]:
    if connection.encrypted and connection.verified:
        return []
    if connection.encrypted:
        message, advice = "The certificate of the server is not verified.", "Use --ca-file."
    else:
        message, advice = "The connection is not encrypted.", "Use TLS unless the network is trusted."
    why = "Another host could read the password and all rows."
    return [Finding(Severity.WARNING, "tls", "connection", message, why, advice=advice)]
