"""Removes what a connector made in PostgreSQL: its slot, and the publication that it created."""

import asyncio
from typing import Any

import psycopg
from psycopg import sql

from kappa_operator.cdc.address import Address
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.postgresql import TOTAL_SECONDS, connect

_PAUSE = 1.0
_FIND = """
    SELECT active, pg_catalog.pg_wal_lsn_diff(CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
        ELSE pg_catalog.pg_current_wal_lsn() END, restart_lsn)::bigint AS retained
    FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""
_OWNED = "SELECT pg_catalog.pg_has_role(pubowner, 'USAGE') FROM pg_catalog.pg_publication WHERE pubname = %s"
_Connection = psycopg.AsyncConnection[Any]


async def drop_replication(
    address: Address, slot: str, publication: str, *, least_retained: int = 0
) -> tuple[str, ...]:
    """Drop the slot, and the publication unless its name is empty; return what was dropped. What is gone is fine. Raise DatabaseProblem.

    A slot that retains fewer bytes than `least_retained` stays.
    """
    where = f"{address.host}:{address.port}/{address.database}"
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            async with await connect(address) as connection:
                await connection.set_autocommit(True)
                await connection.execute("SET search_path = ''")
                return (
                    *await _drop_slot(connection, slot, least_retained),
                    *await _drop_publication(connection, publication),
                )
    except TimeoutError:
        raise DatabaseProblem(
            f"{where}: slot {slot} is in use, or the server does not answer within {TOTAL_SECONDS} s"
        ) from None
    except psycopg.Error as error:
        raise DatabaseProblem(f"{where}: nothing could be dropped: SQLSTATE {error.sqlstate}") from None


async def _drop_slot(connection: _Connection, slot: str, least_retained: int) -> tuple[str, ...]:
    """Wait until the connector has left the slot, and drop it."""
    while True:
        row = await (await connection.execute(_FIND, (slot,))).fetchone()
        if row is None or (least_retained and (row[1] is None or row[1] < least_retained)):
            return ()
        if not row[0]:
            await connection.execute("SELECT pg_catalog.pg_drop_replication_slot(%s)", (slot,))
            return (f"slot {slot}",)
        await asyncio.sleep(_PAUSE)


async def _drop_publication(connection: _Connection, publication: str) -> tuple[str, ...]:
    if not publication:
        return ()
    row = await (await connection.execute(_OWNED, (publication,))).fetchone()
    if row is None or not row[0]:
        return ()
    await connection.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(publication)))
    return (f"publication {publication}",)
