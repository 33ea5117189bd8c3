"""Gathers the facts of a database and applies the rules."""

from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cdc.errors import ConnectDenied
from kappa_operator.cdc.facts import Facts
from kappa_operator.cdc.findings import Finding
from kappa_operator.cdc.mysql import gather_mysql
from kappa_operator.cdc.postgresql import gather_postgresql
from kappa_operator.cdc.rules import Request, check_database, describe_connect_denied


async def check_address(address: Address, request: Request) -> tuple[Finding, ...]:
    """Return the findings about a database; raise DatabaseProblem where its facts cannot be gathered."""
    try:
        return check_database(await gather_facts(address, request), request)
    except ConnectDenied:
        return (describe_connect_denied(address.user, address.database),)


async def gather_facts(address: Address, request: Request) -> Facts:
    """Return the facts of a database; raise DatabaseProblem."""
    if address.kind is DatabaseKind.POSTGRESQL:
        return await gather_postgresql(address, request.patterns, request.publication)
    return await gather_mysql(address, request.patterns, request.marks)
