"""A real schema registry for a test: Apicurio's, on the loopback, in memory, with Confluent's REST interface.

Fetched by Maven as one archive, checked, and kept unpacked in the cache. It is up in some ten seconds.
"""

import json
import tarfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.broker import free_ports
from lab.controlplane import answers
from lab.maven import Archive, fetch
from lab.server import LabServer

VERSION = "3.0.9"
_ARCHIVE = Archive(
    "schema registry",
    f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all",
    "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43",
)
_PATH = "/apis/ccompat/v7"


def _unpack(file: Path, folder: Path) -> None:
    with tarfile.open(file) as files:
        files.extractall(folder, filter="data")


class RegistryServer(LabServer):
    """A context manager; `url` is where it answers as Confluent's registry does."""

    name = "registry"
    seconds = 120.0

    def __init__(self) -> None:
        super().__init__()
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        self.url = f"http://{self._address}{_PATH}"

    def register(self, subject: str, schema: Any, **fields: Any) -> int:
        """Add a version of a subject and return the schema's id; `fields` as in Confluent's interface."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer = self._ask("POST", f"/subjects/{subject}/versions", {"schema": text, **fields})
        return int(answer["id"])

    def delete(self, subject: str, number: int) -> None:
        """Delete a version softly."""
        self._ask("DELETE", f"/subjects/{subject}/versions/{number}")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def _build_command(self) -> Sequence[str]:
        program = fetch(_ARCHIVE, _unpack) / f"apicurio-registry-app-{VERSION}-runner.jar"
        host, _, port = self._address.partition(":")
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        settings = [f"-Dquarkus.http.host={host}", f"-Dquarkus.http.port={port}"]
        return ["java", *options, *settings, "-jar", str(program)]

    def _serves(self) -> bool:
        return answers(f"{self.url}/subjects")
