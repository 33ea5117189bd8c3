"""What `kappa cdc reconcile` prints for people: the result, the rows that differ, and how to repair them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kappa_operator.cdc.reconcile.model import Difference, Proof, Verdict
from kappa_operator.cdc.reconcile.repair import needs_tombstone
from kappa_operator.cli.cdc_view import make_printable

if TYPE_CHECKING:  # the help must not load it
    from rich.text import Text

_RESULTS = {
    Verdict.EQUAL: ("The table and the topic are equal", "bold green"),
    Verdict.DIFFERENT: ("The table and the topic differ", "bold red"),
    Verdict.UNDECIDED: ("No difference was found, but not all rows could be compared", "bold yellow"),
}
_TOMBSTONE = (
    "Rows that only the topic has are not repaired by a snapshot: write a record with their key and without a value (a tombstone) into"
    " the partition of the row, or insert the row in the database and delete it."
)


def build_reconcile_view(proof: Proof, statements: Iterable[str], *, is_written: bool) -> "Text":
    """Return the screen. Names and values of a database cannot steer the terminal."""
    from rich.text import Text  # noqa: PLC0415 - see above

    view = Text()
    for line in _list_differences(proof):
        view.append(f"{make_printable(line)}\n")
    _append_repair(view, proof, list(statements), is_written=is_written)
    for note in proof.notes:
        view.append(f"note: {make_printable(note)}\n", "dim")
    text, style = _RESULTS[proof.verdict]
    later = f"; {proof.later:,} rows changed meanwhile and were equal at later ones" if proof.later else ""
    view.append(
        f"{text}: {proof.rows:,} rows of {proof.table} and {proof.records:,} records of {proof.topic}, at position"
        f" {proof.position} of the log ({proof.at}){later}.",
        style,
    )
    return view


def _append_repair(view: "Text", proof: Proof, statements: list[str], *, is_written: bool) -> None:
    if statements:
        written = (
            "Written: the connector reads these rows again."
            if is_written
            else "Repair by incremental snapshots:"
        )
        view.append(f"{written}\n", "bold")
        view.append("".join(f"    {make_printable(each)}\n" for each in statements))
    if needs_tombstone(proof.differences):
        view.append(f"{_TOMBSTONE}\n")


def _list_differences(proof: Proof) -> Iterable[str]:
    for each in proof.differences:
        yield _describe(each)
        for name, (stored, derived) in each.values.items():
            yield f"    {name}: {_quote(stored)} in the database, {_quote(derived)} in the topic"
    listed = len(proof.differences)
    counted = sum(proof.counts.values())
    if counted > listed:
        yield f"{counted - listed:,} more differences"
    for key in proof.undecided:
        yield f"undecided ({', '.join(key)})"
    if counted:
        yield ", ".join(f"{count:,} {kind}" for kind, count in sorted(proof.counts.items()))


def _describe(difference: Difference) -> str:
    columns = f": {', '.join(difference.columns)}" if difference.columns else ""
    return f"{difference.kind.value} ({', '.join(difference.key)}){columns}"


def _quote(value: str | None) -> str:
    return "NULL" if value is None else repr(value)
