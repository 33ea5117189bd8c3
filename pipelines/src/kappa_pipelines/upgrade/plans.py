"""The shapes of a pipeline's queries, kept beside its checkpoint: what the state that is there was kept for."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import ValidationError

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.upgrade.shapes import QueryShape

_FOLDER = "_plans"


class SmallFiles(Protocol):
    """Small files below a checkpoint, which are replaced whole."""

    def read(self, name: str) -> str | None:
        """Return a file's text, or None if there is none."""

    def write(self, name: str, text: str) -> None:
        """Write a file, in the place of an older one."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""

    def delete(self, name: str) -> None:
        """Delete a file if it is there."""


def write_shapes(files: SmallFiles, shapes: Mapping[str, QueryShape]) -> None:
    """Write down what the queries of a driver that begins keep state for, in the place of those before."""
    for gone in set(files.names(_FOLDER)) - shapes.keys():
        files.delete(f"{_FOLDER}/{gone}")
    for sink, shape in shapes.items():
        text = shape.model_dump_json(by_alias=True)
        if files.read(f"{_FOLDER}/{sink}") != text:
            files.write(f"{_FOLDER}/{sink}", text)


def read_kept_shapes(files: Folder) -> dict[str, QueryShape]:
    """Return what was written down, by sink; LostDataError if it cannot be understood."""
    found: dict[str, QueryShape] = {}
    for sink in files.names(_FOLDER):
        held = files.read(f"{_FOLDER}/{sink}") or b""
        try:
            found[sink] = QueryShape.model_validate_json(held)
        except ValidationError as error:
            said = f"the checkpoint {files.root} is damaged: {_FOLDER}/{sink} cannot be understood: {error.errors()[0]['msg']}"
            raise LostDataError(Reason.CHECKPOINT_DAMAGED, said) from error
    return found
