"""Records in a folder, with a file for each topic.

`TOPIC.jsonl`, `.json`, `.csv` and `.txt` hold the value of one record on each line. `TOPIC.records.jsonl` holds whole
records, each an object with `value` (text as it is; an object as JSON), and optionally `key`, `timestamp` (RFC 3339) and `headers`.
"""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kappa_crds.manifests import ManifestError
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.source import Source
from kappa_pipelines.laptop.records import Record, encode_text

Records = dict[str, list[Record]]
"""A batch: records by the name of their source."""
_RECORDS = ".records.jsonl"
_VALUES = (".jsonl", ".json", ".csv", ".txt")


def read_batches(folder: Path, spec: PipelineSpec, size: int) -> Iterator[Records]:
    """Yield batches of up to `size` records of each source; ManifestError if a topic has no file."""
    streams = {
        source.name: [read_topic(file, topic) for topic, file in _find_files(folder, source)]
        for source in spec.sources
    }
    while True:
        batch = {name: _take(topics, size) for name, topics in streams.items()}
        if not any(batch.values()):
            return
        yield batch


def _take(topics: list[Iterator[Record]], size: int) -> list[Record]:
    """Return the next records of each topic, in equal parts, so that topics advance together."""
    share = max(1, size // len(topics))
    return [record for records in topics for record in itertools.islice(records, share)]


def _find_files(folder: Path, source: Source) -> list[tuple[str, Path]]:
    """Return the topics of a source with their files; ManifestError if there is none."""
    if source.topic_pattern is None:
        return [(topic, find_file(folder, topic)) for topic in source.topic_names]
    names = {_name_topic(file) for file in sorted(folder.iterdir())}
    found = sorted(name for name in names if name and re.fullmatch(source.topic_pattern, name))
    if not found:
        raise ManifestError(f"{folder} has no records of a topic like {source.topic_pattern}")
    return [(topic, find_file(folder, topic)) for topic in found]


def _name_topic(file: Path) -> str | None:
    """Return the topic of a file, None for other files."""
    ending = next((each for each in (_RECORDS, *_VALUES) if file.name.endswith(each)), None)
    return file.name.removesuffix(ending) if ending else None


def find_file(folder: Path, topic: str) -> Path:
    """Return the file with a topic's records."""
    names = [topic + ending for ending in (_RECORDS, *_VALUES)]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise ManifestError(f"{folder} has no records of topic {topic}; it may be one of {', '.join(names)}")


def read_topic(file: Path, topic: str) -> Iterator[Record]:
    """Yield the records of a file; ManifestError names an invalid line."""
    now = datetime.now(UTC)
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            text = line.rstrip(b"\r\n")
            if file.name.endswith(_RECORDS):
                yield replace(_parse_record(f"{file}, line {number}", text, now), topic=topic)
            else:
                yield Record(text, timestamp=now, topic=topic)


def _parse_record(place: str, text: bytes, now: datetime) -> Record:
    try:
        fields: dict[str, Any] = json.loads(text)
        key, moment = fields.get("key"), fields.get("timestamp")
        return Record(
            value=encode_text(fields["value"]),
            key=None if key is None else str(key).encode(),
            timestamp=now if moment is None else datetime.fromisoformat(moment),
            headers=tuple((name, str(each).encode()) for name, each in fields.get("headers", {}).items()),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(
            f'{place}: not a record such as {{"value": {{"a": 1}}, "key": "k", "timestamp": "2026-01-01T00:00:00Z"}}'
        ) from error
