"""The proof that a log is whole on one screen, for any number of partitions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kappa_operator.cli.cdc_view import make_printable
from kappa_operator.cli.figures import render_count
from kappa_operator.cli.output import start_table, to_cell
from kappa_operator.log.proof import Gap, LogProof, SourceProof, Verdict, format_time

if TYPE_CHECKING:  # the help must not load it
    from rich.console import Group

_COLUMNS = ("SOURCE", "USED AS", "TOPICS", "PARTITIONS", "RECORDS", "VERDICT")
_GAPS = ("TOPIC", "PARTITION", "GONE", "OFFSETS", "RECORDS BEFORE")
_SHOWN = 20
"""Partitions with a gap that are listed; all of them in wide output and JSON."""
_FIXES = {
    Verdict.MISSING: (
        "What to do: a reprocessing of this log computes results without the missing records. Start it from a time that"
        " is whole (--from), restore the records from an archive, or accept the loss explicitly."
    ),
    Verdict.UNKNOWN: (
        "What to do: remove the cause above, or accept explicitly that the log is not proven. Compare the result with"
        " that of the running pipeline before the cutover."
    ),
}


def build_check_view(proof: LogProof, *, wide: bool = False) -> "Group":
    """Return the sources, the largest gaps, and what to do."""
    from rich.console import Group  # noqa: PLC0415 - see above

    table = start_table(_COLUMNS, right=("PARTITIONS", "RECORDS"))
    for source in proof.sources:
        table.add_row(*map(to_cell, _build_row(source)))
    parts: list[object] = [table]
    if proof.gaps:
        gaps = start_table(_GAPS, right=("PARTITION", "OFFSETS"))
        shown = sorted(proof.gaps, key=lambda gap: -gap.offsets)
        for gap in shown if wide else shown[:_SHOWN]:
            gaps.add_row(*map(to_cell, _build_gap(gap)))
        parts += [to_cell(""), gaps]
        if not wide and len(shown) > _SHOWN:
            parts.append(to_cell(f"and {len(shown) - _SHOWN} more partitions; -o wide lists all"))
    lines = list(_list_lines(proof))
    return Group(*parts, *([to_cell("")] if lines else []), *map(to_cell, lines))  # type: ignore[arg-type]


def _build_row(source: SourceProof) -> tuple[str, ...]:
    topics = ", ".join(source.topics[:3]) + (
        f" and {len(source.topics) - 3} more" if len(source.topics) > 3 else ""
    )
    return (
        source.source, source.use, make_printable(topics), str(source.partitions), render_count(source.records),
        source.verdict.value,
    )  # fmt: skip


def _build_gap(gap: Gap) -> tuple[str, ...]:
    before = "-" if gap.before is None else format_time(gap.before)
    up_to = "up to " if gap.at_most else ""
    return (
        make_printable(gap.topic), str(gap.partition), f"{gap.first:,} to {gap.last:,}", f"{up_to}{gap.offsets:,}", before
    )  # fmt: skip


def _list_lines(proof: LogProof) -> Iterator[str]:
    """Yield why sources are not whole, what to know besides, and what to do."""
    for source in proof.sources:
        for reason in source.reasons:
            yield f"{source.source}: {make_printable(reason)}"
        for note in source.notes:
            yield f"{source.source}: note: {make_printable(note)}"
    if proof.verdict in _FIXES:
        yield _FIXES[proof.verdict]
