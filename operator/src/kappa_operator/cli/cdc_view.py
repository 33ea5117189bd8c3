"""What `kappa cdc check` prints for people: findings by severity, then the statements of all of them, ready to copy."""

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from kappa_operator.cdc.findings import Finding, Severity, is_ready

if TYPE_CHECKING:  # the help must not load it
    from rich.text import Text

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFORMATION: "dim"}
_TITLES = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.INFORMATION: "Information"}


def build_view(findings: tuple[Finding, ...]) -> "Text":
    """Return the screen."""
    from rich.text import Text  # noqa: PLC0415 - see above

    view = Text()
    for severity, group in groupby(findings, lambda each: each.severity):
        view.append(f"{_TITLES[severity]}\n", _STYLES[severity])
        for finding in group:
            view.append("".join(f"  {line}\n" for line in describe(finding)))
        view.append("\n")
    view.append("The database is ready." if is_ready(findings) else "The database is not ready.", "bold")
    return view


def describe(finding: Finding) -> Iterable[str]:
    """Yield the lines of a finding. Names of a database cannot steer the terminal."""
    yield make_printable(f"{finding.subject}: {finding.message} {finding.why}")
    for line in (*finding.statements, *finding.configuration):
        yield f"    {make_printable(line)}"
    if finding.advice:
        yield f"    -- {make_printable(finding.advice)}"


def make_printable(text: str) -> str:
    """Return text with escapes for the characters that are not printable."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
