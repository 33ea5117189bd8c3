"""The shapes of a pipeline's queries, kept beside its checkpoint: what the state that is there was kept for."""

from collections.abc import Mapping

from pydantic import ValidationError

from kappa_crds.reasons import Reason
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.plan.fingerprint import QueryShape
from kappa_pipelines.upgrade.compare import compare_pipelines, judge

_FOLDER = "_plans"


def write_fingerprints(files: Folder, shapes: Mapping[str, QueryShape]) -> None:
    """Write down what the queries of a driver that begins keep state for, in the place of those before.

    The state of a sink that is gone stays where it is, so what it was kept for stays, too: the sink may come back.
    """
    for sink in _list_sinks(files) - shapes.keys():
        left = QueryShape.model_validate_json(files.read(f"{_FOLDER}/{sink}") or b"")
        _write(files, sink, left.replace(left=True))
    for sink, shape in shapes.items():
        _write(files, sink, shape)


def _write(files: Folder, sink: str, shape: QueryShape) -> None:
    held = shape.model_dump_json(by_alias=True).encode()
    if files.read(f"{_FOLDER}/{sink}") != held:
        files.write(f"{_FOLDER}/{sink}", held)


def read_fingerprints(files: Folder) -> dict[str, QueryShape]:
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


def _list_sinks(files: Folder) -> set[str]:
    """Return the sinks of which there is something. A name that begins with a dot is a file that is being written, or was when a driver died."""
    return {name for name in files.names(_FOLDER) if not name.startswith(".")}


def check_fit(files: Folder, shapes: Mapping[str, QueryShape]) -> None:
    """Compare what queries are about to keep state for with what the state that is there was kept for.

    This is for a driver that starts without having stood by. LostDataError, with all reasons, where the state does not fit.
    """
    verdict = judge(compare_pipelines(read_fingerprints(files), shapes))
    if verdict.kind is VerdictKind.REPROCESS:
        said = "the state that is there was kept for another plan, and nothing was written: "
        raise LostDataError(Reason.STATE_INCOMPATIBLE, said + "; ".join(verdict.reasons))
