"""Where `kappa test` finds test cases, and that no tool applies their files to a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.manifests import read_smallest
from kappa_crds import API_VERSION, TEST_SUFFIX
from kappa_crds.kinds import KINDS
from kappa_crds.manifests import TEST_KIND, read_manifests
from kappa_operator.cli.options import list_files
from kappa_pipelines.laptop.console import UNUSABLE
from kappa_pipelines.laptop.manifests import FoundCases, read_resources, read_tests
from lab.paths import REPOSITORY
from laptop.commands import kappa

EXAMPLES = REPOSITORY / "pipelines" / "examples"
APPLIED = (".yaml", ".yml", ".json")
"""Files that `kubectl apply -R`, Argo CD and Flux read in a folder."""
OTHERS = {"Namespace", "Secret", "ConfigMap"}


@pytest.mark.parametrize(
    "folder", sorted(each for each in EXAMPLES.iterdir() if each.is_dir()), ids=lambda folder: folder.name
)
def test_an_example_folder_that_is_applied_recursively_has_only_kinds_of_a_cluster(folder: Path) -> None:
    files = [file for file in folder.rglob("*") if file.suffix in APPLIED]
    kinds = {
        each["kind"] for file in files for each in yaml.load_all(file.read_text(), yaml.CSafeLoader) if each
    }
    assert kinds
    assert kinds <= {*(kind.name for kind in KINDS), *OTHERS}


def write(path: Path, *documents: dict[str, Any]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def build_case(name: str, pipeline: str) -> dict[str, Any]:
    spec = {"pipeline": pipeline, "input": [{"value": "x"}], "expect": {}}
    return {"apiVersion": API_VERSION, "kind": TEST_KIND, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two pipelines with one test file beside them and one in `tests`."""
    for name in ("one", "two"):
        write(tmp_path / f"{name}.yaml", {**read_smallest("Pipeline"), "metadata": {"name": name}})
    write(tmp_path / f"beside{TEST_SUFFIX}", build_case("beside", "one"))
    write(tmp_path / "tests" / f"below{TEST_SUFFIX}", build_case("below", "one"), build_case("other", "two"))
    return tmp_path


def name_cases(tests: FoundCases) -> tuple[list[str], list[str]]:
    return [case.name for case in tests.cases], [case.name for case in tests.skipped]


def test_test_files_beside_a_manifest_and_in_tests_are_found(folder: Path) -> None:
    assert name_cases(read_tests([str(folder / "one.yaml")])) == (["beside", "below"], ["other"])


def test_a_folder_has_its_pipelines_and_all_of_its_tests(folder: Path) -> None:
    files = list_files([folder], None, with_tests=True)
    assert name_cases(read_tests(files)) == (["beside", "below", "other"], [])
    assert list_files([folder / "tests"], None, with_tests=True) == [
        str(folder / "tests" / f"below{TEST_SUFFIX}")
    ]


@pytest.mark.parametrize("name", [f"tests/one{TEST_SUFFIX}", "tests/one.yaml", "one-tests.yml"])
def test_a_named_file_with_test_cases_selects_them(folder: Path, name: str) -> None:
    named = write(folder / name, build_case("named", "one"))
    assert name_cases(read_tests([str(folder / "one.yaml"), named])) == (["named"], [])


def test_cases_of_other_pipelines_are_reported_where_none_is_left(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    third = write(folder / "third.yaml", {**read_smallest("Pipeline"), "metadata": {"name": "third"}})
    assert kappa("test", [third]) == UNUSABLE
    assert "no PipelineTest found in or beside" in (error := capsys.readouterr().err)
    assert "3 skipped (no file has Pipeline one, two)" in error


def test_a_test_that_cannot_be_read_fails_no_other_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tests" / f"below{TEST_SUFFIX}").write_text("kind: [")
    assert [Path(file).name for file in list_files([folder], None)] == ["one.yaml", "two.yaml"]
    assert kappa("test", [str(folder)]) == UNUSABLE
    assert "not YAML" in capsys.readouterr().err


def test_other_commands_take_no_test_for_a_resource(folder: Path) -> None:
    named = write(folder / "tests.yaml", build_case("named", "one"))
    assert list(read_resources([named])) == []
    assert list(read_manifests(named, "shop")) == []
