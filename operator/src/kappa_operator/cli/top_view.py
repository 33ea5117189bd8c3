"""`kappa top` as text: pipelines above, topics below, as many lines of each as fit on the screen."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kappa_crds.lagstate import LagState, Severity
from kappa_operator.cli.figures import NONE, UNKNOWN, render_age, render_count, render_rate, render_seconds
from kappa_operator.cli.lag_view import (
    COLOURS,
    explain_report,
    find_behind,
    render_behind,
    render_lag,
    render_state,
)
from kappa_operator.cli.output import start_table, to_cell
from kappa_operator.report.model import ClusterReport, LagReport, PipelineReport, Report, TopicReport

_PIPELINE = ("PIPELINE", "STATE", "EXEC", "IN", "DONE", "LAG", "BEHIND", "LAG STATE", "BATCH", "WATERMARK", "STATE ROWS", "REPORTED")  # fmt: skip
_TOPIC = ("TOPIC", "PARTITIONS", "RECORDS", "IN", "GROUPS", "LAG", "BEHIND", "FURTHEST BEHIND")
_LEFT = frozenset({"PIPELINE", "STATE", "LAG STATE", "TOPIC", "FURTHEST BEHIND"})
_NARROW = (
    (110, {"STATE ROWS", "WATERMARK", "REPORTED"}),
    (80, {"EXEC", "BATCH", "LAG STATE", "PARTITIONS", "RECORDS"}),
)
"""Width of the terminal below which these columns are left out."""
_KEYS = "q quit · s sort · r reverse"


class SortBy(StrEnum):
    """The order of lines."""

    LAG = "lag"
    BEHIND = "behind"
    RATE = "rate"
    NAME = "name"

    @property
    def next(self) -> "SortBy":
        """Return the next one; the first follows the last."""
        orders = list(SortBy)
        return orders[(orders.index(self) + 1) % len(orders)]


@dataclass(frozen=True)
class ViewOptions:
    """How to show it; `height` in lines and `width` in columns, None for no limit."""

    by: SortBy = SortBy.LAG
    reverse: bool = False
    height: int | None = None
    width: int | None = None

    def press(self, key: str) -> "ViewOptions":
        """Return the options after a key."""
        match key:
            case "s":
                return replace(self, by=self.by.next, reverse=False)
            case "r":
                return replace(self, reverse=not self.reverse)
            case _:
                return self


@dataclass(frozen=True)
class PipelineLine:
    """A pipeline and the lag of its group."""

    pipeline: PipelineReport
    lags: tuple[LagReport, ...]


@dataclass(frozen=True)
class TopicLine:
    """A topic, and the lag of the groups that consume it."""

    cluster: ClusterReport
    topic: TopicReport
    lags: tuple[LagReport, ...]

    @property
    def furthest(self) -> LagReport | None:
        """Return the lag of the group that is furthest behind."""
        return max(self.lags, key=lambda lag: (lag.behind or 0.0, lag.lag or 0), default=None)


def build_top(report: Report, now: datetime, options: ViewOptions, warning: str | None = None) -> Group:
    """Return the whole screen."""
    pipelines, topics = sort_pipelines(report, options), sort_topics(report, options)
    notes = [warning] if warning else list(explain_report(report, now))
    head = Text(
        f"{report.at:%H:%M:%S} · sorted by {options.by}{' (reversed)' if options.reverse else ''}", "bold"
    )
    if options.height is not None:
        head.append(f" · {_KEYS}", "dim")
    room = None if options.height is None else max(2, options.height - len(notes) - 5)
    first, second = share_room(len(pipelines), len(topics), room)
    return Group(
        head,
        *(Text(note, "yellow" if warning else "dim", no_wrap=True, overflow="ellipsis") for note in notes),
        "",
        _build(options, _PIPELINE, (_show_pipeline(line, now) for line in pipelines[:first])),
        *_count_left(len(pipelines) - first),
        "",
        _build(options, _TOPIC, (_show_topic(line) for line in topics[:second])),
        *_count_left(len(topics) - second),
    )


def share_room(first: int, second: int, room: int | None) -> tuple[int, int]:
    """Return how many lines of two lists fit: half for each, and what the other one does not need."""
    if room is None or first + second <= room:
        return first, second
    room -= 2  # for what is left out
    half = room // 2
    if first <= half:
        return first, max(1, room - first)
    if second <= half:
        return max(1, room - second), second
    return max(1, half), max(1, room - half)


def _count_left(left: int) -> list[Text]:
    return [Text(f"… and {left} more", "dim")] if left > 0 else []


def sort_pipelines(report: Report, options: ViewOptions) -> list[PipelineLine]:
    """Return the pipelines in the chosen order."""
    lags: dict[tuple[str, str], list[LagReport]] = {}
    for cluster in report.clusters:
        for lag in cluster.lags:
            if lag.pipeline is not None:
                lags.setdefault((_find_namespace(lag), lag.pipeline), []).append(lag)
    lines = [
        PipelineLine(each, tuple(lags.get((each.namespace, each.name), ()))) for each in report.pipelines
    ]
    keys: dict[SortBy, Callable[[PipelineLine], float | None]] = {
        SortBy.LAG: lambda line: line.pipeline.lag,
        SortBy.BEHIND: lambda line: find_behind(line.lags),
        SortBy.RATE: lambda line: line.pipeline.done,
    }
    return _sort(lines, options, keys, lambda line: (line.pipeline.namespace, line.pipeline.name))


def _find_namespace(lag: LagReport) -> str:
    """Return the namespace of a pipeline's group, kappa.NAMESPACE.NAME; a namespace has no dots."""
    return lag.group.split(".")[1]


def sort_topics(report: Report, options: ViewOptions) -> list[TopicLine]:
    """Return the topics in the chosen order."""
    lines = []
    for cluster in report.clusters:
        readers: dict[str, list[LagReport]] = {}
        for lag in cluster.lags:
            readers.setdefault(lag.topic or "", []).append(lag)
        lines += [TopicLine(cluster, topic, tuple(readers.get(topic.topic, ()))) for topic in cluster.topics]
    keys: dict[SortBy, Callable[[TopicLine], float | None]] = {
        SortBy.LAG: lambda line: max((lag.lag for lag in line.lags if lag.lag is not None), default=None),
        SortBy.BEHIND: lambda line: line.furthest.behind if line.furthest else None,
        SortBy.RATE: lambda line: line.topic.rate,
    }
    return _sort(lines, options, keys, lambda line: (line.cluster.name, line.topic.topic))


def _sort(
    lines: Sequence[Any], options: ViewOptions, keys: dict[SortBy, Callable[[Any], float | None]], name: Callable[[Any], Any]
) -> list[Any]:  # fmt: skip
    """Sort by name, or the largest first; unknown figures come last either way."""
    by_name = sorted(lines, key=name, reverse=options.reverse and options.by is SortBy.NAME)
    key = keys.get(options.by)
    if key is None:
        return by_name
    known = [line for line in by_name if key(line) is not None]
    known.sort(key=lambda line: key(line) or 0.0, reverse=not options.reverse)
    return known + [line for line in by_name if key(line) is None]


def _show_pipeline(line: PipelineLine, now: datetime) -> list[str | Text]:
    report = line.pipeline
    worst = max(line.lags, key=lambda lag: (lag.severity.rank, _rank(lag.state)), default=None)
    has_none = report.at is not None and report.watermark_delay is None
    delay = NONE if has_none else render_seconds(report.watermark_delay)
    return [
        f"{report.namespace}/{report.name}", report.state or UNKNOWN, render_count(report.executors), render_rate(report.came),
        render_rate(report.done), render_count(report.lag), render_behind(*line.lags),
        render_state(worst.state, worst.severity) if worst else Text(NONE), render_seconds(report.batch_seconds),
        delay, render_count(report.state_rows), f"{render_age(report.at, now)}{' ago' if report.at else ''}",
    ]  # fmt: skip


def _rank(state: LagState | None) -> int:
    return -1 if state is None else state.rank


def _show_topic(line: TopicLine) -> list[str | Text]:
    topic, furthest = line.topic, line.furthest
    severity = max((lag.severity for lag in line.lags), key=lambda each: each.rank, default=Severity.NONE)
    return [
        topic.topic, str(topic.partitions), render_count(topic.records), render_rate(topic.rate), str(len(line.lags)),
        render_lag(furthest) if furthest else NONE, render_behind(furthest) if furthest else NONE,
        Text(furthest.group, COLOURS[severity]) if furthest and furthest.lag else NONE,
    ]  # fmt: skip


def _build(options: ViewOptions, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    left_out = {name for width, names in _NARROW if options.width and options.width < width for name in names}
    shown = [column for column in columns if column not in left_out]
    table = start_table(shown, frozenset(shown) - _LEFT, fold=False)
    for row in rows:
        cells = zip(columns, row, strict=True)
        table.add_row(*(to_cell(cell) for column, cell in cells if column not in left_out))
    return table
