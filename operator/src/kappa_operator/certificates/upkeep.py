"""Keeps the certificate of the operator's endpoints: in a Secret, in the process, and the authority in the webhook's configuration.

Every replica does this, so it needs no leader. Two that renew at the same time have one winner, by the resource version of the
Secret; the other one reads its certificate a moment later.
"""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import structlog

from kappa_operator.certificates.issue import KeyPair
from kappa_operator.certificates.renew import Certificates, renew
from kappa_operator.engine.cluster import ApiCluster, Body
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import KappaError, NotFound
from kappa_operator.tls import CERTIFICATE, PRIVATE_KEY, RENEWAL_SECONDS, build_context, load_pair

BUNDLE, AUTHORITY, AUTHORITY_KEY = "ca.crt", "authority.crt", "authority.key"
"""Keys of the Secret beside the certificate that is served: what clients trust, and what signs."""
_RETRY_SECONDS = 2.0
_MANAGER = "kappa-certificates"
_REGISTRATION = "admissionregistration.k8s.io/v1"

log = structlog.get_logger(__name__)


class CertificateUpkeep:
    """The certificate of the operator's endpoints. `context` serves it after the first `sync`."""

    def __init__(
        self,
        cluster: ApiCluster,
        secret: ObjectRef,
        hosts: Sequence[str],
        *,
        webhook: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.context: ssl.SSLContext = build_context()
        self._cluster, self._secret, self._hosts = cluster, secret, tuple(hosts)
        self._webhook, self._now = webhook, now
        self._served: KeyPair | None = None

    async def start(self) -> None:
        """Return when there is a certificate to serve."""
        while True:
            if await self._try_sync():
                return
            await asyncio.sleep(_RETRY_SECONDS)

    async def run(self, every: float = RENEWAL_SECONDS) -> None:
        """Keep the certificate until cancelled."""
        while True:
            await asyncio.sleep(every)
            await self._try_sync()

    async def _try_sync(self) -> bool:
        try:
            await self.sync()
        except (KappaError, OSError) as error:
            message = error.message if isinstance(error, KappaError) else type(error).__name__
            log.warning("certificate not kept", error=message, served=self._served is not None)
        return self._served is not None

    async def sync(self) -> None:
        """Renew the stored certificate if it is due, and serve it. Raises KubernetesError, and OSError where it cannot be loaded."""
        certificates = await self._store()
        if certificates.serving != self._served:
            load_pair(self.context, certificates.serving.certificate, certificates.serving.key)
            self._served = certificates.serving
            log.info("certificate loaded", secret=self._secret.name)
        if self._webhook:
            await self._publish(certificates.bundle)

    async def _store(self) -> Certificates:
        body = await self._cluster.get(self._secret)
        if body is None:
            raise NotFound(f"{self._secret} not found; the chart creates it")
        stored = read_certificates(body)
        wanted = renew(stored, self._hosts, self._now())
        if wanted != stored:
            await self._cluster.replace({**body, "data": write_certificates(wanted)})
            log.info("certificate renewed", secret=self._secret.name)
        return wanted

    async def _publish(self, bundle: str) -> None:
        """Have the API server trust the authorities when it calls the webhook."""
        ref = ObjectRef(_REGISTRATION, "ValidatingWebhookConfiguration", "", self._webhook)
        body = await self._cluster.get(ref)
        if body is None:
            raise NotFound(f"{ref.kind} {ref.name} not found; the chart creates it")
        wanted = base64.b64encode(bundle.encode()).decode()
        others = [each for each in body["webhooks"] if each["clientConfig"].get("caBundle") != wanted]
        if others:
            await self._cluster.apply(
                build_trust(self._webhook, [each["name"] for each in others], wanted), _MANAGER
            )
            log.info("webhook configuration updated", name=self._webhook)


def build_trust(name: str, webhooks: Sequence[str], bundle: str) -> Body:
    """Return the part of a webhook's configuration that is the operator's."""
    return {
        "apiVersion": _REGISTRATION,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": each, "clientConfig": {"caBundle": bundle}} for each in webhooks],
    }


def read_certificates(secret: Body) -> Certificates | None:
    """Return the certificates in a Secret; None where one is missing or no text."""
    data, keys = secret.get("data") or {}, (AUTHORITY, AUTHORITY_KEY, BUNDLE, CERTIFICATE, PRIVATE_KEY)
    try:
        text = {key: base64.b64decode(data[key], validate=True).decode() for key in keys}
        return Certificates(
            authority=KeyPair(text[AUTHORITY], text[AUTHORITY_KEY]),
            bundle=text[BUNDLE],
            serving=KeyPair(text[CERTIFICATE], text[PRIVATE_KEY]),
        )
    except (KeyError, binascii.Error, UnicodeDecodeError):
        return None


def write_certificates(certificates: Certificates) -> dict[str, str]:
    """Return the data of the Secret."""
    text = {
        AUTHORITY: certificates.authority.certificate, AUTHORITY_KEY: certificates.authority.key, BUNDLE: certificates.bundle,
        CERTIFICATE: certificates.serving.certificate, PRIVATE_KEY: certificates.serving.key,
    }  # fmt: skip
    return {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
