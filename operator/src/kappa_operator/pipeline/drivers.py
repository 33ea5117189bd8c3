"""The only way to drivers: their control ports over HTTP, with the pipeline's token."""

from urllib.parse import quote

import aiohttp
from pydantic import ValidationError

from kappa_crds.progress import Progress
from kappa_crds.revision import CONTROL_PORT
from kappa_operator.errors import DriverUnreachable

_LIMITS = aiohttp.ClientTimeout(total=5, connect=3)


def open_session() -> aiohttp.ClientSession:
    """Return a session in which no driver waits for another: drivers that do not respond would exhaust a shared pool of connections."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, limit_per_host=4), timeout=_LIMITS)


class HttpDrivers:
    """Drivers in pods, by pod address, in a session from `open_session`."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def fetch_progress(self, address: str, token: str) -> Progress:
        """Return the driver's report; raise DriverUnreachable where it does not respond, or responds with something else."""
        text = await self._request("GET", address, "/progress", token)
        try:
            return Progress.model_validate_json(text)
        except ValidationError as error:
            raise DriverUnreachable(
                f"the driver at {address} sent a report that cannot be read: {error}"
            ) from error

    async def stop(self, address: str, token: str, within: float) -> None:
        """Request that the driver stop at the end of its batch, within so many seconds; idempotent."""
        await self._request("POST", address, f"/stop?within={within:.0f}", token)

    async def activate(self, address: str, token: str) -> None:
        """Have a standby driver take over; idempotent."""
        await self._request("POST", address, "/activate", token)

    async def take_savepoint(self, address: str, token: str, name: str, location: str) -> None:
        """Request a savepoint below a location from the driver; idempotent."""
        await self._request("POST", address, f"/savepoints/{name}?location={quote(location, safe='')}", token)

    async def _request(self, method: str, address: str, path: str, token: str) -> str:
        url = f"http://{address}:{CONTROL_PORT}{path}"
        headers = {"Authorization": f"Bearer {token}"}
        try:
            async with self._session.request(method, url, headers=headers) as response:
                text = await response.text()
                if response.status >= 400:
                    raise DriverUnreachable(
                        f"{method} {url} failed with status {response.status}: {text[:200]}"
                    )
                return text
        except (aiohttp.ClientError, TimeoutError) as error:
            raise DriverUnreachable(f"{method} {url}: no response ({type(error).__name__})") from error
