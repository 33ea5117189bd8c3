"""A test double of a schema registry: keeps schemas in this process and answers as Confluent's REST interface does.

It stands for the registry at the seam of `kappa_pipelines.registry.client`, with what a real one has and a client must
cope with: ids that all subjects share, versions that are deleted and still there with `deleted=true`, references,
log-in, and answers that are no JSON. Source: Confluent's Schema Registry API reference.
"""

import base64
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, Any]


@dataclass
class Version:
    """One version of a subject."""

    number: int
    id: int
    schema: str
    kind: str = "AVRO"
    references: list[dict[str, Any]] = field(default_factory=list)
    deleted: bool = False


class RegistryDouble:
    """A context manager; `url` is where it answers. With `login` it wants basic authentication."""

    def __init__(self, login: tuple[str, str] | None = None, address: str = "127.0.0.1") -> None:
        self.subjects: dict[str, list[Version]] = {}
        self.requests: list[str] = []
        self.breakdown: Answer | bytes | None = None
        """What it answers to everything, if anything."""
        self.redirect = ""
        """Where it sends every request, if anywhere: the address before the path."""
        self.logins: list[str] = []
        """The Authorization headers that it received."""
        self.login = login
        self._ids = 0
        self._server = ThreadingHTTPServer((address, 0), self._handler())
        self.url = f"http://{address}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self.close()

    def close(self) -> None:
        """Free the port; `with` does so at its end."""
        self._server.server_close()

    def register(self, subject: str, schema: Any, **fields: Any) -> int:
        """Add a version and return the schema's id; ids have gaps, as where other subjects take some."""
        self._ids += 7
        versions = self.subjects.setdefault(subject, [])
        text = schema if isinstance(schema, str) else json.dumps(schema)
        versions.append(Version(len(versions) + 1, self._ids, text, **fields))
        return self._ids

    def delete(self, subject: str, number: int) -> None:
        """Delete a version softly."""
        self.subjects[subject][number - 1].deleted = True

    def answer(self, path: str, login: str) -> Answer:
        """Return status and body for a GET."""
        parts = urlsplit(path)
        self.requests.append(path)
        if self.login is not None and login != _basic(*self.login):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        match [unquote(part) for part in parts.path.strip("/").split("/")]:
            case ["subjects", name, "versions", *number]:
                return self._answer_subject(name, number, "deleted" in parse_qs(parts.query))
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _answer_subject(self, name: str, number: list[str], deleted: bool) -> Answer:
        versions = [v for v in self.subjects.get(name, []) if deleted or not v.deleted]
        if not versions:
            return 404, {"error_code": 40401, "message": f"Subject '{name}' not found."}
        if not number:
            return 200, [version.number for version in versions]
        for version in versions:
            if str(version.number) == number[0]:
                return 200, _show(name, version)
        return 404, {"error_code": 40402, "message": f"Version {number[0]} not found."}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                double.logins.append(self.headers.get("Authorization", ""))
                if double.redirect:
                    self.send_response(302)
                    self.send_header("Location", f"{double.redirect}{self.path}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body: bytes | Answer = double.breakdown or double.answer(
                    self.path, self.headers.get("Authorization", "")
                )
                status, text = (
                    (200, body) if isinstance(body, bytes) else (body[0], json.dumps(body[1]).encode())
                )
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def _show(subject: str, version: Version) -> dict[str, Any]:
    shown = {"subject": subject, "version": version.number, "id": version.id, "schema": version.schema}
    if version.kind != "AVRO":  # left out for Avro
        shown["schemaType"] = version.kind
    return shown | ({"references": version.references} if version.references else {})


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
