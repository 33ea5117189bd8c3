"""The documents that a command of the laptop is given."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from kappa_crds import API_VERSION
from kappa_crds.manifests import ManifestError, read_manifests
from kappa_pipelines.laptop.cases import KIND, Case, parse_case


def read_files(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file, `-` being the standard input.

    Modules of Python views are looked for beside the files.
    """
    for file in files:
        if file != "-" and str(Path(file).resolve().parent) not in sys.path:
            sys.path.insert(0, str(Path(file).resolve().parent))
        yield file, sys.stdin.read() if file == "-" else Path(file).read_text()


def read_pipelines(files: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the manifests of pipelines; raise ManifestError naming the file that has something else in it."""
    for file, text in read_files(files):
        yield from _find_pipelines(file, text)


def read_documents(files: Iterable[str]) -> tuple[list[dict[str, Any]], list[Case]]:
    """Return the manifests of pipelines and the test cases; ManifestError as above."""
    pipelines: list[dict[str, Any]] = []
    cases: list[Case] = []
    for file, text in read_files(files):
        pipelines += _find_pipelines(file, text)
        for document in filter(None, yaml.safe_load_all(text)):
            if (document.get("kind"), document.get("apiVersion")) == (KIND, API_VERSION):
                cases.append(parse_case(document))
    return pipelines, cases


def _find_pipelines(file: str, text: str) -> list[dict[str, Any]]:
    try:
        manifests = list(read_manifests(text, "default"))
    except ManifestError as error:
        raise ManifestError(f"{file}: {error}") from error
    return [manifest for manifest in manifests if manifest["kind"] == "Pipeline"]
