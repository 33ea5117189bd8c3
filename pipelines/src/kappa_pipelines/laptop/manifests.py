"""The documents in the files that a command is given."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kappa_crds import TEST_SUFFIX
from kappa_crds.manifests import TEST_KIND, read_file

if TYPE_CHECKING:
    from kappa_pipelines.laptop.cases import Case


def read_resources(files: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the manifests of files, `-` being the standard input; ManifestError names a file with other content.

    Modules of Python views are found beside the files.
    """
    for document in _read_files(files):
        if document["kind"] != TEST_KIND:
            yield document


def read_pipelines(files: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the manifests of pipelines; ManifestError as above."""
    return (each for each in read_resources(files) if each["kind"] == "Pipeline")


class FoundCases(NamedTuple):
    """The pipelines and test cases of a command. `skipped` are cases beside its files, of pipelines that these do not have."""

    pipelines: dict[str, dict[str, Any]]
    cases: list["Case"]
    skipped: list["Case"]


def read_tests(files: Sequence[str]) -> FoundCases:
    """Return the pipelines by name and the test cases in files; ManifestError as above.

    Files without test cases have those of the test files in their folders, and in `tests` there.
    """
    from kappa_pipelines.laptop.cases import parse_case  # noqa: PLC0415 - `kappa validate` starts without it

    documents = list(_read_files(files))
    pipelines = {each["metadata"]["name"]: each for each in documents if each["kind"] == "Pipeline"}
    cases = [parse_case(each) for each in documents if each["kind"] == TEST_KIND]
    if cases:
        return FoundCases(pipelines, cases, [])
    beside = [parse_case(each) for file in _find_test_files(files) for each in read_file(file)]
    skipped = [case for case in beside if case.spec.pipeline not in pipelines]
    return FoundCases(pipelines, [case for case in beside if case not in skipped], skipped)


def _find_test_files(files: Iterable[str]) -> Iterator[str]:
    for folder in dict.fromkeys(Path(file).parent for file in files if file != "-"):
        for place in (folder, folder / "tests"):
            yield from map(str, sorted(place.glob(f"*{TEST_SUFFIX}")))


def _read_files(files: Iterable[str]) -> Iterator[dict[str, Any]]:
    for file in files:
        folder = str(Path(file).resolve().parent)
        if file != "-" and folder not in sys.path:
            sys.path.insert(0, folder)
        yield from read_file(file)
