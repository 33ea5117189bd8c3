"""What a checkpoint stores of the schemas of its sources: one file for each source.

It stores the reader's version, so that a restart does not change the columns, and the ids to look up, so that records with an
unregistered id cause one restart only.
"""

import json
from dataclasses import asdict, dataclass, replace

from kappa_pipelines.checkpoint.store.folder import Folder

_FOLDER = "schemas"


@dataclass(frozen=True)
class Pin:
    """The subject and version that a source reads, and the ids to look up. `asked` is a name in checkpoints."""

    subject: str
    version: int
    asked: tuple[int, ...] = ()


def read_pin(files: Folder, source: str, subject: str) -> Pin | None:
    """Return the pin of a source; None if there is none, or it has another subject."""
    held = files.read(f"{_FOLDER}/{source}.json")
    if held is None:
        return None
    stored = json.loads(held)
    pin = Pin(str(stored["subject"]), int(stored["version"]), tuple(map(int, stored["asked"])))
    return pin if pin.subject == subject else None


def write_pin(files: Folder, source: str, pin: Pin) -> None:
    """Write the pin atomically."""
    files.write(f"{_FOLDER}/{source}.json", json.dumps(asdict(pin)).encode())


def add_ids(files: Folder, source: str, subject: str, ids: set[int]) -> None:
    """Add ids from records, which the next start looks up."""
    pin = read_pin(files, source, subject)
    if pin is not None:
        write_pin(files, source, replace(pin, asked=tuple(sorted({*pin.asked, *ids}))))
