"""Manifests as users write them: YAML with one or several documents."""

import difflib
import sys
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import yaml

from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS
from kappa_crds.names import suggest

TEST_KIND = "PipelineTest"
"""A document for `kappa test`, which is no resource of a cluster."""
_KINDS = (*(kind.name for kind in KINDS), TEST_KIND)
_TIME = "tag:yaml.org,2002:timestamp"


class ManifestError(ValueError):
    """A text that is no manifest."""


class _Loader(yaml.SafeLoader):
    """YAML as kubectl reads it: a time stays the text that it is, and a duplicate key is an error."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the base class has it
        sign: [(tag, pattern) for tag, pattern in resolvers if tag != _TIME]
        for sign, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        twice = next((key for index, key in enumerate(keys) if key in keys[:index]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"duplicate key {twice!r}", node.start_mark)
        return super().construct_mapping(node, deep)


def read_documents(text: str) -> Iterator[dict[str, Any]]:
    """Yield the documents of the platform's kinds, tests included; ManifestError names the problem of one."""
    try:
        documents = list(yaml.load_all(text, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ManifestError(f"not YAML{place}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"not YAML: {error}") from error
    for document in filter(None, documents):
        if _is_ours(document):
            yield document


def read_file(file: str) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file, `-` being the standard input; ManifestError names the file."""
    try:
        yield from read_documents(sys.stdin.read() if file == "-" else Path(file).read_text())
    except OSError as error:
        raise ManifestError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{file}: not UTF-8 text") from error
    except ManifestError as error:
        raise ManifestError(f"{file}: {error}") from error


def read_manifests(file: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the manifests of the platform's resources in a file, each with a namespace; ManifestError names the file."""
    for document in read_file(file):
        if document["kind"] != TEST_KIND:
            document["metadata"].setdefault("namespace", namespace)
            yield document


def _is_ours(document: Any) -> bool:
    """Return whether a document is of the platform; ManifestError where it is no manifest, or a misspelled one of the platform."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if (
        not isinstance(metadata, dict)
        or "name" not in metadata
        or not {"apiVersion", "kind"} <= set(document)
    ):
        raise ManifestError("a document has no apiVersion, no kind or no metadata.name")
    kind, version, name = document["kind"], str(document["apiVersion"]), metadata["name"]
    if version == API_VERSION and kind not in _KINDS:
        raise ManifestError(f"kind {kind!r} of {name!r} is unknown; {suggest(str(kind), _KINDS)}")
    if version != API_VERSION and kind in _KINDS and difflib.get_close_matches(version, [API_VERSION]):
        raise ManifestError(
            f"apiVersion {version!r} of {kind} {name!r} is unknown; did you mean {API_VERSION!r}?"
        )
    return version == API_VERSION
