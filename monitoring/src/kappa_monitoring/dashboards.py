"""The JSON of each dashboard, built with the library of Grafana. Equal input gives equal text."""

from collections.abc import Iterator
from itertools import count

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueTextMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    GridPos,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
    VariableSort,
)

from kappa_monitoring.boards.cdc import CDC
from kappa_monitoring.boards.cdcsources import SOURCES
from kappa_monitoring.boards.fleet import FLEET
from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable
from kappa_monitoring.boards.pipeline import PIPELINE
from kappa_monitoring.boards.reprocessing import REPROCESSING
from kappa_monitoring.boards.reprocessings import REPROCESSINGS
from kappa_monitoring.boards.savepoints import SAVEPOINTS
from kappa_monitoring.boards.topic import TOPIC
from kappa_monitoring.config import Config
from kappa_monitoring.contract import check_legend, check_query
from kappa_monitoring.errors import MonitoringError

BOARDS: tuple[Board, ...] = (FLEET, PIPELINE, TOPIC, CDC, SOURCES, SAVEPOINTS, REPROCESSING, REPROCESSINGS)
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH = 24
_SIZES = {"graph": (8, 12), "value": (6, 6)}
"""Height and width of panels, in units of Grafana's grid."""


def render_board(board: Board, config: Config) -> str:
    """Return the dashboard as JSON, with the values of the config."""
    builder = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["kappa"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for variable in board.variables:
        builder.with_variable(_build_variable(variable))
    number, y = count(1), 0
    for row in board.rows:
        builder.with_row(dashboard.Row(row.title).id(next(number)).grid_pos(GridPos(1, _WIDTH, 0, y)))
        places = place_panels(row, y + 1)
        for panel, place in zip(row.panels, places, strict=True):
            builder.with_panel(_build_panel(panel, config).id(next(number)).grid_pos(place))
        y = max(place.y + place.h for place in places)
    return JSONEncoder(sort_keys=True, indent=2).encode(builder.build()) + "\n"


def place_panels(row: Row, y: int) -> list[GridPos]:
    """Return the positions of the panels of a row, in lines from y on. A line is as high as its highest panel."""
    places: list[GridPos] = []
    x, height = 0, 0
    for panel in row.panels:
        h, w = _SIZES[panel.kind]
        if x + w > _WIDTH:
            x, y, height = 0, y + height, 0
        places.append(GridPos(h, w, x, y))
        x, height = x + w, max(height, h)
    return places


def _build_variable(variable: Variable) -> dashboard.QueryVariable:
    built = (
        dashboard.QueryVariable(variable.name)
        .label(variable.name.replace("_name", "").capitalize())
        .datasource(_SOURCE)
        .query(f"label_values({variable.query}, {variable.label})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return built.include_all(True).multi(True).all_value(".*") if variable.many else built


def _build_panel(panel: Panel, config: Config) -> timeseries.Panel | stat.Panel:
    built: timeseries.Panel | stat.Panel = _begin_graph() if panel.kind == "graph" else _begin_value()
    built.title(panel.title).description(config.fill(panel.description)).unit(panel.unit).datasource(_SOURCE)
    for number, query in enumerate(panel.queries):
        built.with_target(_build_query(query, "ABCDEF"[number], panel.kind == "value", config))
    if panel.limit:
        built.thresholds(_build_limit(float(config.get(panel.limit))))
        if isinstance(built, timeseries.Panel):
            dashed = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
            built.thresholds_style(dashed)
    return built


def _begin_graph() -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    return timeseries.Panel().fill_opacity(10).legend(legend.show_legend(True))


def _begin_value() -> stat.Panel:
    last = common.ReduceDataOptions().calcs(["lastNotNull"])
    return stat.Panel().reduce_options(last).text_mode(BigValueTextMode.VALUE_AND_NAME)


def _build_query(query: Query, ref: str, instant: bool, config: Config) -> prometheus.Dataquery:
    built = prometheus.Dataquery().expr(config.fill(query.expr)).legend_format(query.legend).ref_id(ref)
    return built.instant() if instant else built.range()


def _build_limit(value: float) -> dashboard.ThresholdsConfig:
    steps = [Threshold(None, "green"), Threshold(value, "red")]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def list_panels(board: Board) -> Iterator[tuple[Row, Panel]]:
    """Yield the panels with their rows."""
    for row in board.rows:
        for panel in row.panels:
            yield row, panel


def check_board(board: Board, config: Config, series: dict[str, frozenset[str]]) -> None:
    """Raise if a dashboard uses an unknown metric or label."""
    for variable in board.variables:
        labels = check_query(variable.query, series, f"dashboard {board.uid}, variable {variable.name}")
        if variable.label not in labels:
            raise MonitoringError(f"dashboard {board.uid}: {variable.metric} has no label {variable.label}")
    for row, panel in list_panels(board):
        where = f"dashboard {board.uid}, {row.title}: {panel.title}"
        for query in panel.queries:
            check_legend(query.legend, check_query(config.fill(query.expr), series, where), where)
