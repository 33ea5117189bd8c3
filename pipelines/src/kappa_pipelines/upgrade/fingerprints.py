"""The shapes of a pipeline's queries, kept beside its checkpoint: what the state that is there was kept for."""

from collections.abc import Mapping
from typing import Protocol

from pydantic import ValidationError

from kappa_crds.reasons import Reason
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.analysis.compare import compare_pipelines, judge
from kappa_pipelines.analysis.fingerprint import QueryShape
from kappa_pipelines.errors import LostDataError

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


class ReadFiles(Protocol):
    """Small files below the root of a checkpoint, to be read."""

    @property
    def root(self) -> str:
        """Return the URI of the checkpoint."""

    def read(self, path: str) -> bytes | str | None:
        """Return what a file holds, or None if there is none."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""


def write_shapes(files: SmallFiles, shapes: Mapping[str, QueryShape]) -> None:
    """Write down what the queries of a driver that begins keep state for, in the place of those before.

    The state of a sink that is gone stays where it is, so what it was kept for stays, too: the sink may come back.
    """
    for sink in _list_sinks(files) - shapes.keys():
        left = QueryShape.model_validate_json(files.read(f"{_FOLDER}/{sink}") or "")
        _write(files, sink, left.replace(left=True))
    for sink, shape in shapes.items():
        _write(files, sink, shape)


def _write(files: SmallFiles, sink: str, shape: QueryShape) -> None:
    text = shape.model_dump_json(by_alias=True)
    if files.read(f"{_FOLDER}/{sink}") != text:
        files.write(f"{_FOLDER}/{sink}", text)


def read_kept_shapes(files: ReadFiles) -> dict[str, QueryShape]:
    """Return what was written down, by sink, of the queries that have begun a batch; LostDataError if it cannot be understood."""
    found: dict[str, QueryShape] = {}
    for sink in sorted(_list_sinks(files)):
        held = files.read(f"{_FOLDER}/{sink}") or b""
        try:
            shape = QueryShape.model_validate_json(held)
        except ValidationError as error:
            said = f"the checkpoint {files.root} is damaged: {_FOLDER}/{sink} cannot be understood: {error.errors()[0]['msg']}"
            raise LostDataError(Reason.CHECKPOINT_DAMAGED, said) from error
        if files.names(f"{sink}/offsets"):
            found[sink] = shape
    return found


def _list_sinks(files: SmallFiles | ReadFiles) -> set[str]:
    """Return the sinks of which there is something. A name that begins with a dot is a file that is being written, or was when a driver died."""
    return {name for name in files.names(_FOLDER) if not name.startswith(".")}


def check_fit(files: ReadFiles, shapes: Mapping[str, QueryShape]) -> None:
    """Compare what queries are about to keep state for with what the state that is there was kept for.

    This is for a driver that starts without having stood by. LostDataError, with all reasons, where the state does not fit.
    """
    verdict = judge(compare_pipelines(read_kept_shapes(files), shapes))
    if verdict.kind is VerdictKind.REPROCESS:
        said = "the state that is there was kept for another plan, and nothing was written: "
        raise LostDataError(Reason.STATE_INCOMPATIBLE, said + "; ".join(verdict.reasons))
