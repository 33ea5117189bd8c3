"""`kappa convert`: manifests of an earlier release with the present names. Comments and layout stay."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import typer
import yaml

from kappa_crds import conversion
from kappa_operator.cli.options import Filename, Files, list_files

Edit = tuple[int, int, str]
Pair = tuple[yaml.Node, yaml.Node]


def convert(files: Files = None, *, filename: Filename = None) -> None:
    """Print manifests of an earlier release with the present names. Comments stay where the layout allows that."""
    for number, path in enumerate(list_files(files, filename)):
        text, is_exact = convert_text(sys.stdin.read() if path == "-" else Path(path).read_text())
        if not is_exact:
            print(f"{path}: comments could not be kept; compare it with the original", file=sys.stderr)
        typer.echo(f"---\n{text}" if number else text, nl=False)


def convert_text(text: str) -> tuple[str, bool]:
    """Return YAML with the present names, and whether its comments are kept."""
    wanted = [_convert_document(each) for each in yaml.load_all(text, yaml.CSafeLoader)]
    with suppress(yaml.YAMLError):
        edited = _edit(text)
        if [*yaml.load_all(edited, yaml.CSafeLoader)] == wanted:
            return edited, True
    return yaml.safe_dump_all(wanted, sort_keys=False, allow_unicode=True), False


def _edit(text: str) -> str:
    for kind, fields in conversion.RENAMED.items():
        for old, new in fields.items():
            text = _apply(text, [*_find_edits(text, kind, old, new)])
    return text


def _convert_document(document: object) -> object:
    return conversion.convert(str(document.get("kind")), document) if isinstance(document, dict) else document


def _apply(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _find_edits(text: str, kind: str, old: str, new: str) -> Iterator[Edit]:
    above, _, name = old.rpartition(".")
    path = new.removeprefix(f"{above}.").split(".")
    for document in yaml.compose_all(text, yaml.CSafeLoader):
        if _is_kind(document, kind):
            for parent in _walk(document, above.split(".")):
                found = next((pair for pair in parent.value if pair[0].value == name), None)
                if found is not None and len(path) == 1:
                    yield found[0].start_mark.index, found[0].end_mark.index, path[0]
                elif found is not None:
                    yield from _move(text, parent, found, path[0])


def _is_kind(document: yaml.Node | None, kind: str) -> bool:
    return isinstance(document, yaml.MappingNode) and any(
        key.value == "kind" and value.value == kind for key, value in document.value
    )


def _walk(node: yaml.Node, path: list[str]) -> Iterator[yaml.MappingNode]:
    """Yield the mappings at a path, where `[]` stands for each item of a list."""
    if not isinstance(node, yaml.MappingNode):
        return
    if not path:
        yield node
        return
    for key, value in node.value:
        if key.value == path[0].removesuffix("[]"):
            for item in value.value if path[0].endswith("[]") else [value]:
                yield from _walk(item, path[1:])


def _move(text: str, parent: yaml.MappingNode, pair: Pair, below: str) -> Iterator[Edit]:
    """Yield what moves a field into the mapping `below` beside it, which may have to be made."""
    start, end = pair[0].start_mark.index, pair[1].end_mark.index
    moved = text[start:end].rstrip()
    end = start + len(moved)
    target = next((value for key, value in parent.value if key.value == below), None)
    if target is None:
        yield start, end, f"{below}: {{{moved}}}"
        return
    last = target.value[-1][1].end_mark.index
    yield last, last, f", {moved}"
    before = text.rindex("," if parent.flow_style else "\n", 0, start)
    yield before, end, ""
