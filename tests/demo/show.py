"""What the demo prints besides progress: the comparison as a table, and everything about a failure on one screen."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from rich.console import Console
from rich.table import Table

from demo.compare import Difference, Letter, Result
from demo.expected import Key, Row
from demo.loader import Loaded
from demo.records import Fault, Log

_SAMPLES = 3  # rows an airport
_DIFFERENCES = 20
_LINES = {"conditions": 8, "Events": 10, "driver": 14}


def show_comparison(
    console: Console,
    *,
    log: Log,
    loaded: Loaded,
    expected: Mapping[Key, Row],
    result: Result,
    letters: Mapping[str, Letter],
    differences: Sequence[Difference],
) -> None:
    """Print totals, some rows of each airport, the dead letters by fault, and the first differences."""
    console.print(_build_totals(log, expected, result, letters, differences))
    console.print(_build_samples(expected, result.rows))
    console.print(_build_letters(loaded, letters))
    if differences:
        console.print(build_differences(differences))


def _build_totals(
    log: Log,
    expected: Mapping[Key, Row],
    result: Result,
    letters: Mapping[str, Letter],
    differences: Sequence[Difference],
) -> Table:
    table = Table(title="Comparison", title_justify="left")
    table.add_column("")
    for column in ("DuckDB", "pipeline"):
        table.add_column(column, justify="right")
    rows = {
        "keys (airport, hour)": (len(expected), len(result.rows)),
        "departures": (_departures(expected), _departures(result.rows)),
        "hours with cancelled flights only": (_empty(expected), _empty(result.rows)),
        "malformed records, dead letters": (log.malformed, len(letters)),
    }
    for name, (one, other) in rows.items():
        table.add_row(name, f"{one:,}", f"{other:,}", style=None if one == other else "red")
    table.add_section()
    table.add_row("records in the result topic", "", f"{result.records:,}")
    table.add_row("late records loaded", "", f"{log.late:,}")
    style = "bold red" if differences else "bold green"
    table.add_row("differences", "", f"{len(differences):,}", style=style)
    return table


def _departures(rows: Mapping[Key, Row]) -> int:
    return sum(row.departures for row in rows.values())


def _empty(rows: Mapping[Key, Row]) -> int:
    return sum(row.mean_delay is None for row in rows.values())


def _build_samples(expected: Mapping[Key, Row], found: Mapping[Key, Row]) -> Table:
    table = Table(title="Worst hours of each airport, by mean delay", title_justify="left")
    for column in ("airport", "hour (UTC)"):
        table.add_column(column)
    for column in ("departures", "mean delay", "the same by DuckDB", "max delay"):
        table.add_column(column, justify="right")
    for origin in sorted({key.origin for key in expected}):
        for key in pick_worst(origin, expected):
            row = found.get(key, Row(0, None, None))
            table.add_row(
                key.origin,
                f"{key.hour:%Y-%m-%d %H:%M}",
                str(row.departures),
                say_minutes(row.mean_delay),
                say_minutes(expected[key].mean_delay),
                say_minutes(row.max_delay),
            )
        table.add_section()
    return table


def pick_worst(origin: str, rows: Mapping[Key, Row], least: int = 10) -> list[Key]:
    """Return the hours with the largest mean delay among those with some departures."""
    keys = [k for k, row in rows.items() if k.origin == origin and row.departures >= least]
    return sorted(keys, key=lambda key: -(rows[key].mean_delay or 0.0))[:_SAMPLES]


def say_minutes(delay: float | None) -> str:
    """Format a delay."""
    return "–" if delay is None else f"{delay:.3f} min"


def _build_letters(loaded: Loaded, letters: Mapping[str, Letter]) -> Table:
    table = Table(title="Dead letters", title_justify="left")
    table.add_column("fault")
    table.add_column("loaded", justify="right")
    table.add_column("header kappa.error of one of them", overflow="ellipsis", no_wrap=True, max_width=70)
    counts = Counter(record.fault for record in loaded.malformed.values())
    places = {record.fault: place for place, record in loaded.malformed.items()}
    by_place = {tuple(map(int, name.rsplit("/", 2)[1:])): letter for name, letter in letters.items()}
    for fault in Fault:
        letter = by_place.get(places[fault]) if fault in places else None
        table.add_row(fault.value, str(counts[fault]), letter.error if letter else "–")
    return table


def build_differences(differences: Sequence[Difference]) -> Table:
    """Return a table of the first differences."""
    table = Table(title=f"First of {len(differences):,} differences", title_justify="left", style="red")
    for column in ("where", "what", "expected", "found"):
        table.add_column(column, overflow="fold")
    for difference in islice(differences, _DIFFERENCES):
        table.add_row(difference.where, difference.what, repr(difference.expected), repr(difference.found))
    return table


def show_failure(console: Console, why: str, parts: Mapping[str, str]) -> None:
    """Print what is known of a failure, the last lines of each part, so that it fits on one screen."""
    console.rule(f"[bold red]{why}", align="left")
    for title, text in parts.items():
        lines = [line for line in text.splitlines() if line.strip()]
        console.print(f"[bold]{title}[/]")
        for line in lines[-_LINES.get(title, 10) :] or ["(none)"]:
            console.print(f"  {line}", markup=False, highlight=False, overflow="ellipsis", no_wrap=True)
