"""The bounds of batches that a driver has measured, for the next one (ADR 96).

They are in a file of the checkpoint that savepoints do not contain. The bound of a driver with the same revision is a good begin; after a
change of the revision only a low one is, as its records may cost more now. A file that is lost or damaged costs one more measure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from kappa_crds.progress import QueryProgress
from kappa_pipelines.checkpoint.fence.fence import BATCHES
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import UnavailableError

_CHANGE = 1.25
"""A bound is stored again after it has changed by this factor: it moves a little with each batch of a backlog."""

log = structlog.get_logger()


@dataclass
class BatchBounds:
    """The bounds of a driver's queries by sink, in records of a source. `content` is that of the revision, `first` the bound where none is known.

    `note` may be called from any thread, the other methods from one.
    """

    files: Folder
    content: str
    first: int
    _stored: dict[str, int] = field(default_factory=dict)
    _found: dict[str, int] = field(default_factory=dict)

    def read(self) -> None:
        """Read the bounds of the previous driver."""
        content, records = _parse(self.files.read(BATCHES))
        for sink, bound in records.items():
            self._stored[sink] = bound if content == self.content else min(bound, self.first)

    def find(self, sink: str) -> int | None:
        """Return the bound that the query of a sink begins with; None where none is known."""
        return self._stored.get(sink)

    def note(self, progress: QueryProgress) -> None:
        """Take the bound of a query after a batch."""
        if progress.max_records is not None:
            self._found[progress.sink] = progress.max_records

    def write(self) -> None:
        """Store the bounds if one has changed much. A store that is unavailable is tried again at the next change."""
        changed = {
            sink: bound for sink, bound in tuple(self._found.items()) if self._has_changed(sink, bound)
        }
        if not changed:
            return
        self._stored |= changed
        try:
            self.files.write(BATCHES, _write(self.content, self._stored))
        except UnavailableError as error:
            log.warning("the bounds of batches could not be stored", error=error.message)

    def _has_changed(self, sink: str, bound: int) -> bool:
        known = self._stored.get(sink, self.first)
        return max(bound, known) >= _CHANGE * max(1, min(bound, known))


def _parse(held: bytes | None) -> tuple[str, dict[str, int]]:
    """Return the content of the revision and its bounds by sink; none if the file is not there or damaged."""
    try:
        stored = json.loads(held or b"{}")
        records = {str(sink): int(bound) for sink, bound in stored.get("records", {}).items()}
        return str(stored.get("content", "")), {sink: bound for sink, bound in records.items() if bound > 0}
    except (ValueError, TypeError, AttributeError):
        log.warning("the bounds of batches in the checkpoint are damaged; batches are measured again")
        return "", {}


def _write(content: str, records: Mapping[str, int]) -> bytes:
    return json.dumps({"content": content, "records": dict(sorted(records.items()))}).encode()
