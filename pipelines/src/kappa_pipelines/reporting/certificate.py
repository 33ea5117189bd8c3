"""The certificate of the control port, from a mounted Secret that the operator renews."""

import ssl
from collections.abc import Callable
from pathlib import Path

import structlog

CERTIFICATE, PRIVATE_KEY = "tls.crt", "tls.key"
"""Files of the Secret."""

log = structlog.get_logger(__name__)


def has_certificate(folder: Path) -> bool:
    """Return whether there is a certificate in the folder."""
    return (folder / CERTIFICATE).exists()


def build_context(folder: Path) -> ssl.SSLContext:
    """Return a context that serves the certificate in a folder as it is at each handshake; raise OSError where there is none.

    While the files are replaced and do not fit each other, the last certificate is served.
    """
    refresh = _build_refresh(folder)
    context = _load(folder)

    def choose(connection: ssl.SSLObject, _host: str | None, _context: ssl.SSLContext) -> None:
        connection.context = refresh()

    context.sni_callback = choose
    return context


def _build_refresh(folder: Path) -> Callable[[], ssl.SSLContext]:
    known, context = (folder / CERTIFICATE).read_bytes(), _load(folder)

    def refresh() -> ssl.SSLContext:
        nonlocal known, context
        try:
            found = (folder / CERTIFICATE).read_bytes()
            if found != known:
                known, context = found, _load(folder)
                log.info("certificate of the control port renewed")
        except OSError as error:  # ssl.SSLError is one
            log.warning("certificate of the control port not readable", error=type(error).__name__)
        return context

    return refresh


def _load(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE, folder / PRIVATE_KEY)
    context.num_tickets = 0  # the operator resumes no session
    return context
