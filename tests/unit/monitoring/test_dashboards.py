"""Dashboards: complete, named well, without thresholds of their own, and together with the rules about all that is exported."""

import json
import re

import promql_parser as promql
import pytest

from kappa_monitoring import MONITORING
from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable
from kappa_monitoring.config import load_config
from kappa_monitoring.dashboards import BOARDS, check_board, list_panels, render_board
from kappa_monitoring.declared import list_metrics
from kappa_monitoring.errors import MonitoringError
from unit.monitoring.rendered import ALERTS, load, load_series

EACH = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
SERIES = {"lag": frozenset({"namespace", "topic"})}


def find_metrics(query: str) -> set[str]:
    """Return the names that a query selects; raise ValueError if it is not valid PromQL."""
    found: set[str] = set()

    def visit(node: promql.Expr) -> bool:
        if isinstance(node, promql.VectorSelector):
            found.add(node.name or "")
        return True

    promql.walk(promql.parse(query), visit)
    return found


@EACH
def test_a_dashboard_names_only_metrics_and_labels_that_are_there(board: Board) -> None:
    check_board(board, load_config(), load_series())


@EACH
def test_each_panel_has_an_id_of_its_own_a_title_and_a_description(board: Board) -> None:
    panels = json.loads((MONITORING / "dashboards" / f"{board.uid}.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    shown = [panel for panel in panels if panel["type"] != "row"]
    assert [panel["title"] for panel in shown if not panel["description"].endswith(".")] == []
    assert len({panel["title"] for panel in shown}) == len(shown)


@EACH
def test_panels_do_not_lie_upon_each_other(board: Board) -> None:
    panels = json.loads(render_board(board, load_config()))["panels"]
    places = [panel["gridPos"] for panel in panels]
    taken = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


@EACH
def test_numbers_are_in_the_config_except_for_the_number_of_series(board: Board) -> None:
    queries = [query.expr for _, panel in list_panels(board) for query in panel.queries]
    bare = [re.sub(r'<<[\w.]+>>|"[^"]*"|topk\(10,|\b\w*[A-Za-z_:]\w*\b', " ", query) for query in queries]
    assert [query for query, rest in zip(queries, bare, strict=True) if re.search(r"[2-9]|\d\d", rest)] == []


def find_used() -> set[str]:
    """Names that a dashboard or a rule selects."""
    config = load_config()
    shown = [
        config.fill(query.expr)
        for board in BOARDS
        for _, panel in list_panels(board)
        for query in panel.queries
    ]
    recorded = [record.expr for group in load() for record in group.records]
    return set().union(*map(find_metrics, (*shown, *recorded, *(alert.expr for alert in ALERTS))))


def test_what_is_exported_is_on_a_dashboard_or_in_a_rule() -> None:
    used = find_used()
    assert [metric.name for metric in list_metrics() if not used & metric.series.keys()] == []


def test_what_rules_record_is_used() -> None:
    assert {record.name for group in load() for record in group.records} - find_used() == set()


@pytest.mark.parametrize(
    ("query", "variable", "named"),
    [
        (Query("lagg"), Variable("v", "lag", "topic"), "Row: Panel"),
        (Query("lag", "{{group}}"), Variable("v", "lag", "topic"), "legend has group"),
        (Query("lag"), Variable("v", "lag", "group"), "group"),
        (Query("lag"), Variable("v", "lag", "topic", 'group="a"'), "variable v"),
    ],
    ids=["metric", "legend", "variable", "matcher of a variable"],
)
def test_what_is_not_there_is_refused(query: Query, variable: Variable, named: str) -> None:
    board = Board("b", "B", "", (variable,), (Row("Row", (Panel("Panel", "", (query,)),)),))
    with pytest.raises(MonitoringError, match=named):
        check_board(board, load_config(), SERIES)
