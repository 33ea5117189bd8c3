"""The Secret of the REST API of workers: one authority, and one certificate that workers and the operator have.

Workers read it when they start. A renewed certificate is of the same authority, so replaced workers and those of before trust each other; another
authority is trusted for an hour before it signs.
"""

import base64
import hashlib
import secrets
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from kappa_crds import FIELD_MANAGER
from kappa_operator.certificates.renew import Certificates, renew
from kappa_operator.certificates.upkeep import BUNDLE, read_certificates, write_certificates
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.ownership import require_own
from kappa_operator.errors import AlreadyExists
from kappa_operator.tls import CERTIFICATE

KEY_STORE, TRUST_STORE, PASSWORD = "keystore.p12", "truststore.p12", "password"
"""Keys of the Secret for Java, beside those in PEM."""


async def keep_connect_secret(context: OperatorContext, manifest: Body, hosts: tuple[str, ...]) -> None:
    """Create the Secret, or renew the certificate in it; raise NameTaken where it is not the operator's own."""
    ref, now = ObjectRef.of(manifest), context.now()
    body = await context.cluster.get(ref)
    if body is not None:
        require_own(body, manifest)
    stored = None if body is None else read_certificates(body)
    wanted = renew(stored, hosts, now, for_clients=True)
    data = write_certificates(wanted) | build_stores(wanted)
    if body is None:
        await _create(context, {**manifest, "data": data})
    elif is_due(body, hosts, now):
        version = {"resourceVersion": body["metadata"]["resourceVersion"]}
        await context.cluster.merge(ref, {"metadata": version, "data": data}, FIELD_MANAGER)
    context.reads.drop(ref)


def is_due(body: Body, hosts: tuple[str, ...], now: datetime) -> bool:
    """Return whether the content of the Secret has to change: a certificate is due, or a key is missing."""
    stored, data = read_certificates(body), body.get("data") or {}
    if stored is None or not {KEY_STORE, TRUST_STORE, PASSWORD} <= data.keys():
        return True
    return renew(stored, hosts, now, for_clients=True) != stored


def compute_fingerprint(body: Body) -> str:
    """Return what changes with the certificate or with the authorities, and has no secret."""
    data = body.get("data") or {}
    public = "".join(str(data.get(key, "")) for key in (BUNDLE, CERTIFICATE))
    return hashlib.sha256(public.encode()).hexdigest()[:16]


def build_stores(certificates: Certificates) -> dict[str, str]:
    """Return the key store and the trust store for Java, with a password of their own, as data of a Secret."""
    password = secrets.token_urlsafe(24)
    lock = serialization.BestAvailableEncryption(password.encode())
    key = serialization.load_pem_private_key(certificates.serving.key.encode(), None)
    certificate = x509.load_pem_x509_certificate(certificates.serving.certificate.encode())
    trusted = x509.load_pem_x509_certificates(certificates.bundle.encode())
    assert isinstance(key, ec.EllipticCurvePrivateKey)  # noqa: S101 - the operator made it
    content = {
        KEY_STORE: pkcs12.serialize_key_and_certificates(b"worker", key, certificate, None, lock),
        TRUST_STORE: pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(each, str(number).encode()) for number, each in enumerate(trusted)],
            lock,
        ),
        PASSWORD: password.encode(),
    }
    return {name: base64.b64encode(value).decode() for name, value in content.items()}


async def _create(context: OperatorContext, manifest: Body) -> None:
    try:
        await context.cluster.create(manifest)
    except AlreadyExists:
        body = await context.cluster.get(ObjectRef.of(manifest))
        if body is not None:
            require_own(body, manifest)
