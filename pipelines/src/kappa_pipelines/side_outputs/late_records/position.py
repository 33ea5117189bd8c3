"""The stored ledger of late records, one file per query in the checkpoint."""

import json

from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.side_outputs.late_records.ledger import Ledger
from kappa_pipelines.sources.batches import parse_batch

_FOLDER = "stragglers"  # the name of earlier releases


def read_ledger(files: Folder, sink: str) -> Ledger | None:
    """Return the stored ledger; None if the query had no late records output."""
    held = files.read(f"{_FOLDER}/{sink}.json")
    if held is None:
        return None
    stored = json.loads(held)
    return Ledger(stored["seen"], tuple(map(parse_batch, stored["pending"])))


def write_ledger(files: Folder, sink: str, ledger: Ledger) -> None:
    """Store the ledger atomically."""
    stored = {"seen": ledger.seen, "pending": [batch.to_json() for batch in ledger.pending]}
    files.write(f"{_FOLDER}/{sink}.json", json.dumps(stored).encode())


def delete_ledger(files: Folder, sink: str) -> None:
    """Delete the ledger: the query has no late records output, and records of this time are never written."""
    files.delete(f"{_FOLDER}/{sink}.json")
