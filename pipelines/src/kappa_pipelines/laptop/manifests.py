"""The documents in the files that a command is given."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def read_tests(files: Iterable[str]) -> tuple[list[dict[str, Any]], list["Case"]]:
    """Return the manifests of pipelines and the test cases; ManifestError as above."""
    from kappa_pipelines.laptop.cases import parse_case  # noqa: PLC0415 - `kappa validate` starts without it

    documents = list(_read_files(files))
    pipelines = [each for each in documents if each["kind"] == "Pipeline"]
    return pipelines, [parse_case(each) for each in documents if each["kind"] == TEST_KIND]


def _read_files(files: Iterable[str]) -> Iterator[dict[str, Any]]:
    for file in files:
        folder = str(Path(file).resolve().parent)
        if file != "-" and folder not in sys.path:
            sys.path.insert(0, folder)
        yield from read_file(file)
