"""From a KafkaCluster to the REST API of its Kafka Connect."""

from dataclasses import dataclass, field

from kappa_crds.conditions import find_condition
from kappa_crds.connect import CONNECT_READY, ExistingConnect
from kappa_crds.reasons import Reason
from kappa_operator.consent import CONNECT, Purpose, check_clear_text
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import ReferenceProblem
from kappa_operator.kafkacluster.decide import KafkaClusterResource
from kappa_operator.secrets import read_secret


@dataclass(frozen=True, slots=True)
class ConnectAccess:
    """How the operator reaches the REST API of Kafka Connect. Certificates and the key are PEM texts.

    `ca` None trusts the authorities of the image. `certificate` and `key` are for mutual TLS, `username` and `password` for basic
    authentication.
    """

    url: str
    ca: str | None
    certificate: str | None
    key: str | None = field(repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)


async def resolve_connect(context: OperatorContext, cluster: KafkaClusterResource) -> ConnectAccess:
    """Return how to reach Kafka Connect of a KafkaCluster; raise ReferenceProblem where there is none or none that is ready.

    Raises SecretProblem where a Secret of an existing Connect is missing or does not allow its use.
    """
    connect, name = cluster.spec.connect, cluster.metadata.name
    if connect is None:
        message = f'KafkaCluster "{name}" declares no Kafka Connect; add spec.connect to it'
        raise ReferenceProblem(message, reason=Reason.CONNECT_NOT_DECLARED, retryable=True)
    _require_ready(cluster)
    return await read_connect_access(context, cluster)


def _require_ready(cluster: KafkaClusterResource) -> None:
    """Raise ReferenceProblem unless Kafka Connect answered at the last check. Workers may be missing, as long as one answers."""
    status = cluster.status.connect
    if status is not None and status.url is not None and status.failure is None:
        return
    condition = find_condition(cluster.status.conditions, CONNECT_READY)
    why = "it has not been checked yet" if condition is None else f"{condition.reason}: {condition.message}"
    message = f'Kafka Connect of KafkaCluster "{cluster.metadata.name}" is not ready: {why}'
    raise ReferenceProblem(message, reason=Reason.CONNECT_NOT_READY, retryable=True)


async def read_connect_access(context: OperatorContext, cluster: KafkaClusterResource) -> ConnectAccess:
    """Return how to reach Kafka Connect, ready or not; raise ReferenceProblem or SecretProblem."""
    connect = cluster.spec.connect
    if connect is None or connect.existing is None:
        message = "workers of Kafka Connect are not available yet"
        raise ReferenceProblem(message, reason=Reason.CONNECT_NOT_READY, retryable=True)
    return await _read_existing(context, cluster.metadata.namespace, connect.existing)


async def _read_existing(
    context: OperatorContext, namespace: str, existing: ExistingConnect
) -> ConnectAccess:
    # Connectors' settings name tables and servers, so even without a password nothing is sent in clear.
    purpose = Purpose.of_url(CONNECT, existing.url, "the configuration of connectors")
    check_clear_text(purpose, context.settings)
    wanted = {
        "ca": (existing.ca_secret_ref, [existing.ca_secret_ref.key] if existing.ca_secret_ref else []),
        "client": (existing.client_secret_ref, ["tls.crt", "tls.key"]),
        "login": (existing.credentials_secret_ref, ["username", "password"]),
    }
    found: dict[str, list[str | None]] = {}
    for part, (secret, keys) in wanted.items():
        if secret is None:
            found[part] = [None, None]
            continue
        ref = ObjectRef("v1", "Secret", namespace, secret.name)
        values = await read_secret(context, ref, keys, purpose)
        found[part] = [values[key] for key in keys]
    return ConnectAccess(existing.url, found["ca"][0], *found["client"], *found["login"])
