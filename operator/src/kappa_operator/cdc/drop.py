"""Removes what a connector made in PostgreSQL: its slot, and the publication that it created."""

import asyncio
from typing import Any

import psycopg
from psycopg import sql

from kappa_operator.cdc.address import Address
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.postgresql import TOTAL_SECONDS, connect

_PAUSE = 1.0
_FIND = "SELECT active FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"
_OWNED = "SELECT pg_catalog.pg_has_role(pubowner, 'USAGE') FROM pg_catalog.pg_publication WHERE pubname = %s"
_Connection = psycopg.AsyncConnection[Any]


async def drop_replication(address: Address, slot: str, publication: str) -> tuple[str, ...]:
    """Drop the slot, and the publication unless its name is empty; return what was dropped. What is gone is fine. Raise DatabaseProblem."""
    where = f"{address.host}:{address.port}/{address.database}"
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            async with await connect(address) as connection:
                await connection.set_autocommit(True)
                await connection.execute("SET search_path = ''")
                return (
                    *await _drop_slot(connection, slot),
                    *await _drop_publication(connection, publication),
                )
    except TimeoutError:
        raise DatabaseProblem(
            f"{where}: slot {slot} is in use, or the server does not answer within {TOTAL_SECONDS} s"
        ) from None
    except psycopg.Error as error:
        raise DatabaseProblem(f"{where}: nothing could be dropped: SQLSTATE {error.sqlstate}") from None


async def _drop_slot(connection: _Connection, slot: str) -> tuple[str, ...]:
    """Wait until the connector has left the slot, and drop it."""
    while True:
        row = await (await connection.execute(_FIND, (slot,))).fetchone()
        if row is None:
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
