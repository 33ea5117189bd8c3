"""The stored position of dead letters, one file per source in the checkpoint."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets, parse_kafka_offsets
from kappa_pipelines.checkpoint.store.folder import Folder

_FOLDER = "dead-letter"


@dataclass(frozen=True)
class Position:
    """The next offset of each partition. With `is_initial`, they are the initial offsets of the checkpoint's query.

    `topic` is the topic, topics or pattern of the source. Without `is_enabled` the pipeline had no dead-letter topic.
    """

    topic: str
    offsets: Offsets
    is_initial: bool = False
    is_enabled: bool = True


def read_position(files: Folder, source: str) -> Position | None:
    """Return the stored position; None for a new source, or if the file was lost."""
    held = files.read(f"{_FOLDER}/{source}.json")
    if held is None:
        return None
    stored = json.loads(held)
    offsets = stored["offsets"]
    if not all(isinstance(each, dict) for each in offsets.values()):  # of a version with one topic per source
        offsets = {stored["topic"]: offsets}
    is_enabled = bool(stored.get("taken", True))
    return Position(stored["topic"], parse_kafka_offsets(offsets), bool(stored["birth"]), is_enabled)


def write_position(files: Folder, source: str, position: Position) -> None:
    """Store the position, atomically."""
    stored = {
        "topic": position.topic,
        "offsets": nest_offsets(position.offsets),
        "birth": position.is_initial,
        "taken": position.is_enabled,
    }
    files.write(f"{_FOLDER}/{source}.json", json.dumps(stored).encode())


def disable_positions(files: Folder, sources: Iterable[str]) -> None:
    """Record that the pipeline has no dead-letter topic: records of this time never become dead letters."""
    for source in sources:
        known = read_position(files, source)
        if known is None or known.is_enabled:
            write_position(files, source, Position("", {}, is_enabled=False))
