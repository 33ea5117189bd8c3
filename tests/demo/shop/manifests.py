"""The manifests of the example, as they are applied: as they are, or with other topics, so that a test does not meet a demo."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from demo.manifests import Document, read_files
from demo.shop.application import EXAMPLE
from lab.database_pods import RunningDatabase

TABLES = ("customers", "products", "stock", "orders", "items")
ORDER = ("kafka.yaml", "cdcsource.yaml", "pipeline.yaml", "tiers.yaml")
SECRET = "shop-database"
_PREFIX = "shop"


@dataclass(frozen=True)
class Example:
    """The example in a namespace. `prefix` replaces `shop` in the names of the tables' topics, and begins those of the views.

    `schema` is that of the tables, or their database in MariaDB.
    """

    namespace: str = "shop"
    prefix: str = ""
    schema: str = "public"

    def documents(self, *names: str) -> list[Document]:
        """Return the documents of some files."""
        files = read_files(EXAMPLE)
        return [self._rename(document) for name in names for document in files[name]]

    def name_table(self, table: str) -> str:
        """Return the topic of a table."""
        return f"{self.prefix or _PREFIX}.{self.schema}.{table}"

    def name_view(self, topic: str) -> str:
        """Return the topic of a view."""
        return f"{self.prefix}-{topic}" if self.prefix else topic

    @property
    def topics(self) -> list[str]:
        """Return all topics that a run may leave: those of tables, views and Kafka Connect."""
        documents = self.documents(*ORDER)
        views = [each["metadata"]["name"] for each in documents if each["kind"] == "Topic"]
        connect = [f"connect.{self.namespace}.main.{name}" for name in ("configs", "offsets", "status")]
        heartbeats = f"__debezium-heartbeat.{self.prefix or _PREFIX}"
        return [*map(self.name_table, TABLES), *map(self.name_view, views), *connect, heartbeats]

    def _rename(self, document: Document) -> Document:
        if not self.prefix:
            return document
        spec: dict[str, Any] = document["spec"]
        match document["kind"]:
            case "Topic":
                spec = {**spec, "topicName": self.name_view(document["metadata"]["name"])}
            case "CDCSource":
                spec = {**spec, "topicPrefix": self.prefix}
            case "Pipeline":
                spec = {**spec, "sources": list(self._rename_sources(spec["sources"]))}
        return {**document, "spec": spec}

    def _rename_sources(self, sources: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for source in sources:
            yield {**source, "topic": self.name_table(source["topic"].rpartition(".")[2])}


def build_secret(server: RunningDatabase, password: str) -> Document:
    """Return the Secret of the source, with the password of its user, which may be sent to that server."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": SECRET,
            "annotations": {"secrets.kappa-platform.io/database": server.server.address},
        },
        "stringData": {"username": "debezium", "password": password, "ca.crt": server.authority},
    }
