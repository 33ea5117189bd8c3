"""Lag as text for people: one line for each group and topic, or for each partition, the worst first."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from fnmatch import fnmatchcase

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kappa_crds.lagstate import LagState, Severity
from kappa_operator.cli.figures import NONE, UNKNOWN, render_age, render_count, render_seconds
from kappa_operator.cli.output import start_table, to_cell
from kappa_operator.report.build import rank_partition
from kappa_operator.report.model import ClusterReport, LagReport, PartitionReport, Report, Source

_OLD = 3.0
"""Intervals after which a sample is old."""
_SLACK = 5.0
COLOURS = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.NONE: ""}
_NARROW = ("GROUP", "TOPIC", "LAG", "BEHIND", "LOSS IN", "STATE", "WORST")
_WIDE = ("PARTITIONS", "LOST", "SEVERITY", "WHY UNKNOWN")
_SINGLE = ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "LOSS IN", "STATE")
_SINGLE_WIDE = ("START", "LOST", "SEVERITY", "WHY UNKNOWN")
_RIGHT = frozenset({"LAG", "BEHIND", "LOSS IN", "WORST", "PARTITION", "COMMITTED", "END", "PARTITIONS", "LOST", "START"})  # fmt: skip


Row = tuple[ClusterReport, LagReport]


def narrow(report: Report, groups: Iterable[str] = (), topics: Iterable[str] = ()) -> Report:
    """Return the report with only the groups and topics that match a glob; all where there is none."""
    groups, topics = tuple(groups), tuple(topics)

    def keeps(lag: LagReport) -> bool:
        return _matches(lag.group, groups) and _matches(lag.topic or "", topics)

    clusters = tuple(cluster.replace(lags=tuple(filter(keeps, cluster.lags))) for cluster in report.clusters)
    return report.replace(clusters=clusters)


def _matches(name: str, globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for glob in globs)


def _sort(row: Row) -> tuple[float | str, ...]:
    """Return the key by which the worst row comes first."""
    lag = row[1]
    state = LagState.UNKNOWN if lag.state is None and lag.lag is None else lag.state
    rank = lag.severity.rank, -1 if state is None else state.rank, lag.lost, lag.behind or 0.0, lag.lag or 0
    return *(-each for each in rank), lag.group, lag.topic or ""


def build_lag_view(report: Report, now: datetime, *, wide: bool = False, partitions: bool = False) -> Group:
    """Return the table, and lines on its source and age."""
    rows = sorted(((cluster, lag) for cluster in report.clusters for lag in cluster.lags), key=_sort)
    mixed = len(report.clusters) > 1
    table = _build_partitions(rows, wide) if partitions else _build_groups(rows, wide, mixed)
    lines = explain_report(report, now)
    return Group(*([table] if rows else ["no consumer groups found"]), *map(Text, lines))


def _build_groups(rows: Iterable[Row], wide: bool, mixed: bool) -> Table:
    table = start_table((*(("CLUSTER",) if mixed else ()), *_NARROW, *(_WIDE if wide else ())), _RIGHT)
    for cluster, lag in rows:
        cells = [
            lag.group, lag.topic or UNKNOWN, render_lag(lag), render_behind(lag), render_loss(lag.loss, lag),
            render_state(lag.state, lag.severity), NONE if lag.worst is None else str(lag.worst),
        ]  # fmt: skip
        more = [str(lag.partitions), str(lag.lost), lag.severity.value, lag.why or NONE] if wide else []
        place = [f"{cluster.namespace}/{cluster.name}"] if mixed else []
        table.add_row(*map(to_cell, (*place, *cells, *more)))
    return table


def _build_partitions(rows: Iterable[Row], wide: bool) -> Table:
    table = start_table((*_SINGLE, *(_SINGLE_WIDE if wide else ())), _RIGHT)
    for _, lag in rows:
        for pair in sorted(lag.by_partition, key=rank_partition, reverse=True):
            cells = [
                lag.group, lag.topic or UNKNOWN, str(pair.partition), _render_offset(pair.committed),
                _render_offset(pair.end), render_count(pair.lag), render_seconds(pair.behind),
                render_loss(pair.loss, pair), render_state(pair.state, pair.severity),
            ]  # fmt: skip
            more = [
                _render_offset(pair.start), _render_offset(pair.lost), pair.severity.value, pair.why or NONE,
            ]  # fmt: skip
            table.add_row(*map(to_cell, (*cells, *(more if wide else []))))
    return table


def _render_offset(offset: int | None) -> str:
    return UNKNOWN if offset is None else str(offset)


def render_lag(lag: LagReport) -> str:
    """Return a lag in records: `≥` where some partitions are unknown, `≤` where it may count transaction markers."""
    if lag.lag is None:
        return UNKNOWN
    sign = "≥" if lag.unknown else "≤" if lag.bound and lag.lag else ""
    return f"{sign}{render_count(lag.lag)}"


def find_behind(lags: Iterable[LagReport]) -> float | None:
    """Return the largest lag in time."""
    return max((lag.behind for lag in lags if lag.behind is not None), default=None)


def render_behind(*lags: LagReport) -> str:
    """Return the largest lag in time; `≥` where that of some partitions is unknown."""
    behind, partly = find_behind(lags), any(lag.undated or lag.unknown for lag in lags)
    if behind is None or (behind == 0 and partly):
        return UNKNOWN
    return f"{'≥' if partly else ''}{render_seconds(behind)}"


def render_loss(loss: float | None, of: LagReport | PartitionReport) -> str:
    """Return the time until records may be lost; `-` where none is known to be removed."""
    if loss is None:
        return UNKNOWN if of.lag is None or of.behind is None else NONE
    return "now" if loss == 0 else render_seconds(loss)


def render_state(state: LagState | None, severity: Severity) -> Text:
    """Return a state in the colour of its severity; `-` where no policy selects the group."""
    return Text(NONE if state is None else state.value, style=COLOURS[severity])


def explain_report(report: Report, now: datetime) -> Iterator[str]:
    """Yield lines on the source of the report, its age, and what is missing."""
    if report.source is Source.STATUS:
        yield "source: the status of Pipelines and LagPolicies, without other groups, lag in time, or age"
        return
    if not report.clusters:
        yield "no KafkaCluster with lag sampling found"
    for cluster in report.clusters:
        yield f"{cluster.namespace}/{cluster.name}: {_explain_cluster(cluster, now)}"
    if any(lag.state is None for cluster in report.clusters for lag in cluster.lags):
        yield "STATE -: no LagPolicy selects the group"


def _explain_cluster(cluster: ClusterReport, now: datetime) -> str:
    if cluster.at is None:
        return "not sampled yet; check that the KafkaCluster is Ready"
    if cluster.failure is not None:
        return f"sampling fails: {cluster.failure}"
    age = f"sampled {render_age(cluster.at, now)} ago"
    return f"{age}: late, the interval is {render_seconds(cluster.every)}" if is_old(cluster, now) else age


def is_old(cluster: ClusterReport, now: datetime) -> bool:
    """Return whether the sample is so old that the sampler must be late or failing."""
    if cluster.at is None:
        return True
    return (now - cluster.at).total_seconds() > _OLD * cluster.every + _SLACK
