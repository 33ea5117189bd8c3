"""What the demo of the shop prints at its end."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from rich.console import Console
from rich.table import Table

from demo.shop.application import Application
from demo.shop.views import Comparison
from demo.show import build_differences


def show_work(console: Console, application: Application) -> None:
    """Print how often each kind of transaction was committed."""
    kinds = ", ".join(f"{name} {count:,}" for name, count in application.done.most_common())
    console.print(f"{application.done.total():,} transactions: {kinds}")


def show_comparisons(console: Console, comparisons: Sequence[Comparison]) -> None:
    """Print rows, records and differences of each view, some rows, and the first differences."""
    table = Table(title="Views and database", title_justify="left")
    table.add_column("view")
    for column in ("rows by query", "rows in topic", "cells", "records", "differences"):
        table.add_column(column, justify="right")
    for each in comparisons:
        cells, count = len(each.expected) * len(each.view.columns), len(each.differences)
        figures = (len(each.expected), len(each.found), cells, each.records, count)
        style = "bold red" if count else "bold green"
        table.add_row(each.view.topic, *(f"{figure:,}" for figure in figures), style=style)
    console.print(table)
    for each in comparisons:
        console.print(_build_rows(each))
    differences = [difference for each in comparisons for difference in each.differences]
    if differences:
        console.print(build_differences(differences))


def _build_rows(comparison: Comparison, count: int = 3) -> Table:
    table = Table(title=f"Last rows of {comparison.view.topic}", title_justify="left")
    for column in comparison.view.columns:
        table.add_column(column, overflow="ellipsis", no_wrap=True, max_width=16)
    for key in islice(sorted(comparison.found, reverse=True), count):
        table.add_row(*_format(comparison.found[key]))
    return table


def _format(row: Iterable[object]) -> list[str]:
    return ["–" if value is None else str(value) for value in row]


def show_proofs(console: Console, proofs: Mapping[str, str]) -> None:
    """Print what `kappa cdc reconcile` found."""
    for text in proofs.values():
        console.print(text, markup=False)
