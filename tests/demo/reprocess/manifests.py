"""The manifests of the example, with the bug or without it, and with topics of their own in Kafka."""

import json
from dataclasses import dataclass
from typing import Any

from demo.manifests import FOLDER, Document, read_files

EXAMPLE = FOLDER.parent / "local-hours"
RIGHT, WRONG = "'America/New_York'", "'-05:00'"
"""The time zone of New York, and its offset in winter."""
PIPELINE = "local-hours"
STREAM, TABLE, SOURCE = "departures-local", "hours-local", "flights"


@dataclass(frozen=True)
class Example:
    """The example in a namespace. `prefix` begins the names of its topics in Kafka, so that it does not meet another demo."""

    namespace: str = "local-hours"
    prefix: str = "local-hours."

    def name_topic(self, topic: str) -> str:
        """Return a topic in Kafka by its name in the spec."""
        return f"{self.prefix}{topic}"

    @property
    def topics(self) -> list[str]:
        """Return all topics in Kafka that a run may leave; a version of an output for each of two reprocessings."""
        outputs = [self.name_topic(topic) for topic in (STREAM, TABLE)]
        return [
            self.name_topic(SOURCE),
            *(f"{each}{suffix}" for each in outputs for suffix in ("", ".r1", ".r2")),
        ]

    def build_surroundings(self) -> list[Document]:
        """Return the KafkaCluster, the StateStore, and the topics."""
        shared = read_files(FOLDER)
        source = [each for each in shared["topics.yaml"] if each["metadata"]["name"] == SOURCE]
        outputs = [each for each in self._read() if each["kind"] == "Topic"]
        topics = [self._rename(each) for each in (*source, *outputs)]
        return [*shared["kafka.yaml"], *shared["statestore.yaml"], *topics]

    def build_pipeline(self, zone: str) -> Document:
        """Return the pipeline with a time zone."""
        (pipeline,) = (each for each in self._read() if each["kind"] == "Pipeline")
        text = json.dumps(pipeline)
        if text.count(RIGHT) != 2:
            raise AssertionError("both views use the time zone")
        changed: Document = json.loads(text.replace(RIGHT, zone))
        return changed

    def _read(self) -> tuple[Document, ...]:
        return read_files(EXAMPLE)["pipeline.yaml"]

    def _rename(self, document: Document) -> Document:
        name = self.name_topic(document["metadata"]["name"])
        spec: dict[str, Any] = {**document["spec"], "topicName": name, "deletionPolicy": "Delete"}
        return {**document, "spec": spec}
