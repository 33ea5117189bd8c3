"""A real schema registry for a test: Apicurio's, on the loopback, in memory, with Confluent's REST interface.

Fetched by Maven as one archive, checked, and kept unpacked in the cache. It is up in some ten seconds.
"""

import json
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.broker import free_ports
from lab.controlplane import answers
from lab.errors import LabError
from lab.maven import Archive, fetch
from lab.shell import wait_until

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


class RegistryServer:
    """A context manager; `url` is where it answers as Confluent's registry does."""

    def __init__(self) -> None:
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        self.url = f"http://{self._address}{_PATH}"
        self._home = Path(tempfile.mkdtemp(prefix="kappa-registry-"))
        self.log = self._home / "registry.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        program = fetch(_ARCHIVE, _unpack) / f"apicurio-registry-app-{VERSION}-runner.jar"
        host, _, port = self._address.partition(":")
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        settings = [f"-Dquarkus.http.host={host}", f"-Dquarkus.http.port={port}"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["java", *options, *settings, "-jar", str(program)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
                start_new_session=True,
            )
        try:
            wait_until(self._serves, "schema registry serves", seconds=120)
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clean_up()

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

    def _serves(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise LabError(f"the schema registry ended while starting:\n{self.log.read_text()[-2000:]}")
        return answers(f"{self.url}/subjects")

    def _clean_up(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)
