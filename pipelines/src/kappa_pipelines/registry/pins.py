"""What is remembered of a source's schemas beside the checkpoint: one file for each source.

The reader's version is remembered so that a restart never changes the columns by itself, and the ids that were asked
for so that records with an id that nobody registered are not asked about again.
"""

import json
from dataclasses import asdict, dataclass, replace

from kappa_pipelines.checkpoint.store.folder import Folder

_FOLDER = "schemas"


@dataclass(frozen=True)
class Pin:
    """The subject and version that a source reads, and the ids that were asked for."""

    subject: str
    version: int
    asked: tuple[int, ...] = ()


def read_pin(files: Folder, source: str, subject: str) -> Pin | None:
    """Return what is remembered of the source; None if there is nothing, or it is of another subject."""
    held = files.read(f"{_FOLDER}/{source}.json")
    if held is None:
        return None
    stored = json.loads(held)
    pin = Pin(str(stored["subject"]), int(stored["version"]), tuple(map(int, stored["asked"])))
    return pin if pin.subject == subject else None


def write_pin(files: Folder, source: str, pin: Pin) -> None:
    """Remember, atomically."""
    files.write(f"{_FOLDER}/{source}.json", json.dumps(asdict(pin)).encode())


def ask_at_next_start(files: Folder, source: str, subject: str, ids: set[int]) -> None:
    """Remember ids that records came with, so that the next start asks for them."""
    pin = read_pin(files, source, subject)
    if pin is not None:
        write_pin(files, source, replace(pin, asked=tuple(sorted({*pin.asked, *ids}))))
