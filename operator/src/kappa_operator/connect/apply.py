"""Changes of Kafka Connect: connectors, and the log-ins to databases in the Secret of its workers."""

import base64
from collections.abc import Mapping
from typing import assert_never

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
)

from kappa_crds.reasons import Reason
from kappa_operator.cdc.connector.mysql import TRUSTSTORE_PASSWORD
from kappa_operator.cdc.connector.names import CA, PASSWORD, TRUSTSTORE, USERNAME, name_key
from kappa_operator.connect.access import resolve_connect
from kappa_operator.connect.model import (
    PAUSED,
    RUNNING,
    STOPPED,
    ConnectAccess,
    ConnectorOffsets,
    OffsetEntry,
)
from kappa_operator.consent import DATABASE, Purpose
from kappa_operator.engine import actions as act
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.ownership import require_own
from kappa_operator.engine.references import read_referred
from kappa_operator.errors import (
    AlreadyExists,
    ConnectFailure,
    ConnectorNotFound,
    ConnectRefused,
    NotFound,
    SecretProblem,
)
from kappa_operator.secrets import encode, read_secret

_LOG_IN = frozenset({"database.hostname", "database.port", "database.user", "database.password", "database.dbname"})  # fmt: skip
"""Properties that Debezium reports where it could not log in to the database."""
_EXACTLY_ONCE = "exactly.once.support"
PARTS = (USERNAME, PASSWORD, CA, TRUSTSTORE)


def build_database_purpose(server: str, *, tls: bool) -> Purpose:
    """Return what a log-in to a database is for; raise SecretProblem for what is no host."""
    return Purpose.of_servers((DATABASE,), (server,), "" if tls else "the password of the database")


async def apply_connect(context: OperatorContext, action: act.ConnectAction) -> None:
    """Execute an action; raise KappaError."""
    match action:
        case act.KeepCredentials():
            await _keep_credentials(context, action)
        case act.DropCredentials(secret, source):
            await _drop_credentials(context, secret, source)
        case _:
            await _change_connector(context, action, await _resolve(context, action.cluster))


async def _resolve(context: OperatorContext, cluster: Key) -> ConnectAccess:
    return await resolve_connect(context, read_referred(context.cache, cluster))


async def _change_connector(
    context: OperatorContext, action: act.ConnectorAction, access: ConnectAccess
) -> None:
    client, name = context.connect, action.name
    match action:
        case act.CreateConnector(_, _, config, state):
            await _validate(context, access, name, config)
            await client.create(access, name, dict(config), state)
        case act.ChangeConnector(_, _, config, _):
            await _validate(context, access, name, config)
            await client.put_config(access, name, dict(config))
        case act.SetConnectorState(_, _, state):
            change = {RUNNING: client.resume, PAUSED: client.pause, STOPPED: client.stop}[state]
            await change(access, name)
        case act.RestartConnector():
            await client.restart(access, name)
        case act.ForgetOffsets():
            await client.delete_offsets(access, name)
        case act.AlterOffsets(_, _, partition, offset):
            entry = OffsetEntry(partition=partition, offset=offset)
            await client.alter_offsets(access, name, ConnectorOffsets(offsets=(entry,)))
        case act.DeleteConnector():
            await client.delete(access, name)
        case _:
            assert_never(action)


async def _validate(
    context: OperatorContext, access: ConnectAccess, name: str, config: Mapping[str, str]
) -> None:
    """Raise ConnectFailure where the workers refuse a configuration, or cannot log in to the database."""
    try:
        refused = (await context.connect.validate(access, name, dict(config))).refused
    except ConnectorNotFound as error:
        message = f"the workers of Kafka Connect do not have {config['connector.class']}"
        raise ConnectRefused(message, retryable=True) from error
    if not refused:
        return
    if _LOG_IN.issuperset(refused):
        raise ConnectFailure(
            "the workers of Kafka Connect cannot log in to the database yet: they see new credentials within two minutes; if it lasts,"
            " check host, port, TLS, the network policies of the workers, and whether they mount the Secret of sources",
            reason=Reason.CONNECTOR_STARTING,
        )
    if _EXACTLY_ONCE in refused:
        message = "the workers of Kafka Connect have no exactly-once support; enable it there, or set spec.delivery to AtLeastOnce"
        raise ConnectRefused(message, retryable=True)
    raise ConnectRefused(
        f"Kafka Connect refuses {', '.join(refused[:8])}; the log of the workers has details", retryable=True
    )


async def _keep_credentials(context: OperatorContext, action: act.KeepCredentials) -> None:
    """Write the keys of one source by a merge, which leaves those of others as they are."""
    values = await read_credentials(context, action)
    if action.truststore and action.ca is not None:
        authorities = base64.b64decode(values[CA]).decode()
        held = build_truststore(action.ca[0].name, action.ca[1], authorities)
        values[TRUSTSTORE] = base64.b64encode(held).decode()
    ref = ObjectRef.of(action.manifest)
    try:
        body = await context.cluster.create(action.manifest)
    except AlreadyExists:
        body = await context.cluster.get(ref) or {}
        if not body:
            raise NotFound(f"{ref} is gone") from None
        require_own(body, action.manifest)
    data: dict[str, str | None] = {name_key(action.source, part): None for part in PARTS}
    data |= {name_key(action.source, part): value for part, value in values.items()}
    patch = {"metadata": {"uid": body["metadata"]["uid"]}, "data": data}
    await context.cluster.merge(ref, patch, "kappa-operator")
    context.reads.drop(ref)


async def read_credentials(
    context: OperatorContext, wanted: act.KeepCredentials, age: float = 0.0
) -> dict[str, str]:
    """Return the parts of a log-in as data of a Secret; raise SecretProblem, also where the Secrets do not allow it."""
    purpose = build_database_purpose(wanted.server, tls=wanted.ca is not None)
    values = await read_secret(context, wanted.login, (USERNAME, PASSWORD), purpose, age)
    found = {name: encode(value) for name, value in values.items()}
    if wanted.ca is not None:
        ref, key = wanted.ca
        authorities = (await read_secret(context, ref, (key,), purpose, age))[key]
        found[CA] = encode(authorities)
    return found


async def _drop_credentials(context: OperatorContext, secret: ObjectRef, source: str) -> None:
    try:
        await context.cluster.merge(
            secret, {"data": {name_key(source, part): None for part in PARTS}}, "kappa-operator"
        )
    except NotFound:
        return
    context.reads.drop(secret)


def build_truststore(secret: str, key: str, authorities: str) -> bytes:
    """Return certificates in the form of Java; raise SecretProblem for a text without any."""
    try:
        found = x509.load_pem_x509_certificates(authorities.encode())
    except ValueError:
        raise SecretProblem.incomplete(secret, key, "has no certificates in PEM") from None
    entries = [PKCS12Certificate(each, f"ca-{number}".encode()) for number, each in enumerate(found)]
    return serialize_java_truststore(entries, BestAvailableEncryption(TRUSTSTORE_PASSWORD.encode()))
