"""A comparison as text for people: counts, then the columns, windows and rows that differ."""

from rich.console import Group, RenderableType
from rich.text import Text

from kappa_crds.comparison import ColumnDifference, ComparisonSummary, DifferenceKind, DifferenceSample
from kappa_operator.cli.figures import NONE
from kappa_operator.cli.output import start_table, to_cell

_MOST_COLUMNS = 20
_COLOURS = {
    DifferenceKind.CHANGED: "yellow",
    DifferenceKind.ONLY_OLD: "red",
    DifferenceKind.ONLY_NEW: "green",
    DifferenceKind.EXPECTED: "",
}
_COLUMNS = ("COLUMN", "ROWS", "OLD NULL", "NEW NULL", "SMALLEST", "MEAN", "LARGEST")
_SAMPLES = ("DIFFERENCE", "KEY", "COLUMNS", "OLD", "NEW", "OLD AT", "NEW AT")


def build_diff_view(found: ComparisonSummary) -> Group:
    """Return the whole view."""
    parts: list[RenderableType] = [_build_counts(found)]
    if found.columns:
        parts += ["", _build_columns(found.columns)]
    if found.windows:
        parts += ["", _build_windows(found)]
    if found.samples:
        parts += ["", _build_samples(found.samples)]
    return Group(*parts, "", _conclude(found))


def _build_counts(found: ComparisonSummary) -> RenderableType:
    table = start_table(("", "ROWS"), {"ROWS"})
    counts = {
        found.old_topic: found.old_rows,
        found.new_topic: found.new_rows,
        "equal": found.equal,
        "  of these within the tolerance": found.tolerated,
        "changed": found.changed,
        "only old": found.only_old,
        "only new": found.only_new,
        "expected": found.expected,
        "not examined": found.undecided,
    }
    always = {found.old_topic, found.new_topic, "equal", "changed", "only old", "only new"}
    for name, count in counts.items():
        if count or name in always:
            table.add_row(to_cell(name), f"{count:,}")
    return table


def _build_columns(columns: tuple[ColumnDifference, ...]) -> RenderableType:
    table = start_table(_COLUMNS, set(_COLUMNS[1:]))
    for column in columns[:_MOST_COLUMNS]:
        numbers = [column.smallest, column.mean, column.largest]
        counts = [f"{count:,}" for count in (column.rows, column.null_old, column.null_new)]
        table.add_row(
            to_cell(column.name), *counts, *(NONE if each is None else f"{each:+.6g}" for each in numbers)
        )
    return table


def _build_windows(found: ComparisonSummary) -> RenderableType:
    table = start_table(("WINDOW", "OLD ROWS", "NEW ROWS", "DIFFER"), {"OLD ROWS", "NEW ROWS", "DIFFER"})
    for window in found.windows:
        start = "no event time" if window.start is None else f"{window.start:%Y-%m-%d %H:%M:%S}"
        table.add_row(start, f"{window.old_rows:,}", f"{window.new_rows:,}", f"{window.differing:,}")
    return table


def _build_samples(samples: tuple[DifferenceSample, ...]) -> RenderableType:
    table = start_table(_SAMPLES)
    for each in samples:
        kind = Text(each.kind.value, style=_COLOURS[each.kind])
        cells = (each.key, ", ".join(each.columns), each.old, each.new, each.old_position, each.new_position)
        table.add_row(kind, *(to_cell(cell or NONE) for cell in cells))
    return table


def _conclude(found: ComparisonSummary) -> Text:
    took = f" ({found.seconds:.1f} s)"
    if found.is_equal:
        return Text(f"equal{', but for expected differences' if found.expected else ''}{took}", style="green")
    if found.differing == 0:
        return Text(
            f"not known: {found.undecided:,} rows that differ in bytes were not examined{took}",
            style="yellow",
        )
    return Text(f"different: {found.differing:,} rows{took}", style="red")
