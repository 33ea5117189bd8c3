"""The certificate of a server: loaded into a context, which serves a renewed one to new connections without a restart."""

import asyncio
import os
import ssl
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import structlog
from aiohttp import web

CERTIFICATE, PRIVATE_KEY = "tls.crt", "tls.key"
"""Files in a folder, and keys of a Secret, as a Secret of type kubernetes.io/tls names them."""
RENEWAL_SECONDS = 60.0

log = structlog.get_logger(__name__)


def build_context() -> ssl.SSLContext:
    """Return the context of a server, without a certificate."""
    return ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)


def load_folder(context: ssl.SSLContext, folder: Path) -> None:
    """Load the certificate in a folder; raise OSError where it cannot be used."""
    context.load_cert_chain(folder / CERTIFICATE, folder / PRIVATE_KEY)


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate and its key in PEM, through a file that only this process can read; raise OSError."""
    descriptor, name = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{key}\n{certificate}")
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()


async def serve_tls(
    app: web.Application, folder: Path, port: int, *, renewal: float = RENEWAL_SECONDS, required: bool = True
) -> web.AppRunner:
    """Start the server with the certificate in a folder, which is read again every `renewal` seconds.

    Raises OSError where the port is taken, and where there is no certificate though it is `required`; else it is plain HTTP then.
    """
    tls = None
    if required or (folder / CERTIFICATE).exists():
        tls = build_context()
        load_folder(tls, folder)
        app.cleanup_ctx.append(partial(_renew, tls, folder, renewal))
    return await serve_app(app, port, tls)


async def serve_app(app: web.Application, port: int, tls: ssl.SSLContext | None = None) -> web.AppRunner:
    """Start a server; raise OSError where the port is taken."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port, ssl_context=tls).start()
    return runner


async def _renew(
    tls: ssl.SSLContext, folder: Path, every: float, _app: web.Application
) -> AsyncIterator[None]:
    task = asyncio.ensure_future(renew_certificate(tls, folder, every))
    yield
    task.cancel()


async def renew_certificate(context: ssl.SSLContext, folder: Path, every: float) -> None:
    """Load a certificate that was renewed: new connections use it."""
    known = (folder / CERTIFICATE).read_bytes()
    while True:
        await asyncio.sleep(every)
        try:
            found = (folder / CERTIFICATE).read_bytes()
            if found != known:
                load_folder(context, folder)
                known = found
        except OSError as error:  # ssl.SSLError is one: the files are being replaced
            log.warning("certificate not readable", error=type(error).__name__)
