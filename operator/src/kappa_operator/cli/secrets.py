"""`kappa secrets`: the annotations that Secrets lack for what resources use them for, as commands, and what would be sent in clear."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import typer
from pydantic import ValidationError

from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS
from kappa_crds.lagpolicy import LagPolicySpec
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.resource import Resource
from kappa_operator.cli.errors import Exit
from kappa_operator.cli.options import AllNamespaces, Context, Namespace
from kappa_operator.cli.requests import call, choose_scope
from kappa_operator.consent import (
    KAFKA_USERS,
    TOPICS_ANNOTATION,
    WEBHOOK,
    Purpose,
    build_command,
    find_in_clear,
    find_refused,
    read_patterns,
)
from kappa_operator.engine.cluster import ApiCluster, Body
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import Refused, SecretProblem
from kappa_operator.hosts import Host
from kappa_operator.pipeline.pod_policy import PODS, PODS_ANNOTATION, list_secrets
from kappa_operator.pod_rules import is_allowed
from kappa_operator.secrets import decode, is_webhook_url
from kappa_operator.settings import Settings
from kappa_operator.uses import SecretUse, list_uses

Wanted = dict[tuple[str, str], dict[str, dict[Host | str, None]]]


@dataclass
class Findings:
    """Annotations that are missing: by namespace and Secret, by use, the hosts or pipelines. `notes` are what else is to be done."""

    missing: Wanted = field(default_factory=lambda: defaultdict(lambda: defaultdict(dict)))
    bodies: dict[tuple[str, str], Body] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, body: Body, use: SecretUse) -> None:
        """Add what a Secret lacks for a use."""
        metadata = body["metadata"]
        place = metadata["namespace"], metadata["name"]
        self.bodies[place] = body
        for host in find_refused(body, use.purpose):
            self.missing[place][use.purpose.uses[0]][host] = None
        for host in find_in_clear(use.purpose, Settings()):
            self.notes[
                f"{use.purpose.in_clear} is sent to {host} without TLS: use TLS, or add it to secrets.allowClearText"
            ] = None

    def add_pods(self, body: Body, pipeline: str) -> None:
        """Add the pipeline where a Secret does not allow its pods."""
        metadata = body["metadata"]
        place = metadata["namespace"], metadata["name"]
        self.bodies[place] = body
        patterns = read_patterns((metadata.get("annotations") or {}).get(PODS_ANNOTATION, ""))
        if not is_allowed(pipeline, tuple(patterns)):
            self.missing[place][PODS][pipeline] = None

    def list_commands(self) -> Iterable[str]:
        """Yield the commands, sorted by Secret."""
        for place, uses in sorted(self.missing.items()):
            for use, hosts in sorted(uses.items()):
                yield build_command(self.bodies[place]["metadata"], use, hosts)


def secrets(
    *, namespace: Namespace = "", all_namespaces: AllNamespaces = False, context: Context = None
) -> None:
    """Print the annotations that Secrets lack for what resources use them for. Exit code 1 if there is something to do.

    The output are commands of kubectl. Each allows that a Secret is sent to the hosts it names: read it before you run it.
    """
    scope = choose_scope(namespace, context, all_namespaces=all_namespaces)
    found = call(context, lambda api: find_missing(api, scope))
    for command in found.list_commands():
        typer.echo(command)
    for note in found.notes:
        typer.echo(f"# {note}")
    if found.missing or found.notes:
        raise typer.Exit(Exit.FAILED)


async def find_missing(api: ApiCluster, namespace: str | None) -> Findings:
    """Return what Secrets lack for all resources; raise KubernetesError."""
    found = Findings()
    for kind in KINDS:
        for body in await api.list_objects(API_VERSION, kind.name, namespace):
            place, metadata = f"{kind.name} {body['metadata']['name']}", body["metadata"]
            try:
                await _check_resource(api, found, kind.parse(body))
            except ValidationError:
                found.notes[
                    f"{place} in namespace {metadata['namespace']} is invalid, so its Secrets are unknown"
                ] = None
            except SecretProblem as problem:
                found.notes[f"{place} in namespace {metadata['namespace']}: {problem.message}"] = None
    return found


async def _check_resource(api: ApiCluster, found: Findings, resource: Resource[Any, Any]) -> None:
    namespace = resource.metadata.namespace
    for use in list_uses(resource):
        body = await _read(api, found, namespace, use.secret)
        if body is not None:
            found.add(body, use)
            _note_topics(found, body, use)
    if isinstance(resource.spec, PipelineSpec):
        for name in list_secrets(resource):
            body = await _read(api, found, namespace, name)
            if body is not None:
                found.add_pods(body, resource.metadata.name)
    if isinstance(resource.spec, LagPolicySpec):
        await _check_address(api, found, namespace, resource.spec)


def _note_topics(found: Findings, body: Body, use: SecretUse) -> None:
    metadata = body["metadata"]
    if KAFKA_USERS in use.purpose.uses and TOPICS_ANNOTATION not in (metadata.get("annotations") or {}):
        found.notes[
            f"Secret {metadata['name']} in namespace {metadata['namespace']} names no topics for users of pipelines; list them in"
            f" its annotation {TOPICS_ANNOTATION}"
        ] = None


async def _check_address(api: ApiCluster, found: Findings, namespace: str, spec: LagPolicySpec) -> None:
    """Check the Secrets of a webhook whose address is in a Secret. The address is not printed, only its host."""
    hook = spec.remediation.webhook if spec.remediation else None
    if hook is None or hook.url_secret_ref is None:
        return
    name, key = hook.url_secret_ref.name, hook.url_secret_ref.key
    body = await _read(api, found, namespace, name)
    if body is None or "data" not in body:
        return
    url = decode(name, key, body).strip()
    if not is_webhook_url(url):
        raise SecretProblem.incomplete(name, key, "is not an http or https address without user and password")
    found.add(body, SecretUse(name, Purpose.of_url(WEBHOOK, url, "an address with a token")))
    if hook.token_secret_ref is not None:
        token = await _read(api, found, namespace, hook.token_secret_ref.name)
        if token is not None:
            found.add(token, SecretUse(hook.token_secret_ref.name, Purpose.of_url(WEBHOOK, url, "a token")))


async def _read(api: ApiCluster, found: Findings, namespace: str, name: str) -> Body | None:
    """Return a Secret, None where it does not exist. One that cannot be read counts as one without annotations."""
    try:
        body = await api.get(ObjectRef("v1", "Secret", namespace, name))
    except Refused:
        found.notes[
            f"Secret {name} in namespace {namespace} cannot be read; it may have annotations already"
        ] = None
        return {"metadata": {"name": name, "namespace": namespace}}
    if body is None:
        found.notes[f"Secret {name} in namespace {namespace} does not exist"] = None
    return body
