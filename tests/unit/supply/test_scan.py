"""What a scan reports, and which exceptions count."""

from datetime import date
from pathlib import Path

import pytest

from lab.errors import LabError
from supply.scan import EXCEPTIONS, check_exceptions, read_findings, scan_all

TODAY = date(2026, 6, 1)


def test_the_exceptions_of_this_checkout_are_reviewed() -> None:
    assert list(check_exceptions(EXCEPTIONS.read_text(), date.today())) == []


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('ignoreUntil = 2026-09-01T00:00:00Z\nreason = "no network"', ""),
        ("ignoreUntil = 2026-09-01T00:00:00Z", "has no reason"),
        ('reason = "no network"', "has no end"),
        ('ignoreUntil = 2026-06-01T00:00:00Z\nreason = "no network"', "ended on 2026-06-01"),
        ('ignoreUntil = 2027-06-01T00:00:00Z\nreason = "no network"', "longer than 180 days"),
    ],
)
def test_an_exception_has_a_reason_and_an_end_that_is_near(entry: str, problem: str) -> None:
    found = list(check_exceptions(f'[[IgnoredVulns]]\nid = "GHSA-1"\n{entry}\n', TODAY))
    assert (found == []) if not problem else problem in "; ".join(found)


def test_a_finding_names_the_package_the_vulnerability_and_the_document() -> None:
    group = {"ids": ["CVE-2022-46337"], "max_severity": "9.8"}
    package = {"package": {"name": "derby", "version": "10.16.1.1"}, "groups": [group]}
    report = {"results": [{"source": {"path": "/x/pipelines.cdx.json"}, "packages": [package]}]}
    assert list(read_findings(report)) == [
        "pipelines.cdx.json: derby 10.16.1.1: CVE-2022-46337, severity 9.8"
    ]
    assert list(read_findings({"results": None})) == []


def test_nothing_is_found_clean_without_a_document(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="make images"):
        scan_all(tmp_path)
