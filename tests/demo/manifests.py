"""The example's manifests as the demo applies them.

They are applied as they are, file by file. A test that must not meet a demo in the same cluster gives a prefix for the
topics' names in Kafka; nothing else changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kappa_crds.kinds import find_kind
from kappa_crds.quantities import parse_duration
from lab.paths import REPOSITORY

FOLDER = REPOSITORY / "pipelines" / "examples" / "flights"
SURROUNDINGS = ("kafka.yaml", "topics.yaml", "statestore.yaml")
PIPELINE = ("pipeline.yaml",)

Document = dict[str, Any]


@dataclass(frozen=True)
class Example:
    """The example in a namespace: its documents by file, and what the demo has to know of them."""

    namespace: str = "flights"
    prefix: str = ""
    pipeline: str = "delays"
    files: Mapping[str, tuple[Document, ...]] = field(default_factory=lambda: read_files(FOLDER))

    def documents(self, names: tuple[str, ...]) -> list[Document]:
        """Return the documents of some files, with the prefix on the topics' names in Kafka."""
        return [self._rename(document) for name in names for document in self.files[name]]

    def _rename(self, document: Document) -> Document:
        if document["kind"] != "Topic" or not self.prefix:
            return document
        return {
            **document,
            "spec": {**document["spec"], "topicName": self.name_topic(document["metadata"]["name"])},
        }

    def name_topic(self, name: str) -> str:
        """Return a topic's name in Kafka."""
        return f"{self.prefix}{name}"

    @property
    def topics(self) -> list[str]:
        """Return the names of all topics in Kafka."""
        return [
            self.name_topic(document["metadata"]["name"])
            for documents in self.files.values()
            for document in documents
            if document["kind"] == "Topic"
        ]

    @property
    def spec(self) -> Document:
        """Return the pipeline's spec."""
        return next(d["spec"] for d in self.files["pipeline.yaml"] if d["metadata"]["name"] == self.pipeline)

    @property
    def source(self) -> str:
        """Return the source topic in Kafka."""
        return self.name_topic(self.spec["sources"][0]["topic"])

    @property
    def result(self) -> str:
        """Return the result topic in Kafka."""
        return self.name_topic(self.spec["sinks"][0]["kafka"]["topic"])

    @property
    def dead_letters(self) -> str:
        """Return the dead-letter topic in Kafka."""
        return self.name_topic(self.spec["deadLetter"])

    @property
    def watermark_seconds(self) -> float:
        """Return how far out of order records may be."""
        return parse_duration(self.spec["sources"][0]["eventTime"]["watermark"])

    @property
    def partitions(self) -> int:
        """Return the number of partitions of the source topic."""
        name = self.spec["sources"][0]["topic"]
        return int(
            next(d["spec"]["partitions"] for d in self.files["topics.yaml"] if d["metadata"]["name"] == name)
        )

    @property
    def group(self) -> str:
        """Return the consumer group that shows the pipeline's progress."""
        return f"kappa.{self.namespace}.{self.pipeline}"


def read_files(folder: Path) -> dict[str, tuple[Document, ...]]:
    """Return the documents of every manifest in a folder; those of the platform's kinds are checked against their models."""
    files = {
        path.name: tuple(
            document for document in yaml.load_all(path.read_text(), yaml.CSafeLoader) if document
        )
        for path in sorted(folder.glob("*.yaml"))
    }
    for documents in files.values():
        for document in documents:
            find_kind(document["kind"]).spec.model_validate(document["spec"])
    return files
