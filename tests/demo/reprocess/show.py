"""What the demo prints besides progress."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from demo.errors import DemoError
from kappa_crds.reprocessing import ReprocessingStatus


def show_comparison(console: Console, status: ReprocessingStatus) -> None:
    """Print what the comparison of both versions found; DemoError where it found no difference: the bug would not show."""
    compared = status.comparison
    if compared is None or not compared.unexpected:
        raise DemoError(f"the comparison found no difference: {compared and compared.message}")
    table = Table(title="Both versions at the same input", title_justify="left")
    for column in ("sink", "equal", "changed", "only old", "only new", "first difference"):
        table.add_column(
            column, justify="left" if column in ("sink", "first difference") else "right", overflow="fold"
        )
    for sink in compared.sinks:
        found = sink.summary
        if found is None:
            raise DemoError(f"sink {sink.sink} was not compared: {sink.message}")
        sample = next(iter(found.samples), None)
        text = "" if sample is None else f"{sample.kind}: {sample.old or '–'} → {sample.new or '–'}"
        counts = (found.equal, found.changed, found.only_old, found.only_new)
        table.add_row(sink.sink, *(f"{count:,}" for count in counts), text)
    console.print(table)


def show_counts(console: Console, title: str, counts: Mapping[str, int]) -> int:
    """Print counts that should all be 0; return their sum."""
    total = sum(counts.values())
    text = " · ".join(f"{name} {count:,}" for name, count in counts.items())
    console.print(f"[bold]{title}[/]: [{'bold red' if total else 'green'}]{text}[/]")
    return total
