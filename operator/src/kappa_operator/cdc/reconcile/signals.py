"""Writes signals into the signal table of a connector: the only write, and only on request."""

from collections.abc import Iterable

import psycopg

from kappa_operator.cdc.address import Address
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.postgresql import build_options, explain_refusal, name_address
from kappa_operator.cdc.reconcile.repair import Signal


def write_signals(address: Address, table: TableName, signals: Iterable[Signal]) -> None:
    """Write all signals in one transaction; raise DatabaseProblem."""
    try:
        connection = psycopg.connect(**build_options(address))
    except psycopg.Error as error:
        raise explain_refusal(address, str(error)) from None
    try:
        with connection:
            connection.execute(b"SELECT set_config('search_path', '', true)")
            for signal in signals:
                connection.execute(signal.build_statement(table).encode())
    except psycopg.Error as error:
        raise DatabaseProblem(
            f"{name_address(address)}: the signal was not written to {table}: SQLSTATE {error.sqlstate}"
        ) from None
