"""From a KafkaCluster to the REST API of its Kafka Connect."""

from kappa_crds.conditions import find_condition
from kappa_crds.connect import CONNECT_READY, ExistingConnect
from kappa_crds.reasons import Reason
from kappa_operator.certificates.upkeep import BUNDLE
from kappa_operator.connect.model import ConnectAccess
from kappa_operator.connect.names import KafkaClusterResource, build_url, name_rest_secret
from kappa_operator.consent import CONNECT, Purpose, check_clear_text
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.recent import SHORT
from kappa_operator.errors import NotAllowed, ReferenceProblem
from kappa_operator.hosts import Host
from kappa_operator.secrets import read_own_key, read_secret
from kappa_operator.tls import CERTIFICATE, PRIVATE_KEY


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
    if status is not None and status.url is not None and status.failure is None and status.ready != 0:
        return
    condition = find_condition(cluster.status.conditions, CONNECT_READY)
    why = "it has not been checked yet" if condition is None else f"{condition.reason}: {condition.message}"
    message = f'Kafka Connect of KafkaCluster "{cluster.metadata.name}" is not ready: {why}'
    raise ReferenceProblem(message, reason=Reason.CONNECT_NOT_READY, retryable=True)


async def read_connect_access(context: OperatorContext, cluster: KafkaClusterResource) -> ConnectAccess:
    """Return how to reach Kafka Connect, ready or not; raise SecretProblem, or NotAllowed for a host that the installation does not allow."""
    connect, namespace = cluster.spec.connect, cluster.metadata.namespace
    if connect is not None and connect.existing is not None:
        check_host(context, connect.existing)
        return await _read_existing(context, namespace, connect.existing)
    ref = ObjectRef("v1", "Secret", namespace, name_rest_secret(cluster))
    found = [await read_own_key(context, ref, key, SHORT) for key in (BUNDLE, CERTIFICATE, PRIVATE_KEY)]
    return ConnectAccess(build_url(cluster), *found)


def check_host(context: OperatorContext, existing: ExistingConnect) -> None:
    """Raise NotAllowed unless the installation allows the host: else an author of resources could have the operator call any server."""
    try:
        host = Host.of_url(existing.url)
    except ValueError as error:
        raise NotAllowed(f"spec.connect.existing.url: {error}") from None
    if not host.is_in(context.settings.connect_hosts):
        raise NotAllowed(
            f"this installation does not allow Kafka Connect at {host}; add the host to the chart's connect.existingHosts"
        )


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
