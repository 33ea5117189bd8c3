"""The only way to drivers: their control ports over HTTP, with the pipeline's token.

A driver runs code of a tenant, so nothing that it answers is trusted: see `kappa_operator.answers`. The drivers of a namespace share
slots, and their reports are read one at a time, so that slow drivers and large reports delay their own namespace alone.
"""

from urllib.parse import quote

import aiohttp
import structlog
from pydantic import ValidationError

from kappa_crds.progress import Progress
from kappa_crds.revision import CONTROL_PORT
from kappa_operator.answers import (
    SMALL,
    AnswerBudget,
    AnswerRefused,
    check_json,
    open_plain_session,
    read_body,
)
from kappa_operator.errors import DriverUnreachable
from kappa_operator.fair import FairSlots, Turns

log = structlog.get_logger(__name__)

_LIMITS = aiohttp.ClientTimeout(total=5, connect=3)
LARGEST_REPORT = 2**20
"""Bytes of a report: 50 sources of queries with 300 partitions each."""
_SLOTS = 512
"""Requests for reports at the same time."""


def open_session() -> aiohttp.ClientSession:
    """Return a session in which no driver waits for another: drivers that do not respond would exhaust a shared pool of connections."""
    return open_plain_session(_LIMITS, aiohttp.TCPConnector(limit=0, limit_per_host=4))


class HttpDrivers:
    """Drivers in pods, by pod address, in a session from `open_session`."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._budget, self._slots, self._turns = AnswerBudget(), FairSlots(_SLOTS), Turns()

    async def fetch_progress(self, address: str, token: str, *, namespace: str = "") -> Progress:
        """Return the driver's report; raise DriverUnreachable where it does not respond, or responds with something else."""
        async with self._slots.hold(namespace):
            held = await self._request(
                "GET", address, "/progress", token, namespace=namespace, most=LARGEST_REPORT
            )
        if len(held) <= SMALL:
            return _parse(address, held)
        async with self._turns.take(namespace):
            return _parse(address, held)

    async def stop(self, address: str, token: str, within: float) -> None:
        """Request that the driver stop at the end of its batch, within so many seconds; idempotent."""
        await self._request("POST", address, f"/stop?within={within:.0f}", token)

    async def activate(self, address: str, token: str) -> None:
        """Have a standby driver take over; idempotent."""
        await self._request("POST", address, "/activate", token)

    async def take_savepoint(self, address: str, token: str, name: str, location: str) -> None:
        """Request a savepoint below a location from the driver; idempotent."""
        await self._request("POST", address, f"/savepoints/{name}?location={quote(location, safe='')}", token)

    async def _request(
        self, method: str, address: str, path: str, token: str, *, namespace: str = "", most: int = SMALL
    ) -> bytes:
        url = f"http://{address}:{CONTROL_PORT}{path}"
        headers = {"Authorization": f"Bearer {token}"}
        try:
            with self._budget.hold(namespace, most) as body:
                async with self._session.request(
                    method, url, headers=headers, allow_redirects=False
                ) as response:
                    held = await read_body(response, body)
                    if response.status >= 300:
                        raise DriverUnreachable(f"{method} {url} failed with status {response.status}")
                    check_json(held)
                    return held
        except AnswerRefused as error:
            log.warning("answer of a driver refused", address=address, namespace=namespace, why=str(error))
            raise DriverUnreachable(f"{method} {url}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise DriverUnreachable(f"{method} {url}: no response ({type(error).__name__})") from error


def _parse(address: str, held: bytes) -> Progress:
    try:
        return Progress.model_validate_json(held)
    except ValidationError as error:
        count = error.error_count()
        raise DriverUnreachable(f"the driver at {address} sent a report with {count} errors") from error
