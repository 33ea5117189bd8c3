"""Each alert has a section in a runbook, each section an alert; and what a section needs is in it."""

import re
from pathlib import Path

import pytest

from kappa_monitoring import REPOSITORY
from kappa_monitoring.config import load_config
from kappa_monitoring.rules import Alert
from unit.monitoring.rendered import ALERTS

RUNBOOKS = REPOSITORY / "docs" / "runbooks"
PARTS = ("**Meaning.**", "**Impact.**", "**Diagnose.**", "```sh", "**Resolve.**")


def find_sections(page: Path) -> dict[str, str]:
    """Return the text of each section by its anchor, as it is made from the heading."""
    found = re.split(r"^## (\w+)$", page.read_text(), flags=re.M)[1:]
    return {name.lower(): text for name, text in zip(found[::2], found[1::2], strict=True)}


SECTIONS = {
    f"{page.name}#{anchor}": text
    for page in sorted(RUNBOOKS.glob("*.md"))
    for anchor, text in find_sections(page).items()
}


def find_place(alert: Alert) -> str:
    return alert.runbook_url.removeprefix(f"{load_config().get('runbooks')}/")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_links_to_a_section_with_meaning_and_fix(alert: Alert) -> None:
    section = SECTIONS[find_place(alert)]
    assert [part for part in PARTS if part not in section] == []


def test_there_is_no_section_without_an_alert() -> None:
    assert SECTIONS.keys() - {find_place(alert) for alert in ALERTS} == set()


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: page.name)
def test_links_of_a_runbook_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
