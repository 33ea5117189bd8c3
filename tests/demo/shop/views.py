"""The views, as queries of the database and as the topics that the pipelines write, and what differs between them."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from demo.compare import Difference, read_topic
from demo.shop.application import Database

_COLUMNS: dict[str, Callable[[Any], Any]] = {"price": Decimal, "placed": datetime.fromisoformat}
"""What JSON has as text or as a number that must stay exact."""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class View:
    """A view: its topic, the columns with the key first, and the query that it must equal."""

    topic: str
    columns: tuple[str, ...]
    query: str


ORDER_LINES = View(
    "order-lines",
    ("id", "order_id", "product", "quantity", "price", "product_name", "customer", "status", "placed", "note", "customer_name", "city"),
    "SELECT i.id, i.order_id, i.product, i.quantity, i.price, p.name, o.customer, o.status, o.placed, o.note, c.name, c.city"
    " FROM items i LEFT JOIN products p ON p.id = i.product LEFT JOIN orders o ON o.id = i.order_id"
    " LEFT JOIN customers c ON c.id = o.customer",
)  # fmt: skip
LIVE_STOCK = View(
    "live-stock",
    ("product", "name", "price", "quantity", "low"),
    "SELECT s.product, p.name, p.price, s.quantity, s.quantity < 10"
    " FROM stock s LEFT JOIN products p ON p.id = s.product",
)
ORDERS_WITH_TIERS = View(
    "orders-with-tiers",
    ("id", "customer", "status", "name", "tier"),
    "SELECT o.id, o.customer, o.status, c.name, c.tier FROM orders o LEFT JOIN customers c ON c.id = o.customer",
)
VIEWS = (ORDER_LINES, LIVE_STOCK, ORDERS_WITH_TIERS)


@dataclass(frozen=True)
class Comparison:
    """A view, as both sides have it."""

    view: View
    expected: Mapping[int, Row]
    found: Mapping[int, Row]
    records: int
    """Records of the topic."""

    @property
    def differences(self) -> list[Difference]:
        """Return every cell that differs, and every row that only one side has."""
        return [
            difference
            for key in sorted(self.expected.keys() | self.found.keys())
            for difference in self._compare(key)
        ]

    def _compare(self, key: int) -> Iterator[Difference]:
        expected, found = self.expected.get(key), self.found.get(key)
        where = f"{self.view.topic} {key}"
        if expected is None or found is None:
            yield Difference(where, "row", expected, found)
            return
        for name, one, other in zip(self.view.columns, expected, found, strict=True):
            if one != other:
                yield Difference(where, name, one, other)


def compare_view(view: View, topic: str, database: Database, bootstrap: str) -> Comparison:
    """Return a view as the database and its topic have it now."""
    with database.transaction():
        rows = database.execute(view.query.encode()).fetchall()
    found: dict[int, Row] = {}
    records = 0
    for message in read_topic(topic, bootstrap):
        records += 1
        key = int(message.key() or b"")
        found.pop(key, None)
        if (value := message.value()) is not None:
            found[key] = parse_row(view, value)
    return Comparison(view, {row[0]: row for row in rows}, found, records)


def spoil_expected(comparison: Comparison) -> Comparison:
    """Return the comparison with one expected row made wrong, to see that it is noticed."""
    key = min(comparison.expected)
    row = (*comparison.expected[key][:-1], "elsewhere")
    return replace(comparison, expected={**comparison.expected, key: row})


def parse_row(view: View, value: bytes) -> Row:
    """Return the columns of a record; a column that it lacks is NULL."""
    fields = json.loads(value, parse_float=Decimal)
    return tuple(_parse(name, fields.get(name)) for name in view.columns)


def _parse(name: str, value: Any) -> Any:
    convert = _COLUMNS.get(name)
    return value if value is None or convert is None else convert(value)
