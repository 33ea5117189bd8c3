"""Manifests as data: good ones, and small changes to them that make them bad.

A change is `set` (path → value) and `drop` (paths). A path is written as the API server writes it,
`spec.sinks[0].mode`. `{64 letters}` stands for a long word and `{17 sources}` for as many sources.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from generate.examples import EXAMPLES as REFERENCE
from kappa_crds import API_VERSION

Manifest = dict[str, Any]

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
GOOD = HERE / "good_manifests"
BAD = HERE / "bad_manifests"
EXAMPLES = REPOSITORY / "pipelines" / "examples"


@dataclass(frozen=True)
class Change:
    """What to change in a manifest."""

    set: dict[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()

    def apply(self, manifest: Manifest) -> Manifest:
        """Return a changed copy."""
        changed = copy.deepcopy(manifest)
        for path, value in self.set.items():
            _set(changed, path, _expand(value))
        for path in self.drop:
            _drop(changed, path)
        return changed


@dataclass(frozen=True)
class Case:
    """A manifest, or a change of one, and what the API server must say about it."""

    name: str
    kind: str
    after: Change
    before: Change | None = None
    expect: tuple[str, ...] = ()

    @property
    def first(self) -> Manifest:
        """Return the manifest before the change."""
        return (self.before or Change()).apply(read_smallest(self.kind))

    @property
    def second(self) -> Manifest:
        """Return the manifest in question."""
        return self.after.apply(self.first)


def read_smallest(kind: str) -> Manifest:
    """Return the smallest good manifest of a kind."""
    return read_documents(GOOD / f"{kind.lower()}-smallest.yaml")[0]


def read_documents(path: Path) -> list[Manifest]:
    """Return the documents of a file that are of our kinds."""
    documents = yaml.load_all(path.read_text(), yaml.CSafeLoader)
    return [document for document in documents if document and document.get("apiVersion") == API_VERSION]


def read_good() -> dict[str, Manifest]:
    """Return every manifest that must be accepted: ours, the examples' and the reference's."""
    paths = sorted(GOOD.glob("*.yaml")) + sorted(
        path
        for path in EXAMPLES.rglob("*.yaml")
        if path.parent.name != "tests"  # cases for `kappa test`
    )
    files = {
        f"{path.relative_to(REPOSITORY)} {document['kind']} {document['metadata']['name']}": document
        for path in paths
        for document in read_documents(path)
    }
    return files | {
        f"the reference's {kind}": yaml.load(text, yaml.CSafeLoader) for kind, text in REFERENCE.items()
    }


def read_bad() -> list[Case]:
    """Return the cases of manifests that must be refused when they are created."""
    return [case for path in sorted(BAD.glob("*.yaml")) for case in _read_cases(path)]


def read_transitions(path: Path) -> list[Case]:
    """Return the cases of changes to resources that are there already."""
    return [
        Case(
            name=raw["name"],
            kind=raw["kind"],
            before=_read_change(raw.get("before", {})),
            after=_read_change(raw["after"]),
            expect=tuple(raw.get("expect", ())),
        )
        for raw in yaml.load(path.read_text(), yaml.CSafeLoader)
    ]


def list_fields(manifest: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each field in a manifest, lists as `[]`."""
    if isinstance(manifest, dict):
        for name, value in manifest.items():
            yield f"{path}.{name}".lstrip(".")
            yield from list_fields(value, f"{path}.{name}")
    elif isinstance(manifest, list):
        for value in manifest:
            yield from list_fields(value, f"{path}[]")


def _read_cases(path: Path) -> Iterator[Case]:
    content = yaml.load(path.read_text(), yaml.CSafeLoader)
    if isinstance(content, list):  # transitions
        return
    for raw in content["cases"]:
        yield Case(raw["name"], content["kind"], _read_change(raw), expect=tuple(raw["expect"]))


def _read_change(raw: Manifest) -> Change:
    return Change(raw.get("set", {}), tuple(raw.get("drop", ())))


def _split(path: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", path)]


def _walk(manifest: Manifest, path: str) -> tuple[Any, Any]:
    *parents, last = _split(path)
    node: Any = manifest
    for part in parents:
        node = node[part] if isinstance(part, int) else node.setdefault(part, {})
    return node, last


def _set(manifest: Manifest, path: str, value: Any) -> None:
    node, last = _walk(manifest, path)
    if isinstance(last, int) and last == len(node):
        node.append(value)
    else:
        node[last] = value


def _drop(manifest: Manifest, path: str) -> None:
    node, last = _walk(manifest, path)
    del node[last]


def _expand(value: Any) -> Any:
    many = re.fullmatch(r"\{(\d+) (letters|sources)\}", value) if isinstance(value, str) else None
    if many is None:
        return value
    if many[2] == "letters":
        return "a" * int(many[1])
    schema = {"json": {"schema": "a INT"}}
    return [{"name": f"s{number}", "topic": f"s{number}", "format": schema} for number in range(int(many[1]))]
