"""The only way to the REST API of Kafka Connect.

A tenant may run Kafka Connect, so no answer is trusted: see `kappa_operator.answers`. No redirect is followed, and
no message has text of an answer. Source of the protocol: Kafka's documentation, "Kafka Connect", section "REST API".
"""

import base64
import ssl
import tempfile
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError

from kappa_operator.answers import AnswerBudget, AnswerRefused, check_json, open_plain_session, read_body
from kappa_operator.connect.model import (
    RUNNING,
    ConnectAccess,
    ConnectInfo,
    ConnectorOffsets,
    ConnectorStatus,
    Plugin,
    Validation,
)
from kappa_operator.errors import (
    ConnectBusy,
    ConnectFailure,
    ConnectorNotFound,
    ConnectRefused,
    ConnectUnreachable,
)
from kappa_operator.fair import FairSlots

log = structlog.get_logger(__name__)

_LIMITS = aiohttp.ClientTimeout(total=45, connect=5)
"""Seconds for a whole call. A validation connects to the database, and a change waits for a rebalance of the workers."""
LARGEST = 2**20
"""Bytes of an answer. A validation describes each property of the connector."""
_SLOTS = 32
Body = dict[str, Any]
Answer = TypeVar("Answer", bound=BaseModel)
_PLUGINS, _CONFIG = TypeAdapter(list[Plugin]), TypeAdapter(dict[str, str])
_TOPICS = TypeAdapter(dict[str, dict[str, list[str]]])


class HttpConnect:
    """Kafka Connect by its access. The session opens with the first call; namespaces share the calls at the same time."""

    def __init__(self, limits: aiohttp.ClientTimeout = _LIMITS) -> None:
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None
        self._budget, self._slots = AnswerBudget(), FairSlots(_SLOTS)

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get_info(self, access: ConnectAccess) -> ConnectInfo:
        """Return the worker that answers; raise ConnectFailure."""
        return _parse(ConnectInfo, await self._request(access, "GET", "/"))

    async def list_plugins(self, access: ConnectAccess) -> tuple[Plugin, ...]:
        """Return the connectors that the workers have; raise ConnectFailure."""
        return tuple(_parse_as(_PLUGINS, await self._request(access, "GET", "/connector-plugins")))

    async def validate(self, access: ConnectAccess, name: str, config: dict[str, str]) -> Validation:
        """Return what Kafka Connect has against a configuration. Connectors of databases log in for it; raise ConnectFailure."""
        path = f"/connector-plugins/{quote(config['connector.class'], safe='')}/config/validate"
        return _parse(Validation, await self._request(access, "PUT", path, {**config, "name": name}))

    async def get_config(self, access: ConnectAccess, name: str) -> dict[str, str]:
        """Return the configuration of a connector as it was written, with references to secrets; raise ConnectorNotFound."""
        config = _parse_as(_CONFIG, await self._request(access, "GET", f"{_path(name)}/config"))
        return {key: value for key, value in config.items() if key != "name"}

    async def get_status(self, access: ConnectAccess, name: str) -> ConnectorStatus:
        """Return the states of a connector and its tasks; raise ConnectorNotFound."""
        return _parse(ConnectorStatus, await self._request(access, "GET", f"{_path(name)}/status"))

    async def list_topics(self, access: ConnectAccess, name: str) -> tuple[str, ...]:
        """Return the topics that a connector has written to; raise ConnectorNotFound."""
        known = _parse_as(_TOPICS, await self._request(access, "GET", f"{_path(name)}/topics"))
        return tuple(sorted(known.get(name, {}).get("topics", [])))

    async def create(
        self, access: ConnectAccess, name: str, config: dict[str, str], state: str = RUNNING
    ) -> None:
        """Create a connector in a state; raise ConnectBusy where one of that name exists."""
        body = {"name": name, "config": config, "initial_state": state}
        await self._request(access, "POST", "/connectors", body)

    async def put_config(self, access: ConnectAccess, name: str, config: dict[str, str]) -> None:
        """Create a connector, or change its configuration, which restarts its tasks; idempotent."""
        await self._request(access, "PUT", f"{_path(name)}/config", config)

    async def pause(self, access: ConnectAccess, name: str) -> None:
        """Have the tasks pause; idempotent."""
        await self._request(access, "PUT", f"{_path(name)}/pause")

    async def resume(self, access: ConnectAccess, name: str) -> None:
        """Have the connector run; idempotent."""
        await self._request(access, "PUT", f"{_path(name)}/resume")

    async def stop(self, access: ConnectAccess, name: str) -> None:
        """Have the connector give up its tasks; idempotent."""
        await self._request(access, "PUT", f"{_path(name)}/stop")

    async def restart(self, access: ConnectAccess, name: str, *, only_failed: bool = True) -> None:
        """Restart a connector and its tasks, or only what failed."""
        query = f"includeTasks=true&onlyFailed={'true' if only_failed else 'false'}"
        await self._request(access, "POST", f"{_path(name)}/restart?{query}")

    async def delete(self, access: ConnectAccess, name: str) -> None:
        """Delete a connector; one that is gone is fine. Its offsets stay."""
        try:
            await self._request(access, "DELETE", _path(name))
        except ConnectorNotFound:
            return

    async def get_offsets(self, access: ConnectAccess, name: str) -> ConnectorOffsets:
        """Return the positions of a connector; raise ConnectorNotFound."""
        return _parse(ConnectorOffsets, await self._request(access, "GET", f"{_path(name)}/offsets"))

    async def alter_offsets(self, access: ConnectAccess, name: str, offsets: ConnectorOffsets) -> None:
        """Set positions of a stopped connector; raise ConnectFailure."""
        await self._request(access, "PATCH", f"{_path(name)}/offsets", offsets.model_dump(mode="json"))

    async def delete_offsets(self, access: ConnectAccess, name: str) -> None:
        """Forget all positions of a stopped connector; raise ConnectFailure."""
        await self._request(access, "DELETE", f"{_path(name)}/offsets")

    async def _request(
        self, access: ConnectAccess, method: str, path: str, content: Body | dict[str, str] | None = None
    ) -> bytes:
        call = f"{method} {access.url}{path.partition('?')[0]}"
        if self._session is None:
            self._session = open_plain_session(self._limits, aiohttp.TCPConnector(limit=_SLOTS))
        try:
            async with self._slots.hold(access.url):
                return await self._send(self._session, access, method, path, content)
        except aiohttp.ClientSSLError as error:
            raise ConnectUnreachable(
                f"{call}: the certificate of Kafka Connect cannot be verified"
            ) from error
        except AnswerRefused as error:
            log.warning("answer of Kafka Connect refused", url=access.url, why=str(error))
            raise ConnectUnreachable(f"{call}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise ConnectUnreachable(f"{call}: no response ({type(error).__name__})") from error

    async def _send(
        self,
        session: aiohttp.ClientSession,
        access: ConnectAccess,
        method: str,
        path: str,
        content: Body | dict[str, str] | None,
    ) -> bytes:
        url = f"{access.url.rstrip('/')}{path}"
        trust: ssl.SSLContext | bool = (
            _build_trust(access.ca, access.certificate, access.key) if url.startswith("https:") else True
        )
        with self._budget.hold(access.url, LARGEST) as body:
            async with session.request(
                method, url, json=content, headers=_build_headers(access), allow_redirects=False, ssl=trust
            ) as response:
                held = await read_body(response, body)
                if response.status >= 300:
                    raise _build_error(f"{method} {url.partition('?')[0]}", response.status)
                check_json(held)
                return held


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _build_headers(access: ConnectAccess) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}  # also without a body: Kafka Connect refuses other types
    if access.username is None or access.password is None:
        return headers
    login = base64.b64encode(f"{access.username}:{access.password}".encode()).decode()
    return {**headers, "Authorization": f"Basic {login}"}


def _build_error(call: str, status: int) -> ConnectFailure:
    text = f"{call} failed with status {status}"
    if status == 404:
        return ConnectorNotFound(text)
    if status == 409:
        return ConnectBusy(f"{text}: the workers distribute connectors, or there is one of that name")
    if 400 <= status < 500 and status not in (408, 429):
        return ConnectRefused(text, retryable=False)
    return ConnectUnreachable(text)


@lru_cache(maxsize=256)
def _build_trust(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    trust = ssl.create_default_context(cadata=ca)
    if certificate is not None and key is not None:
        # The ssl module loads keys from files only; this one is unlinked at once, and readable by this process alone.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{certificate}\n{key}\n")
            file.flush()
            trust.load_cert_chain(file.name)
    return trust


def _parse(kind: type[Answer], held: bytes) -> Answer:
    try:
        return kind.model_validate_json(held)
    except ValidationError as error:
        raise ConnectUnreachable(f"Kafka Connect sent an answer with {error.error_count()} errors") from error


def _parse_as(kind: TypeAdapter[Any], held: bytes) -> Any:
    try:
        return kind.validate_json(held)
    except ValidationError as error:
        raise ConnectUnreachable(f"Kafka Connect sent an answer with {error.error_count()} errors") from error
