"""The parts of a dashboard. Queries may use values of the config in <<brackets>>, as rules do, and variables of Grafana."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Query:
    """A query and the legend of its series; `{{label}}` is the value of a label."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel: a graph over time, or the latest value of each query. `unit` is a unit of Grafana; `limit` names the value of the config to mark."""

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Literal["graph", "value"] = "graph"
    limit: str = ""


@dataclass(frozen=True)
class Row:
    """A row of panels below a title."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Variable:
    """A variable at the top of a dashboard: the values of a label of the selected series; `many` allows several."""

    name: str
    metric: str
    label: str
    matchers: str = ""
    many: bool = False

    @property
    def query(self) -> str:
        """Return the query that selects the series with the values."""
        return f"{self.metric}{{{self.matchers}}}"


@dataclass(frozen=True)
class Board:
    """A dashboard. Its uid is also the name of its file."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
