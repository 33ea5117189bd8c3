"""How far stragglers are written, kept durably beside the checkpoint, one file for each query that has some."""

import json

from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.side_outputs.late_records.ledger import Ledger
from kappa_pipelines.sources.batches import parse_batch

_FOLDER = "stragglers"


def read_ledger(files: Folder, sink: str) -> Ledger | None:
    """Return what is stored; None if stragglers were not taken from this query before."""
    held = files.read(f"{_FOLDER}/{sink}.json")
    if held is None:
        return None
    stored = json.loads(held)
    return Ledger(stored["seen"], tuple(map(parse_batch, stored["pending"])))


def write_ledger(files: Folder, sink: str, ledger: Ledger) -> None:
    """Store it, atomically."""
    stored = {"seen": ledger.seen, "pending": [batch.to_json() for batch in ledger.pending]}
    files.write(f"{_FOLDER}/{sink}.json", json.dumps(stored).encode())


def forget_ledger(files: Folder, sink: str) -> None:
    """Forget it: stragglers are not taken now, and what passes meanwhile is not taken later."""
    files.delete(f"{_FOLDER}/{sink}.json")
