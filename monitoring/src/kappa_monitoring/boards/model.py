"""What a dashboard is made of. Queries may name values of the config in <<brackets>>, as rules do, and Grafana's variables."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Query:
    """A query and what its series are called; `{{label}}` is a label's value."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel: a graph over time, or the latest value of each query. `unit` is Grafana's name of it; `limit` names the config's value to mark."""

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
    """A choice at the top of a dashboard: the values of a label of a metric, among those that the matchers select; `many` allows several."""

    name: str
    metric: str
    label: str
    matchers: str = ""
    many: bool = False

    @property
    def query(self) -> str:
        """Return the query that selects what has the values."""
        return f"{self.metric}{{{self.matchers}}}"


@dataclass(frozen=True)
class Board:
    """A dashboard. Its uid is also the name of its file."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
