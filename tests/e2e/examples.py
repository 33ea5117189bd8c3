"""The examples as a data team applies them, each with the topics and records that it needs.

Manifests are changed in two ways. Topics get a name of the namespace in Kafka and are deleted with their resources. Pipelines without
`resources` get small ones: by default a pipeline requests 1.5 cores, and four have to fit on two.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer

from e2e.place import Place
from kappa_crds import API_VERSION
from lab.paths import REPOSITORY
from laptop.example_data import read_rows

Document = dict[str, Any]
Headers = list[tuple[str, str | bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers."""

FOLDER = REPOSITORY / "pipelines" / "examples"
SHARED = ("flights/kafka.yaml", "flights/statestore.yaml")
"""The KafkaCluster and the StateStore of all examples."""
_DATABASE = "its database is not here; test_cdc and `make demo-cdc` run such sources against PostgreSQL"
NOT_APPLIED = {
    "flights/topics.yaml": "applied with flights/pipeline.yaml",
    "shop/kafka.yaml": "the KafkaCluster of flights with Kafka Connect, which only a CDCSource needs",
    "orders/cdcsource.yaml": _DATABASE,
    "outbox/cdcsource.yaml": _DATABASE,
    "shop/cdcsource.yaml": _DATABASE,
}
"""Manifests that this test leaves out or applies with others, and why."""
_MODULES = {"auction-commands": "auction_rules.py", "auction-standings": "auction_standings.py"}
"""Python modules that a user puts into a ConfigMap, as the manifests describe."""
_SMALL = {"driver": {"cpu": "100m", "memory": "1536Mi"}, "executors": {"count": 0}}
_WITH_EXECUTOR = {**_SMALL, "executors": {"count": 1, "cpu": "100m", "memory": "1536Mi"}}
_KEYS = {"commands": "auction"}
"""Topics whose records must have a key, and its column."""


@dataclass(frozen=True)
class Example:
    """A manifest of a pipeline in a folder of the examples."""

    path: Path

    @property
    def documents(self) -> list[Document]:
        """Return the documents of the manifest, and of the topics of flights where they are in a file of their own."""
        paths = [path for path in (self.path, self.path.with_name("topics.yaml")) if path.exists()]
        return [each for path in paths for each in yaml.safe_load_all(path.read_text())]

    @property
    def pipeline(self) -> Document:
        """Return the Pipeline."""
        return next(each for each in self.documents if each["kind"] == "Pipeline")

    @property
    def name(self) -> str:
        """Return the name of the Pipeline."""
        return str(self.pipeline["metadata"]["name"])

    @property
    def sources(self) -> dict[str, Document]:
        """Return the sources by topic."""
        return {source["topic"]: source for source in self.pipeline["spec"]["sources"]}

    @property
    def results(self) -> list[str]:
        """Return the topics of the sinks."""
        return [sink["kafka"]["topic"] for sink in self.pipeline["spec"]["sinks"]]

    def build(self, place: Place) -> list[Document]:
        """Return what a user applies, with the topics of this namespace."""
        own = [_rename(each, place) if each["kind"] == "Topic" else _shrink(each) for each in self.documents]
        there = {each["metadata"]["name"] for each in own if each["kind"] == "Topic"}
        sources = [_rename(_build_topic(name), place) for name in self.sources if name not in there]
        module = _MODULES.get(self.path.parent.name)
        return [*sources, *own, *([self._build_modules(module)] if module else [])]

    def _build_modules(self, file: str) -> Document:
        name = self.pipeline["spec"]["pythonFrom"]["configMapRef"]["name"]
        data = {file: self.path.with_name(file).read_text()}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}

    def read_records(self) -> dict[str, list[Record]]:
        """Return the records of each source topic: of the example's recorded events, of its test case, or of the flights and auctions."""
        recorded = self.path.with_name("data")
        if recorded.is_dir():
            return {
                topic: list(_read_recorded(recorded / f"{topic}.records.jsonl")) for topic in self.sources
            }
        rows = read_rows()
        if rows.keys() >= self.sources.keys():
            return {topic: _encode_rows(topic, source, rows[topic]) for topic, source in self.sources.items()}
        return self._read_case()

    def _read_case(self) -> dict[str, list[Record]]:
        cases = [
            each
            for path in sorted(self.path.parent.glob("tests/*.kappatest"))
            for each in yaml.safe_load_all(path.read_text())
        ]
        (case,) = (each for each in cases if each["spec"]["pipeline"] == self.name)
        topics = {source["name"]: topic for topic, source in self.sources.items()}
        found: dict[str, list[Record]] = {topic: [] for topic in self.sources}
        for each in case["spec"]["input"]:
            if "mark" not in each:
                headers: Headers = [(name, value.encode()) for name, value in each.get("headers", {}).items()]
                record = (each["key"].encode(), _encode(each["value"]), headers)
                found[topics[each["source"]]].append(record)
        return found


def find_examples() -> dict[str, Example]:
    """Return the examples that have a pipeline, by name."""
    paths = [*FOLDER.glob("*/pipeline.yaml"), FOLDER / "shop" / "tiers.yaml"]
    return {example.name: example for example in map(Example, sorted(paths))}


def write_records(bootstrap: str, records: dict[str, list[Record]], place: Place) -> int:
    """Write records to the topics of the namespace; return how many there are."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
    for topic, rows in records.items():
        for key, value, headers in rows:
            producer.produce(name_topic(topic, place), value, key, headers=headers)
            producer.poll(0)
    assert producer.flush(60) == 0
    return sum(map(len, records.values()))


def name_topic(name: str, place: Place) -> str:
    """Return the name in Kafka of a Topic of the namespace."""
    return f"{place.name}-{name}"


def _rename(topic: Document, place: Place) -> Document:
    name = name_topic(topic["metadata"]["name"], place)
    return {**topic, "spec": {**topic["spec"], "topicName": name, "deletionPolicy": "Delete"}}


def _shrink(pipeline: Document) -> Document:
    spec = pipeline["spec"]
    small = _WITH_EXECUTOR if "pythonFrom" in spec else _SMALL
    return {**pipeline, "spec": {"resources": small, **spec}}


def _build_topic(name: str) -> Document:
    return {"apiVersion": API_VERSION, "kind": "Topic", "metadata": {"name": name}, "spec": {"partitions": 2}}


def _read_recorded(path: Path) -> Iterator[Record]:
    for line in path.read_text().splitlines():
        record = json.loads(line)
        headers: Headers = [(name, value.encode()) for name, value in record["headers"].items()]
        yield record["key"].encode(), None if record["value"] is None else record["value"].encode(), headers


def _encode_rows(topic: str, source: Document, rows: Sequence[Document]) -> list[Record]:
    key = _KEYS.get(topic)
    csv_schema = source["format"].get("csv", {}).get("schema")
    columns = [part.split()[0] for part in csv_schema.split(",")] if csv_schema else []
    if "eventTime" in source:
        rows = sorted(rows, key=itemgetter(source["eventTime"]["column"]))
    return [
        (
            _encode(row[key]) if key else None,
            _encode_csv([row[name] for name in columns]) if columns else _encode(row),
            [],
        )
        for row in rows
    ]


def _encode(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value, default=datetime.isoformat).encode()


def _encode_csv(values: Sequence[Any]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(values)
    return text.getvalue().strip().encode()
