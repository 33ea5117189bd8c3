"""Where dead-letter work is, kept durably beside the checkpoint, one file for each source."""

import json
from dataclasses import dataclass

from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets, parse_kafka_offsets
from kappa_pipelines.checkpoint.store.folder import Folder

_FOLDER = "dead-letter"


@dataclass(frozen=True)
class Position:
    """The next offset of each partition. `birth` stands for the place where the checkpoint's query began to read.

    `topic` is the topic, topics or pattern that the source read. Without `taken` the pipeline had no dead-letter topic.
    """

    topic: str
    offsets: Offsets
    birth: bool = False
    taken: bool = True


def read_position(files: Folder, source: str) -> Position | None:
    """Return the stored position; None for a new source, and where the file was lost."""
    held = files.read(f"{_FOLDER}/{source}.json")
    if held is None:
        return None
    stored = json.loads(held)
    offsets = stored["offsets"]
    if not all(
        isinstance(each, dict) for each in offsets.values()
    ):  # written when a source had one topic only
        offsets = {stored["topic"]: offsets}
    taken = bool(stored.get("taken", True))
    return Position(stored["topic"], parse_kafka_offsets(offsets), bool(stored["birth"]), taken)


def write_position(files: Folder, source: str, position: Position) -> None:
    """Store the position, atomically."""
    stored = {
        "topic": position.topic,
        "offsets": nest_offsets(position.offsets),
        "birth": position.birth,
        "taken": position.taken,
    }
    files.write(f"{_FOLDER}/{source}.json", json.dumps(stored).encode())


def forget_position(files: Folder, source: str) -> None:
    """Record that dead letters are not taken now: what passes meanwhile is not taken later either."""
    known = read_position(files, source)
    if known is None or known.taken:
        write_position(files, source, Position("", {}, taken=False))
