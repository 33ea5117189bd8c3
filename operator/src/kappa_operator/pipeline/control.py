"""The Secret of a control port: the token that a driver accepts, and the certificate that it serves and by which the operator knows it."""

import base64
import binascii
import secrets
from functools import partial

from kappa_crds import FIELD_MANAGER
from kappa_operator.certificates.issue import KeyPair, create_self_signed, needs_renewal
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.ownership import require_own
from kappa_operator.errors import AlreadyExists
from kappa_operator.pipeline.drivers import ControlAccess
from kappa_operator.secrets import decode
from kappa_operator.tls import CERTIFICATE, PRIVATE_KEY

TOKEN, PREVIOUS = "token", "previous.crt"
"""Keys of the Secret beside certificate and key."""


async def read_control(context: OperatorContext, ref: ObjectRef, age: float = 0.0) -> ControlAccess:
    """Return how to call drivers of a pipeline, as it was at most `age` seconds ago; raise SecretProblem."""
    return await context.reads.read((ref, TOKEN), age, partial(_read_access, context, ref))


def forget_control(context: OperatorContext, ref: ObjectRef) -> None:
    """Read the Secret the next time: it may have changed."""
    context.reads.drop((ref, TOKEN))


async def _read_access(context: OperatorContext, ref: ObjectRef) -> ControlAccess:
    """Return what the operator needs of the Secret. Its private key, which only the driver needs, is not remembered."""
    body = await context.cluster.get(ref) or {}
    known = (_decode((body.get("data") or {}).get(key)) for key in (CERTIFICATE, PREVIOUS))
    return ControlAccess(decode(ref.name, TOKEN, body), tuple(each for each in known if each))


async def keep_control_secret(context: OperatorContext, manifest: Body, host: str) -> None:
    """Create the Secret, or renew the certificate in it; raise NameTaken where it is not the operator's own."""
    ref, now = ObjectRef.of(manifest), context.now()
    body = await context.cluster.get(ref)
    if body is None:
        data = {TOKEN: create_token(), **_encode(create_self_signed(host, now))}
        await _create(context, {**manifest, "data": data})
        return
    require_own(body, manifest)
    known = (body.get("data") or {}).get(CERTIFICATE, "")
    if not needs_renewal(_decode(known) or "", now):
        return
    data = {PREVIOUS: known, **_encode(create_self_signed(host, now))}
    version = {"resourceVersion": body["metadata"]["resourceVersion"]}
    await context.cluster.merge(ref, {"metadata": version, "data": data}, FIELD_MANAGER)
    forget_control(context, ref)


def create_token() -> str:
    """Return a random token, as the data of a Secret."""
    return base64.b64encode(secrets.token_urlsafe(32).encode()).decode()


async def _create(context: OperatorContext, manifest: Body) -> None:
    try:
        await context.cluster.create(manifest)
    except AlreadyExists:
        body = await context.cluster.get(ObjectRef.of(manifest))
        if body is not None:
            require_own(body, manifest)


def _encode(pair: KeyPair) -> dict[str, str]:
    text = {CERTIFICATE: pair.certificate, PRIVATE_KEY: pair.key}
    return {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}


def _decode(value: str | None) -> str | None:
    try:
        return base64.b64decode(value or "", validate=True).decode() or None
    except (binascii.Error, UnicodeDecodeError):
        return None
