"""The demo of databases: what it applies, and that its comparison sees every kind of difference."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from demo.shop.manifests import ORDER, TABLES, Example
from demo.shop.views import LIVE_STOCK, ORDER_LINES, VIEWS, Comparison, parse_row, spoil_expected

ROWS = {1: (1, "tea", Decimal("1.50"), 9, True), 2: (2, "milk", Decimal(2), 10, False)}
EQUAL = Comparison(LIVE_STOCK, ROWS, dict(ROWS), 5)


def test_equal_rows_have_no_difference() -> None:
    assert EQUAL.differences == []


def test_a_cell_a_lacking_row_and_a_row_too_many_are_differences() -> None:
    found = {2: (2, "milk", Decimal("2.01"), 10, False), 3: (3, None, None, 0, True)}
    differences = replace(EQUAL, found=found).differences
    assert [(each.where, each.what, each.expected, each.found) for each in differences] == [
        ("live-stock 1", "row", ROWS[1], None),
        ("live-stock 2", "price", Decimal(2), Decimal("2.01")),
        ("live-stock 3", "row", None, found[3]),
    ]


def test_a_spoiled_row_is_noticed() -> None:
    (difference,) = spoil_expected(EQUAL).differences
    assert (difference.where, difference.what) == ("live-stock 1", "low")


def test_numbers_and_times_of_a_record_are_exact() -> None:
    value = b'{"id":7,"price":0.10,"placed":"2026-01-01T08:00:00.000001Z","quantity":3}'
    row = dict(zip(ORDER_LINES.columns, parse_row(ORDER_LINES, value), strict=True))
    assert (row["price"], row["placed"]) == (Decimal("0.10"), datetime(2026, 1, 1, 8, 0, 0, 1, tzinfo=UTC))
    assert row["note"] is None


def test_a_prefix_changes_the_names_in_kafka_and_nothing_else() -> None:
    plain, other = Example().documents(*ORDER), Example("other", "test").documents(*ORDER)
    for one, two in zip(plain, other, strict=True):
        spec = dict(two["spec"])
        match one["kind"]:
            case "Topic":
                assert spec.pop("topicName") == f"test-{one['metadata']['name']}"
            case "CDCSource":
                assert spec.pop("topicPrefix") == "test"
            case "Pipeline":
                topics = {source["topic"] for source in spec["sources"]}
                assert topics <= {f"test.public.{table}" for table in TABLES}
                spec["sources"] = one["spec"]["sources"]
        assert spec == one["spec"]


def test_each_view_has_the_topic_of_a_sink() -> None:
    topics = {
        sink["kafka"]["topic"]
        for document in Example().documents(*ORDER)
        for sink in document["spec"].get("sinks", ())
    }
    assert {view.topic for view in VIEWS} == topics
    assert topics < set(Example().topics)
