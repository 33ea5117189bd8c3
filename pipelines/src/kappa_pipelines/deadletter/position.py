"""Where dead-letter work is, kept durably beside the checkpoint, one file for each source."""

import json
from dataclasses import dataclass

from kappa_pipelines.checkpoint.files import CheckpointFiles
from kappa_pipelines.checkpoint.offsets import Offsets

_FOLDER = "dead-letter"


@dataclass(frozen=True)
class Position:
    """The next offset by partition. `birth` stands for the place where the checkpoint's query began to read."""

    topic: str
    offsets: Offsets
    birth: bool = False


def read_position(files: CheckpointFiles, source: str) -> Position | None:
    """Return the stored position; None if dead letters were not taken from this source before."""
    text = files.read(f"{_FOLDER}/{source}.json")
    if text is None:
        return None
    stored = json.loads(text)
    return Position(
        stored["topic"], {int(p): int(o) for p, o in stored["offsets"].items()}, bool(stored["birth"])
    )


def write_position(files: CheckpointFiles, source: str, position: Position) -> None:
    """Store the position, atomically."""
    stored = {"topic": position.topic, "offsets": position.offsets, "birth": position.birth}
    files.write(f"{_FOLDER}/{source}.json", json.dumps(stored))


def forget_position(files: CheckpointFiles, source: str) -> None:
    """Forget the position: dead letters are not taken now, and what passes meanwhile is not taken later."""
    files.delete(f"{_FOLDER}/{source}.json")
