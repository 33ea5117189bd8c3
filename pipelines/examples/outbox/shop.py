"""An application without dual writes: it never writes to Kafka. An event is a row of the outbox, in the transaction of its change.

The row is deleted in the same transaction: its insertion is in the log of the database, and the table stays empty.
"""

import json
from collections.abc import Sequence

import psycopg


class OutOfStock(Exception):
    """The stock has too little of a product."""


def place_order(connection: psycopg.Connection, customer: int, items: Sequence[tuple[str, int]]) -> int:
    """Place an order and return its id; raise OutOfStock, without an order and without an event."""
    with connection.transaction():
        (order,) = _fetch(connection, "INSERT INTO orders (customer) VALUES (%s) RETURNING id", customer)
        for product, amount in items:
            try:
                connection.execute(
                    "UPDATE stock SET amount = amount - %s WHERE product = %s", (amount, product)
                )
            except psycopg.errors.CheckViolation:
                raise OutOfStock(product) from None
        _publish(
            connection,
            order,
            "OrderPlaced",
            {"order": order, "customer": customer, "items": dict(items)},
        )
    return int(order)


def cancel_order(connection: psycopg.Connection, order: int) -> None:
    """Cancel an order."""
    with connection.transaction():
        connection.execute("UPDATE orders SET cancelled = true WHERE id = %s", (order,))
        _publish(connection, order, "OrderCancelled", {"order": order})


def _publish(connection: psycopg.Connection, order: int, kind: str, payload: dict[str, object]) -> None:
    (event,) = _fetch(
        connection,
        "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', %s, %s, %s) RETURNING id",
        str(order),
        kind,
        json.dumps(payload),
    )
    connection.execute("DELETE FROM outbox WHERE id = %s", (event,))


def _fetch(connection: psycopg.Connection, statement: str, *values: object) -> tuple[object, ...]:
    row = connection.execute(statement, values).fetchone()  # type: ignore[arg-type]
    if row is None:
        raise LookupError("the statement returned no row")
    return row
