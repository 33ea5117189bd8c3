"""The application: it writes transactions of all kinds into the tables of the shop, and knows nothing of topics.

What it does next is random, by a seed. A transaction that fails is not repeated: the database has all of it or nothing. There is one
writer. An id is the largest one plus one, so ids of deleted rows are used again.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from lab.paths import REPOSITORY

EXAMPLE = REPOSITORY / "pipelines" / "examples" / "shop"
CUSTOMERS, PRODUCTS, ORDERS = 200, 100, 1_000
"""Rows that are there before any connector."""
CITIES = ("Aachen", "Bergen", "Cádiz", "Delft", "Évora", "Gdańsk")
TIERS = ("bronze", "silver", "gold")
ADD_COLUMN = "ALTER TABLE customers ADD COLUMN tier TEXT"

Row = tuple[Any, ...]


class Result(Protocol):
    """The rows of a query."""

    @property
    def rowcount(self) -> int:
        """Return the number of rows."""

    def fetchone(self) -> Row | None:
        """Return the next row."""

    def fetchall(self) -> Sequence[Row]:
        """Return all rows that are left."""


class Database(Protocol):
    """A connection, as psycopg has it: a statement is a transaction of its own where there is none."""

    def execute(self, query: bytes, params: Sequence[object] | None = None, /) -> Result:
        """Run a statement; `%s` in it stands for a value."""

    def transaction(self) -> AbstractContextManager[object]:
        """Begin a transaction, which is committed at the end of the block, or rolled back after an error."""


_LARGE = 3_000
"""Characters of a note that PostgreSQL stores apart from its row, and does not log where an update leaves it as it is."""


def create_tables(database: Database, password: str) -> None:
    """Create the tables with their first rows, and the user of the connector, in an empty database of PostgreSQL."""
    with database.transaction():
        database.execute(f"CREATE ROLE debezium LOGIN REPLICATION PASSWORD '{password}'".encode())
        database.execute((EXAMPLE / "schema.sql").read_bytes())
        database.execute(b"ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    fill_tables(database)


def fill_tables(database: Database) -> None:
    """Insert the first rows."""
    random_rows = random.Random(1)
    with database.transaction():
        for n in range(1, CUSTOMERS + 1):
            customer = n, f"customer {n}", random_rows.choice(CITIES)
            database.execute(b"INSERT INTO customers VALUES (%s, %s, %s)", customer)
        for n in range(1, PRODUCTS + 1):
            product = n, f"product {n}", random_rows.randint(100, 9_999)
            database.execute(b"INSERT INTO products VALUES (%s, %s, %s / 100.0)", product)
        database.execute(b"INSERT INTO stock SELECT id, 100 FROM products")
    shop = Application(database, seed=1)
    with database.transaction():
        for _ in range(ORDERS):
            shop.place_order()


@dataclass
class Application:
    """Writes to a database over one connection, which the caller replaces after an error."""

    database: Database
    seed: int
    has_tiers: bool = False
    """Whether customers have a tier, which is a column that is added later."""
    done: Counter[str] = field(default_factory=Counter)
    """How often each kind of transaction was committed."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._kinds: dict[Callable[[], None], int] = {
            self.place_order: 30, self.ship_order: 14, self.cancel_order: 10, self.write_note: 8,
            self.change_quantity: 8, self.renumber_item: 3, self.restock: 8, self.change_product: 6,
            self.replace_product: 2, self.move_customer: 7, self.merge_customer: 2, self.add_customer: 2,
        }  # fmt: skip

    def work(self) -> str:
        """Commit one transaction, and return what it was."""
        (kind,) = self._random.choices(list(self._kinds), list(self._kinds.values()))
        with self.database.transaction():
            kind()
            if self.has_tiers and self._random.random() < 0.1:
                self._run(
                    "UPDATE customers SET tier = %s WHERE id = %s",
                    self._random.choice(TIERS),
                    self._pick("customers"),
                )
        name = kind.__name__.replace("_", " ")
        self.done[name] += 1
        return name

    def place_order(self) -> None:
        """Insert an order with one to four items, and take these from the stock."""
        order = self._next("orders")
        note = self._random.choice((None, "as a gift", "x" * _LARGE))
        self._run(
            "INSERT INTO orders VALUES (%s, %s, 'placed', now(), %s)", order, self._pick("customers"), note
        )
        for _ in range(self._random.randint(1, 4)):
            product, quantity = self._pick("stock", "product"), self._random.randint(1, 3)
            self._run(
                "INSERT INTO items SELECT %s, %s, id, %s, price FROM products WHERE id = %s",
                *(self._next("items"), order, quantity, product),
            )
            self._run("UPDATE stock SET quantity = quantity - %s WHERE product = %s", quantity, product)

    def ship_order(self) -> None:
        """Change the status of an order. Its note, which may be large, stays as it is."""
        self._run("UPDATE orders SET status = 'shipped' WHERE id = %s", self._pick("orders"))

    def cancel_order(self) -> None:
        """Delete an order with its items, and return these to the stock."""
        order = self._pick("orders")
        self._run(
            "UPDATE stock SET quantity = quantity + coalesce((SELECT sum(quantity) FROM items"
            " WHERE order_id = %s AND product = stock.product), 0)"
            " WHERE product IN (SELECT product FROM items WHERE order_id = %s)",
            *(order, order),
        )
        self._run("DELETE FROM items WHERE order_id = %s", order)
        self._run("DELETE FROM orders WHERE id = %s", order)

    def write_note(self) -> None:
        """Give an order another note, a large one, or none."""
        note = self._random.choice((None, "call first", "y" * self._random.randint(_LARGE, 2 * _LARGE)))
        self._run("UPDATE orders SET note = %s WHERE id = %s", note, self._pick("orders"))

    def change_quantity(self) -> None:
        """Change an item twice in one transaction."""
        item = self._pick("items")
        for quantity in (self._random.randint(1, 9), self._random.randint(1, 9)):
            self._run("UPDATE items SET quantity = %s WHERE id = %s", quantity, item)

    def renumber_item(self) -> None:
        """Change the primary key of an item."""
        self._run("UPDATE items SET id = %s WHERE id = %s", self._next("items"), self._pick("items"))

    def restock(self) -> None:
        """Change many rows of the stock in one statement."""
        self._run(
            "UPDATE stock SET quantity = quantity + 20 WHERE quantity < %s", self._random.randint(5, 30)
        )

    def change_product(self) -> None:
        """Change the price and the name of a product, and so all rows of the view that have it."""
        product = self._pick("products")
        self._run(
            "UPDATE products SET price = round(price * %s / 100, 2), name = %s WHERE id = %s",
            *(self._random.randint(90, 110), f"product {product} v{self._random.randint(2, 99)}", product),
        )

    def replace_product(self) -> None:
        """Move the items of a product to a new one, and delete the old one with its stock."""
        old, new = self._pick("products"), self._next("products")
        self._run(
            "INSERT INTO products SELECT %s, name || ' II', price FROM products WHERE id = %s", new, old
        )
        self._run("INSERT INTO stock SELECT %s, quantity FROM stock WHERE product = %s", new, old)
        self._run("UPDATE items SET product = %s WHERE product = %s", new, old)
        self._run("DELETE FROM stock WHERE product = %s", old)
        self._run("DELETE FROM products WHERE id = %s", old)

    def move_customer(self) -> None:
        """Change the city of a customer."""
        city = self._random.choice((*CITIES, None))
        self._run("UPDATE customers SET city = %s WHERE id = %s", city, self._pick("customers"))

    def merge_customer(self) -> None:
        """Give the orders of a customer to another one, and delete the customer."""
        gone, stays = self._pick("customers"), self._pick("customers")
        if gone != stays:
            self._run("UPDATE orders SET customer = %s WHERE customer = %s", stays, gone)
            self._run("DELETE FROM customers WHERE id = %s", gone)

    def add_customer(self) -> None:
        """Insert a customer."""
        customer = self._next("customers")
        self._run(
            "INSERT INTO customers (id, name, city) VALUES (%s, %s, %s)",
            *(customer, f"customer {customer}", self._random.choice(CITIES)),
        )

    def _run(self, statement: str, *values: object) -> None:
        self.database.execute(statement.encode(), values)

    def _next(self, table: str) -> int:
        return self._read(f"SELECT coalesce(max(id), 0) + 1 FROM {table}")  # noqa: S608 - names of this module

    def _pick(self, table: str, key: str = "id") -> int:
        """Return the key of a random row."""
        largest = self._read(f"SELECT coalesce(max({key}), 1) FROM {table}")  # noqa: S608
        place = self._random.randint(1, largest)
        return self._read(f"SELECT min({key}) FROM {table} WHERE {key} >= {place}")  # noqa: S608

    def _read(self, query: str) -> int:
        row = self.database.execute(query.encode()).fetchone()
        assert row is not None
        return int(row[0])
