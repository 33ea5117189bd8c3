"""Reads a schema registry over HTTP.

The interface is Confluent's (Schema Registry API reference), which other registries offer too. Only `GET` is used.

Confluent's own client (`confluent_kafka.schema_registry`) needs five more packages (httpx2, authlib, cachetools, attrs, certifi), which a
driver would load for these two requests; it has no limit of the response size.

A redirect is followed only within the registry, so that credentials reach no other host. What a server sends in place of a schema is
repeated nowhere: messages have its status code and our own words.
"""

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from kappa_crds.format import SchemaRegistry
from kappa_crds.reasons import Reason
from kappa_crds.revision import RegistrySecrets
from kappa_pipelines.errors import UnavailableError

_TIMEOUT_SECONDS, _TOTAL_SECONDS = 10.0, 30.0
"""For each read, and for the whole body: a slow registry must not hold up a driver for hours."""
_MOST_BYTES, _PIECE_BYTES = 4 * 2**20, 64 * 2**10
"""The body of one answer, and what is read at once. Nothing is decompressed: no answer is requested in another form."""
_MOST_REDIRECTS = 3
_NOT_FOUND = 404
_REFUSED = (401, 403)
_REDIRECTS = range(300, 400)


T = TypeVar("T")


class NotRegisteredError(Exception):
    """The registry responds with 404."""


class _LimitError(Exception):
    """An answer is beyond what is read. The message has our own words only."""


class RegistryClient:
    """Reads one registry. Credentials are read from their files at each request and not cached."""

    def __init__(self, registry: SchemaRegistry, secrets: RegistrySecrets) -> None:
        self.url = registry.url.rstrip("/")
        self._secrets = secrets

    def get(self, kind: type[T], *path: str, **query: str) -> T:
        """Return the response to `GET /PATH`, a list or an object.

        NotRegisteredError for 404, UnavailableError for other failures.
        """
        url = f"{self.url}/{'/'.join(quote(part, safe='') for part in path)}"
        url += f"?{urlencode(query)}" if query else ""
        answer = self._open(urllib.request.Request(url, headers=self._headers()))  # noqa: S310 - the CRD allows http and https only
        if isinstance(answer, kind):
            return answer
        raise self.unusable()

    def _open(self, request: urllib.request.Request) -> Any:
        try:
            with self._build_opener().open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return json.loads(_read_all(answer))
        except urllib.error.HTTPError as error:
            error.close()
            raise self._explain(error.code) from error
        except urllib.error.URLError as error:
            raise self._unavailable(f"does not answer: {error.reason}") from error
        except _LimitError as error:
            raise self._unavailable(f"does not answer as a registry does: {error}") from error
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            raise self.unusable() from error

    def _build_opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(
            _RedirectWithin(), urllib.request.HTTPSHandler(context=self._tls())
        )

    def _explain(self, status: int) -> Exception:
        if status == _NOT_FOUND:
            return NotRegisteredError()
        if status in _REFUSED:
            return self._unavailable(f"refuses the driver (HTTP {status}); check its credentials Secret")
        if status in _REDIRECTS:
            return self._unavailable(
                f"redirects to another host, or too often (HTTP {status}), which is not followed; correct the url"
            )
        return self._unavailable(f"answers with HTTP {status}")

    def unusable(self) -> UnavailableError:
        """Return the error of an answer that is not that of a registry."""
        return self._unavailable("does not answer as a registry does")

    def _unavailable(self, what: str) -> UnavailableError:
        return UnavailableError(Reason.REGISTRY_UNAVAILABLE, f"the schema registry at {self.url} {what}")

    def _headers(self) -> dict[str, str]:
        accept = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self._secrets.credentials_dir is None:
            return accept
        user, password = (
            _read_secret(self._secrets.credentials_dir, key) for key in ("username", "password")
        )
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {**accept, "Authorization": f"Basic {token}"}

    def _tls(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https://"):
            return None
        try:
            return ssl.create_default_context(cafile=self._secrets.ca_file)
        except OSError as error:
            raise self._unavailable(f"needs authorities that cannot be read: {error}") from error


def _read_all(answer: Any) -> bytes:
    """Return the body; _LimitError if it is too large, compressed or too slow."""
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _LimitError("the answer is compressed")
    held, end = bytearray(), time.monotonic() + _TOTAL_SECONDS
    while piece := answer.read1(_PIECE_BYTES):
        held += piece
        if len(held) > _MOST_BYTES:
            raise _LimitError(f"the answer has more than {_MOST_BYTES} bytes")
        if time.monotonic() > end:
            raise _LimitError(f"the answer takes more than {_TOTAL_SECONDS:.0f} s")
    return bytes(held)


def _read_secret(folder: str, key: str) -> str:
    try:
        return (Path(folder) / key).read_text().rstrip("\r\n")
    except OSError as error:
        raise UnavailableError(
            Reason.SECRET_INCOMPLETE, f"the registry's credentials lack {key!r}: {error.strerror} ({folder})"
        ) from error


class _RedirectWithin(urllib.request.HTTPRedirectHandler):
    """Follows a few redirects to the same scheme, host and port. Any other is an HTTPError with its status."""

    max_redirections = _MOST_REDIRECTS
    max_repeats = _MOST_REDIRECTS

    def redirect_request(  # noqa: PLR0917 - the signature of urllib
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request to follow, None for one that leads elsewhere."""
        if _get_origin(newurl) != _get_origin(req.full_url):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _get_origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
