"""`kappa top`: what is on the screen, in which order, and how it fits."""

import pytest

from fakes.context import START
from fakes.reports import build_report
from kappa_crds.lagstate import LagState
from kappa_operator.cli.top_view import (
    SortBy,
    ViewOptions,
    build_top,
    share_room,
    sort_pipelines,
    sort_topics,
)
from kappa_operator.report.model import ClusterReport, PipelineReport, Report, TopicReport
from unit.control.screens import render

SCREEN = """\
00:00:00 · sorted by behind
shop/main: sampled 12s ago
STATE -: no LagPolicy selects the group

PIPELINE     STATE     EXEC     IN   DONE    LAG  BEHIND  LAG STATE  BATCH  WATERMARK  STATE ROWS  REPORTED
shop/delays  Running      2  900/s  700/s  84.2k   1m35s  Warning    12.5s      2m10s        120k    4s ago
shop/copy    Running      0   2k/s   2k/s      0       ?  -          400ms          -           0    2s ago
shop/fresh   Starting     ?      ?      ?      ?       ?  -              ?          ?           ?         ?

TOPIC    PARTITIONS  RECORDS     IN  GROUPS    LAG  BEHIND  FURTHEST BEHIND
orders            2       9k  1.5/s       5     7k      1h  audit
flights           4     1.2M  950/s       1  84.2k   1m35s  kappa.shop.delays
dim               1       40    0/s       1      0      0s  -
dark              3        ?      ?       0      -       -  -"""


def test_pipelines_and_topics_are_shown_with_what_is_known() -> None:
    assert render(build_top(build_report(START), START, ViewOptions(SortBy.BEHIND))) == SCREEN


@pytest.mark.parametrize(
    ("look", "pipelines", "topics"),
    [
        (ViewOptions(), ["delays", "copy", "fresh"], ["flights", "orders", "dim", "dark"]),
        (ViewOptions(reverse=True), ["copy", "delays", "fresh"], ["dim", "orders", "flights", "dark"]),
        (ViewOptions(SortBy.RATE), ["copy", "delays", "fresh"], ["flights", "orders", "dim", "dark"]),
        (ViewOptions(SortBy.NAME), ["copy", "delays", "fresh"], ["dark", "dim", "flights", "orders"]),
        (
            ViewOptions(SortBy.NAME, reverse=True),
            ["fresh", "delays", "copy"],
            ["orders", "flights", "dim", "dark"],
        ),
    ],
)
def test_what_is_not_known_comes_last_whatever_it_is_sorted_by(
    look: ViewOptions, pipelines: list[str], topics: list[str]
) -> None:
    report = build_report(START)
    assert [line.pipeline.name for line in sort_pipelines(report, look)] == pipelines
    assert [line.topic.topic for line in sort_topics(report, look)] == topics


def test_keys_change_the_order_and_others_change_nothing() -> None:
    look = ViewOptions()
    assert look.press("s").by is SortBy.BEHIND
    assert look.press("s").press("s").press("s").press("s") == look
    assert look.press("r").reverse
    assert look.press("r").press("s") == ViewOptions(SortBy.BEHIND)
    assert look.press("x") is look


@pytest.mark.parametrize("height", [8, 12, 24, 50])
def test_the_screen_is_never_fuller_than_it_is_high(height: int) -> None:
    pipelines = tuple(
        PipelineReport(namespace="shop", name=f"p{number}", state="Running") for number in range(60)
    )
    topics = tuple(TopicReport(topic=f"t{number}", partitions=1) for number in range(60))
    cluster = ClusterReport(namespace="shop", name="main", every=30.0, at=START, topics=topics)
    report = Report(at=START, clusters=(cluster,), pipelines=pipelines)
    lines = render(build_top(report, START, ViewOptions(height=height)), width=100).splitlines()
    assert len(lines) <= max(height, 10)
    assert max(map(len, lines)) <= 100
    assert "… and" in "\n".join(lines)


@pytest.mark.parametrize(
    ("first", "second", "room", "shared"),
    [
        (3, 4, None, (3, 4)),
        (3, 4, 7, (3, 4)),
        (50, 3, 22, (17, 3)),
        (3, 50, 22, (3, 17)),
        (50, 50, 22, (10, 10)),
    ],
)
def test_what_one_list_does_not_need_the_other_gets(
    first: int, second: int, room: int | None, shared: tuple[int, int]
) -> None:
    assert share_room(first, second, room) == shared


def test_without_an_answer_the_age_is_replaced_by_the_reason() -> None:
    text = render(
        build_top(build_report(START), START, ViewOptions(height=40), "the operator does not answer")
    )
    assert text.splitlines()[:3] == [
        "00:00:00 · sorted by lag · q quit · s sort · r reverse",
        "the operator does not answer",
        "",
    ]


def test_the_state_of_a_pipeline_is_the_worst_of_its_topics() -> None:
    report = build_report(START)
    lags = report.clusters[0].lags
    second = lags[0].replace(topic="dim", state=LagState.LOSING, behind=200.0)
    cluster = report.clusters[0].replace(lags=(*lags, second))
    text = render(build_top(report.replace(clusters=(cluster,)), START, ViewOptions()))
    (line,) = [line for line in text.splitlines() if line.startswith("shop/delays")]
    assert ("Losing" in line, "3m20s" in line) == (True, True)


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (150, "PIPELINE STATE EXEC IN DONE LAG BEHIND LAG STATE BATCH WATERMARK STATE ROWS REPORTED"),
        (100, "PIPELINE STATE EXEC IN DONE LAG BEHIND LAG STATE BATCH"),
        (70, "PIPELINE STATE IN DONE LAG BEHIND"),
    ],
)
def test_a_narrow_screen_has_fewer_columns_that_can_be_read(width: int, columns: str) -> None:
    lines = render(
        build_top(build_report(START), START, ViewOptions(height=40, width=width)), width=width
    ).splitlines()
    (head,) = [line for line in lines if line.startswith("PIPELINE")]
    assert " ".join(head.split()) == columns
    assert not any("…" in line for line in lines[3:])


def test_of_a_pipeline_that_is_known_in_part_the_lag_is_at_least_that() -> None:
    report = build_report(START)
    lags = tuple(lag.replace(undated=1) if lag.pipeline else lag for lag in report.clusters[0].lags)
    text = render(
        build_top(report.replace(clusters=(report.clusters[0].replace(lags=lags),)), START, ViewOptions())
    )
    (line,) = [line for line in text.splitlines() if line.startswith("shop/delays")]
    assert "≥1m35s" in line
