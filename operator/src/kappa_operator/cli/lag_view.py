"""Lag as text for people: one line for each group and topic, or for each partition, the worst first."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kappa_crds.lagstate import LagState, Severity
from kappa_operator.cli.amounts import NONE, UNKNOWN, say_age, say_count, say_seconds
from kappa_operator.report.build import rank_share
from kappa_operator.report.model import ClusterReport, LagReport, Report, ShareReport, Source

_OLD = 3.0
"""Intervals after which a sample is old."""
_SLACK = 5.0
_COLOURS = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.NONE: ""}
_NARROW = ("GROUP", "TOPIC", "LAG", "BEHIND", "LOSS IN", "STATE", "WORST")
_WIDE = ("PARTITIONS", "LOST", "SEVERITY", "WHY UNKNOWN")
_SINGLE = ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "LOSS IN", "STATE")
_SINGLE_WIDE = ("START", "LOST", "SEVERITY", "WHY UNKNOWN")
_RIGHT = frozenset({"LAG", "BEHIND", "LOSS IN", "WORST", "PARTITION", "COMMITTED", "END", "PARTITIONS", "LOST", "START"})  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A row and the cluster that it is of."""

    cluster: ClusterReport
    lag: LagReport

    @property
    def rank(self) -> tuple[int, int, int, float, int]:
        """Return how bad it is."""
        lag = self.lag
        state = LagState.UNKNOWN.rank if lag.state is None and lag.lag is None else -1
        state = state if lag.state is None else lag.state.rank
        return lag.severity.rank, state, lag.lost, lag.behind or 0.0, lag.lag or 0


def narrow(report: Report, groups: Iterable[str] = (), topics: Iterable[str] = ()) -> Report:
    """Return the report with only those groups and topics that a glob matches, or all where there is none."""
    groups, topics = tuple(groups), tuple(topics)

    def keeps(lag: LagReport) -> bool:
        return _matches(lag.group, groups) and _matches(lag.topic or "", topics)

    clusters = tuple(cluster.replace(lags=tuple(filter(keeps, cluster.lags))) for cluster in report.clusters)
    return report.replace(clusters=clusters)


def _matches(name: str, globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for glob in globs)


def sort_rows(report: Report) -> list[Row]:
    """Return all rows, the worst first."""
    rows = [Row(cluster, lag) for cluster in report.clusters for lag in cluster.lags]
    return sorted(rows, key=lambda row: (*(-each for each in row.rank), row.lag.group, row.lag.topic or ""))


def build_lag_view(
    report: Report, now: datetime, *, wide: bool = False, partitions: bool = False, limit: int | None = None
) -> Group:
    """Return the table and what is to be said of how far it can be trusted."""
    rows = sort_rows(report)
    shown = rows if limit is None else rows[:limit]
    table = _build_partitions(shown, wide) if partitions else _build_groups(shown, wide, _is_mixed(report))
    left = [f"… and {len(rows) - len(shown)} more"] if len(shown) < len(rows) else []
    lines = [*left, *explain_report(report, now)]
    return Group(*([table] if rows else ["no consumer group was seen"]), *map(Text, lines))


def _is_mixed(report: Report) -> bool:
    return len(report.clusters) > 1


def _start(columns: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        justify = "right" if column in _RIGHT else "left"
        table.add_column(column, overflow="fold", justify=justify)  # type: ignore[arg-type]
    return table


def _build_groups(rows: Iterable[Row], wide: bool, mixed: bool) -> Table:
    table = _start((*(("CLUSTER",) if mixed else ()), *_NARROW, *(_WIDE if wide else ())))
    for row in rows:
        lag = row.lag
        cells = [
            lag.group, lag.topic or UNKNOWN, say_lag(lag), say_behind(lag), say_loss(lag.loss, lag),
            say_state(lag.state, lag.severity), NONE if lag.worst is None else str(lag.worst),
        ]  # fmt: skip
        more = [str(lag.partitions), str(lag.lost), lag.severity.value, lag.why or NONE] if wide else []
        place = [f"{row.cluster.namespace}/{row.cluster.name}"] if mixed else []
        table.add_row(*map(_cell, (*place, *cells, *more)))
    return table


def _build_partitions(rows: Iterable[Row], wide: bool) -> Table:
    table = _start((*_SINGLE, *(_SINGLE_WIDE if wide else ())))
    for row in rows:
        for share in sorted(row.lag.shares, key=rank_share, reverse=True):
            cells = [
                row.lag.group, row.lag.topic or UNKNOWN, str(share.partition), _say_offset(share.committed),
                _say_offset(share.end), say_count(share.lag), say_seconds(share.behind),
                say_loss(share.loss, share), say_state(share.state, share.severity),
            ]  # fmt: skip
            more = [
                _say_offset(share.start),
                _say_offset(share.lost),
                share.severity.value,
                share.why or NONE,
            ]
            table.add_row(*map(_cell, (*cells, *(more if wide else []))))
    return table


def _cell(value: object) -> Text:
    return value if isinstance(value, Text) else Text(str(value))


def _say_offset(offset: int | None) -> str:
    return UNKNOWN if offset is None else str(offset)


def say_lag(lag: LagReport) -> str:
    """Say a lag in records; `≥` where some partitions are not known, `≤` where markers may be among them."""
    if lag.lag is None:
        return UNKNOWN
    sign = "≥" if lag.unknown else "≤" if lag.bound and lag.lag else ""
    return f"{sign}{say_count(lag.lag)}"


def say_behind(lag: LagReport) -> str:
    """Say a lag in time; `≥` where that of some partitions is not known."""
    if lag.behind is None or (lag.behind == 0 and lag.undated + lag.unknown):
        return UNKNOWN
    return f"{'≥' if lag.undated + lag.unknown else ''}{say_seconds(lag.behind)}"


def say_loss(loss: float | None, of: LagReport | ShareReport) -> str:
    """Say in what time records may be lost; `-` where nothing is known to remove them."""
    if loss is None:
        return UNKNOWN if of.lag is None or of.behind is None else NONE
    return "now" if loss == 0 else say_seconds(loss)


def say_state(state: LagState | None, severity: Severity) -> Text:
    """Say a state, in the colour of how much it matters; `-` where no policy says any."""
    return Text(NONE if state is None else state.value, style=_COLOURS[severity])


def explain_report(report: Report, now: datetime) -> Iterator[str]:
    """Yield what has to be known about where it comes from, how old it is, and what is missing."""
    if report.source is Source.STATUS:
        yield "from the status of Pipelines and LagPolicies: no other groups, no time, and how old it is is not known"
        return
    if not report.clusters:
        yield "there is no KafkaCluster whose lag is sampled"
    for cluster in report.clusters:
        yield f"{cluster.namespace}/{cluster.name}: {_explain_cluster(cluster, now)}"
    if any(lag.state is None for cluster in report.clusters for lag in cluster.lags):
        yield "STATE - : no LagPolicy selects the group"


def _explain_cluster(cluster: ClusterReport, now: datetime) -> str:
    if cluster.at is None:
        return "not sampled yet; is the KafkaCluster Ready?"
    if cluster.failure is not None:
        return f"nothing can be seen: {cluster.failure}"
    said = f"sampled {say_age(cluster.at, now)} ago"
    return (
        f"{said}, which is old: it is done every {say_seconds(cluster.every)}"
        if is_old(cluster, now)
        else said
    )


def is_old(cluster: ClusterReport, now: datetime) -> bool:
    """Return whether a sample is so old that the sampler must be behind, or cannot see."""
    if cluster.at is None:
        return True
    return (now - cluster.at).total_seconds() > _OLD * cluster.every + _SLACK
