"""A finding: what is wrong with a database, why it matters, and the statements that fix it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """The connector would not start, would lose changes, or would make writes of the application fail."""
    WARNING = "warning"
    """It works, with a risk or a restriction."""
    INFORMATION = "information"


@dataclass(frozen=True)
class Finding:
    """One finding. `rule` is its stable name. `advice` has what statements cannot do.

    `statements` are for an administrator, complete and quoted. `configuration` are lines for the configuration file of the server.
    """

    severity: Severity
    rule: str
    subject: str
    message: str
    why: str
    statements: tuple[str, ...] = ()
    configuration: tuple[str, ...] = ()
    advice: str = ""

    def to_manifest(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "severity": self.severity.value,
            "rule": self.rule,
            "subject": self.subject,
            "message": self.message,
            "why": self.why,
            "statements": list(self.statements),
            "configuration": list(self.configuration),
            "advice": self.advice,
        }


def is_ready(findings: Iterable[Finding]) -> bool:
    """Return whether no finding is an error."""
    return all(each.severity is not Severity.ERROR for each in findings)


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, errors first; those of equal severity keep their order."""
    ranks = list(Severity)
    return tuple(sorted(findings, key=lambda each: ranks.index(each.severity)))
