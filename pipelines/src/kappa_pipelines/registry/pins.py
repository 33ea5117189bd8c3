"""What is remembered of a source's schemas beside the checkpoint: one file for each source.

The reader's version is remembered so that a restart never changes the columns by itself, and the ids that were asked
for so that records with an id that nobody registered are not asked about again.
"""

import json
from dataclasses import asdict, dataclass, replace

from kappa_pipelines.checkpoint.store.files import CheckpointFiles

_FOLDER = "schemas"


@dataclass(frozen=True)
class Pin:
    """The subject and version that a source reads, and the ids that were asked for."""

    subject: str
    version: int
    asked: tuple[int, ...] = ()


def read_pin(files: CheckpointFiles, source: str, subject: str) -> Pin | None:
    """Return what is remembered of the source; None if there is nothing, or it is of another subject."""
    text = files.read(f"{_FOLDER}/{source}.json")
    if text is None:
        return None
    stored = json.loads(text)
    pin = Pin(str(stored["subject"]), int(stored["version"]), tuple(map(int, stored["asked"])))
    return pin if pin.subject == subject else None


def write_pin(files: CheckpointFiles, source: str, pin: Pin) -> None:
    """Remember, atomically."""
    files.write(f"{_FOLDER}/{source}.json", json.dumps(asdict(pin)))


def ask_at_next_start(files: CheckpointFiles, source: str, subject: str, ids: set[int]) -> None:
    """Remember ids that records came with, so that the next start asks for them."""
    pin = read_pin(files, source, subject)
    if pin is not None:
        write_pin(files, source, replace(pin, asked=tuple(sorted({*pin.asked, *ids}))))
