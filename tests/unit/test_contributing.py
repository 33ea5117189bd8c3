"""The changes of docs/contributing.md touch the files that it lists, and no others."""

import re
from pathlib import Path

import pytest

from kappa_crds.kinds import KINDS
from kappa_operator.lag.exposition import METRICS as OF_LAG
from kappa_operator.telemetry.metrics import METRICS as COUNTED
from kappa_operator.telemetry.resource_metrics import METRICS as OF_RESOURCES
from lab.paths import REPOSITORY

OPERATOR = REPOSITORY / "operator" / "src" / "kappa_operator"
PAGE = (REPOSITORY / "docs" / "contributing.md").read_text()
MOST = {
    "Add a field to Topic": 4,
    "Add a reason": 2,
    "Add a metric": 3,
    "Change a back-off": 1,
    "Add a kind": 2,
}
ENGINE = sorted((OPERATOR / "engine").glob("*.py"))


def list_files(section: str) -> list[str]:
    """Return the files that a section numbers."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", text, re.MULTILINE)


def read_operator() -> dict[Path, str]:
    return {path: path.read_text() for path in sorted(OPERATOR.rglob("*.py"))}


@pytest.mark.parametrize("section", MOST)
def test_a_change_touches_few_files_and_they_exist(section: str) -> None:
    files = list_files(section)
    assert 1 <= len(files) <= MOST[section]
    assert [file for file in files if not (REPOSITORY / file).exists()] == []


def test_a_metric_is_named_in_one_file_of_the_operator() -> None:
    texts = read_operator()
    for metric in (*OF_RESOURCES, *COUNTED, *OF_LAG):
        places = [path for path, text in texts.items() if re.search(rf'"{metric.name}(_total)?"', text)]
        assert len(places) == 1, metric.name


def test_pauses_that_double_are_computed_in_one_file() -> None:
    doubling = re.compile(r"2(\.0)? ?\*\* ?[a-z(]")
    assert [path.name for path, text in read_operator().items() if doubling.search(text)] == ["backoff.py"]


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: path.name)
def test_the_engine_names_no_kind(path: Path) -> None:
    text = path.read_text()
    assert [kind.name for kind in KINDS if f'"{kind.name}"' in text] == []
