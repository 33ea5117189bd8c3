"""The only way to drivers: their control ports over HTTPS, with the token and the certificate of the pipeline.

A driver that a release without TLS started has an address with plain HTTP.

A driver runs code of a tenant, so nothing that it answers is trusted: see `kappa_operator.answers`. The drivers of a namespace share
slots, and their reports are read one at a time, so that slow drivers and large reports delay their own namespace alone.
"""

import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote

import aiohttp
import structlog
from pydantic import ValidationError

from kappa_crds.comparison import ComparisonRequest
from kappa_crds.progress import DriverRole, InputVector, Progress
from kappa_operator.answers import (
    SMALL,
    AnswerBudget,
    AnswerRefused,
    check_json,
    open_plain_session,
    read_body,
)
from kappa_operator.errors import DriverRefused, DriverUnreachable
from kappa_operator.fair import FairSlots, Turns

log = structlog.get_logger(__name__)

_LIMITS = aiohttp.ClientTimeout(total=5, connect=3)
_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL."""
LARGEST_REPORT = 2**20
"""Bytes of a report: 50 sources of queries with 300 partitions each."""
_REFUSED = (400, 404, 405)
"""A repeated request gets the same answer: the runtime in the pipeline's image is older, or cannot do it for this pipeline."""
_SLOTS = 512
"""Requests for reports at the same time. Each has a connection, for which asyncio reserves 256 KiB with TLS: 128 MiB at most."""


def open_session() -> aiohttp.ClientSession:
    """Return a session in which no driver waits for another: drivers that do not respond would exhaust a shared pool of connections.

    A connection is closed after each request: polls are seconds apart, and an idle connection with TLS takes 256 KiB.
    """
    return open_plain_session(_LIMITS, aiohttp.TCPConnector(limit=0, limit_per_host=4, force_close=True))


@dataclass(frozen=True, slots=True)
class ControlAccess:
    """The token of a pipeline's drivers, and the certificates in PEM that one of them may serve, the newest first."""

    token: str = field(repr=False)
    certificates: tuple[str, ...] = ()


class HttpDrivers:
    """Drivers in pods, by the address of the control port, in a session from `open_session`."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._budget, self._slots, self._turns = AnswerBudget(), FairSlots(_SLOTS), Turns()

    async def fetch_progress(self, address: str, access: ControlAccess, *, namespace: str = "") -> Progress:
        """Return the driver's report; raise DriverUnreachable where it does not respond, or responds with something else."""
        async with self._slots.hold(namespace):
            held = await self._request(
                "GET", address, "/progress", access, namespace=namespace, most=LARGEST_REPORT
            )
        if len(held) <= SMALL:
            return _parse(address, held)
        async with self._turns.take(namespace):
            return _parse(address, held)

    async def stop(self, address: str, access: ControlAccess, within: float) -> None:
        """Request that the driver stop at the end of its batch, within so many seconds; idempotent."""
        await self._request("POST", address, f"/stop?within={within:.0f}", access)

    async def activate(self, address: str, access: ControlAccess) -> None:
        """Have a standby driver take over; idempotent."""
        await self._request("POST", address, "/activate", access)

    async def take_savepoint(self, address: str, access: ControlAccess, name: str, location: str) -> None:
        """Request a savepoint below a location from the driver; idempotent."""
        await self._request(
            "POST", address, f"/savepoints/{name}?location={quote(location, safe='')}", access
        )

    async def hold(self, address: str, access: ControlAccess, seconds: float) -> None:
        """Request that the driver read no further after its batch, for so many seconds; repeated, it prolongs the hold."""
        await self._request("POST", address, f"/hold?seconds={seconds:.0f}", access, refused=_REFUSED)

    async def advance(self, address: str, access: ControlAccess, target: InputVector) -> None:
        """Request that a driver that holds read up to this point; idempotent. Its report has a refusal."""
        body = target.model_dump_json(by_alias=True)
        await self._request("POST", address, "/advance", access, body=body, refused=_REFUSED)

    async def resume(self, address: str, access: ControlAccess) -> None:
        """End the driver's hold; idempotent."""
        await self._request("POST", address, "/continue", access, refused=_REFUSED)

    async def set_role(self, address: str, access: ControlAccess, role: DriverRole) -> None:
        """Give the driver its role; idempotent."""
        await self._request("POST", address, f"/role?role={role.value}", access, refused=_REFUSED)

    async def compare(self, address: str, access: ControlAccess, request: ComparisonRequest) -> None:
        """Request a comparison of two versions of an output; idempotent by its name."""
        body = request.model_dump_json(by_alias=True, exclude_none=True)
        await self._request("POST", address, "/comparisons", access, body=body, refused=_REFUSED)

    async def _request(
        self,
        method: str,
        address: str,
        path: str,
        access: ControlAccess,
        *,
        namespace: str = "",
        most: int = SMALL,
        body: str | None = None,
        refused: tuple[int, ...] = (),
    ) -> bytes:
        """Send a request to a driver that serves a certificate of its pipeline; the token is sent to no other server."""
        url = f"{address}{path}"
        headers = {"Authorization": f"Bearer {access.token}"}
        trust = _build_trust(access.certificates) if address.startswith("https:") else True
        try:
            with self._budget.hold(namespace, most) as held_body:
                async with self._session.request(
                    method, url, headers=headers, data=body, allow_redirects=False, ssl=trust
                ) as response:
                    held = await read_body(response, held_body)
                    if response.status in refused:
                        raise DriverRefused(
                            f"{method} {url} failed with status {response.status}: the runtime of the driver cannot do this"
                        )
                    if response.status >= 300:
                        raise DriverUnreachable(f"{method} {url} failed with status {response.status}")
                    check_json(held)
                    return held
        except aiohttp.ClientSSLError as error:
            raise DriverUnreachable(
                f"{method} {url}: the driver does not serve the certificate of its pipeline"
            ) from error
        except AnswerRefused as error:
            log.warning("answer of a driver refused", address=address, namespace=namespace, why=str(error))
            raise DriverUnreachable(f"{method} {url}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise DriverUnreachable(f"{method} {url}: no response ({type(error).__name__})") from error


@lru_cache(maxsize=4096)
def _build_trust(certificates: tuple[str, ...]) -> ssl.SSLContext:
    """Return what accepts a server with one of these certificates, whatever its name and validity: the Secret is its identity.

    It takes 18 KB, and to build it as long as a handshake. aiohttp's check of a fingerprint would search all authorities of the system first.
    """
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname = False
    trust.verify_flags |= _NO_CHECK_TIME | ssl.VERIFY_X509_PARTIAL_CHAIN
    for certificate in certificates:
        with suppress(ssl.SSLError):  # unreadable
            trust.load_verify_locations(cadata=certificate)
    return trust


def _parse(address: str, held: bytes) -> Progress:
    try:
        return Progress.model_validate_json(held)
    except ValidationError as error:
        count = error.error_count()
        raise DriverUnreachable(f"the driver at {address} sent a report with {count} errors") from error
