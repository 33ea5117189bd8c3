"""State fingerprints of a pipeline's queries, stored in its checkpoint: they describe the stored state."""

from collections.abc import Collection, Iterable, Mapping

from pydantic import ValidationError

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.plan.fingerprint import IN_PYTHON, JOIN, QueryFingerprint, update_names
from kappa_pipelines.upgrade.compare import compare_pipelines, judge

_FOLDER = "_plans"


def write_fingerprints(files: Folder, shapes: Mapping[str, QueryFingerprint]) -> None:
    """Store the fingerprints of the queries of a driver that starts.

    The state of a removed sink stays in the checkpoint, and so does its fingerprint: the sink may be added again.
    """
    for sink in _list_sinks(files) - shapes.keys():
        left = QueryFingerprint.model_validate_json(files.read(f"{_FOLDER}/{sink}") or b"")
        _write(files, sink, left.replace(left=True))
    for sink, shape in shapes.items():
        _write(files, sink, shape)


def rename_topic(files: Folder, sinks: Iterable[str], sources: Collection[str], old: str, new: str) -> None:
    """Have the stored fingerprints of queries name another version of a topic that these sources read."""
    for sink, shape in read_fingerprints(files).items():
        known = {
            name: ", ".join(new if topic == old else topic for topic in text.split(", "))
            if name in sources
            else text
            for name, text in shape.sources.items()
        }
        if sink in sinks:
            _write(files, sink, shape.replace(sources=known))


def _write(files: Folder, sink: str, shape: QueryFingerprint) -> None:
    held = shape.model_dump_json(by_alias=True).encode()
    if files.read(f"{_FOLDER}/{sink}") != held:
        files.write(f"{_FOLDER}/{sink}", held)


def read_fingerprints(files: Folder) -> dict[str, QueryFingerprint]:
    """Return the stored fingerprints by sink, of queries that have planned a batch; LostDataError if one is invalid."""
    found: dict[str, QueryFingerprint] = {}
    for sink in sorted(_list_sinks(files)):
        held = files.read(f"{_FOLDER}/{sink}") or b""
        try:
            shape = update_names(QueryFingerprint.model_validate_json(held))
        except ValidationError as error:
            message = f"the checkpoint {files.root} is damaged: {_FOLDER}/{sink} is invalid: {error.errors()[0]['msg']}"
            raise LostDataError(Reason.CHECKPOINT_DAMAGED, message) from error
        if files.names(f"{sink}/offsets"):
            found[sink] = shape
    return found


def _list_sinks(files: Folder) -> set[str]:
    """Return the sinks with a fingerprint. A name that begins with a dot is an unfinished file."""
    return {name for name in files.names(_FOLDER) if not name.startswith(".")}


def find_former(files: Folder, spec: PipelineSpec) -> frozenset[tuple[str, str]]:
    """Return the sinks and views whose state is that of an earlier release.

    It is a join of Spark for sliding windows and as-of joins before ADR 81 and for joins in SQL before ADR 102, and in Python for tables
    before ADR 83 and patterns before ADR 101.
    """
    forms = {view.name: JOIN for view in spec.views if view.sliding or view.as_of or view.sql}
    forms |= {view.name: IN_PYTHON for view in spec.views if view.table_join or view.lookup or view.pattern}
    return frozenset(
        (sink, each.view)
        for sink, shape in read_fingerprints(files).items()
        for each in shape.operators
        if each.view is not None and forms.get(each.view) == each.operator
    )


def check_fit(files: Folder, shapes: Mapping[str, QueryFingerprint]) -> None:
    """Compare the fingerprints of a driver that starts without a dry run with the stored ones.

    LostDataError, with all reasons, if the state does not fit.
    """
    verdict = judge(compare_pipelines(read_fingerprints(files), shapes))
    if verdict.kind is VerdictKind.REPROCESS:
        message = "the state of the checkpoint belongs to another plan, and nothing was written: "
        raise LostDataError(Reason.STATE_INCOMPATIBLE, message + "; ".join(verdict.reasons))
