"""What the resources of an installation use Secrets for: the same purposes as the operator checks."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kappa_crds.cdcsource import CDCSourceSpec
from kappa_crds.databases import MySql, PostgreSql
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.lagpolicy import LagPolicySpec
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.resource import Resource
from kappa_crds.source import find_registries
from kappa_crds.statestore import StateStoreSpec
from kappa_operator.consent import (
    CONNECT,
    DATABASE,
    KAFKA_CONNECT,
    KAFKA_OPERATOR,
    KAFKA_PIPELINES,
    REGISTRY,
    WEBHOOK,
    Purpose,
)
from kappa_operator.kafka.config import build_purpose, build_user_purpose, find_secret_keys, name_uses
from kappa_operator.statestore.objects import build_storage
from kappa_operator.statestore.storage import build_store_purpose


class SecretUse(NamedTuple):
    """A Secret that a resource names, and what for."""

    secret: str
    purpose: Purpose


def list_uses(resource: Resource[Any, Any]) -> Iterator[SecretUse]:
    """Yield what a resource uses Secrets for; raise SecretProblem for an address that names no host."""
    match resource.spec:
        case KafkaClusterSpec() as spec:
            yield from _list_log_ins(spec, spec, KAFKA_OPERATOR)
            yield from _list_log_ins(spec, spec.of_pipelines, KAFKA_PIPELINES)
            if spec.pipeline_users is not None and spec.sasl is not None:
                yield SecretUse(spec.sasl.credentials_secret_ref.name, build_user_purpose(spec))
            yield from _list_connect(spec)
        case StateStoreSpec():
            storage = build_storage(resource)
            if storage.secret is not None and storage.bucket is not None:
                yield SecretUse(storage.secret, build_store_purpose(storage.bucket))
        case PipelineSpec() as spec:
            yield from _list_registries(spec)
        case LagPolicySpec(remediation=remediation) if remediation and remediation.webhook:
            hook = remediation.webhook
            # An address in a Secret is not read here, so its host is not known; the operator names it in the condition.
            if hook.token_secret_ref is not None and hook.url is not None:
                yield SecretUse(hook.token_secret_ref.name, Purpose.of_url(WEBHOOK, hook.url, "a token"))
        case CDCSourceSpec(database=database):
            yield from _list_database(database)
        case _:
            return


def _list_log_ins(spec: KafkaClusterSpec, used: KafkaClusterSpec, use: str) -> Iterator[SecretUse]:
    for name in dict.fromkeys(name for name, _ in find_secret_keys(used)):
        yield SecretUse(name, build_purpose(used, *name_uses(spec, name, use)))


def _list_registries(spec: PipelineSpec) -> Iterator[SecretUse]:
    for _, registry in find_registries(spec.sources):
        login, ca = registry.credentials_secret_ref, registry.ca_secret_ref
        if login is not None:
            yield SecretUse(login.name, Purpose.of_url(REGISTRY, registry.url, "a password"))
        if ca is not None:
            yield SecretUse(ca.name, Purpose.of_url(REGISTRY, registry.url))


def _list_database(database: PostgreSql | MySql) -> Iterator[SecretUse]:
    in_clear = "" if database.tls else "the password of the database"
    purpose = Purpose.of_servers((DATABASE,), (f"{database.host}:{database.port}",), in_clear)
    yield SecretUse(database.credentials_secret_ref.name, purpose)
    if database.tls is not None:
        yield SecretUse(database.tls.ca_secret_ref.name, purpose)


def _list_connect(spec: KafkaClusterSpec) -> Iterator[SecretUse]:
    if spec.connect is None:
        return
    if spec.connect.workers is not None:
        yield from _list_log_ins(spec, spec.of_workers, KAFKA_CONNECT)
    if spec.connect.existing is not None:
        purpose = Purpose.of_url(CONNECT, spec.connect.existing.url, "the configuration of connectors")
        for name in spec.connect.existing.secrets:
            yield SecretUse(name, purpose)
