"""`kappa secrets`: the annotations that Secrets lack for what resources use them for, as commands, and what would be sent in clear."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import typer
from pydantic import ValidationError

from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS
from kappa_operator.cli.errors import Exit
from kappa_operator.cli.options import AllNamespaces, Context, Namespace
from kappa_operator.cli.requests import call, choose_scope
from kappa_operator.consent import build_command, find_in_clear, find_refused
from kappa_operator.engine.cluster import ApiCluster, Body
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import Refused, SecretProblem
from kappa_operator.hosts import Host
from kappa_operator.settings import Settings
from kappa_operator.uses import SecretUse, list_uses

Wanted = dict[tuple[str, str], dict[str, dict[Host, None]]]


@dataclass
class Findings:
    """Annotations that are missing: by namespace and Secret, by use, the hosts. `notes` are what else is to be done."""

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
                for use in list_uses(kind.parse(body)):
                    await _check(api, found, metadata["namespace"], use)
            except ValidationError:
                found.notes[
                    f"{place} in namespace {metadata['namespace']} is invalid, so its Secrets are unknown"
                ] = None
            except SecretProblem as problem:
                found.notes[f"{place} in namespace {metadata['namespace']}: {problem.message}"] = None
    return found


async def _check(api: ApiCluster, found: Findings, namespace: str, use: SecretUse) -> None:
    """Check a Secret. One that cannot be read counts as one without annotations."""
    ref = ObjectRef("v1", "Secret", namespace, use.secret)
    unknown: Body = {"metadata": {"name": use.secret, "namespace": namespace}}
    try:
        body = await api.get(ref)
    except Refused:
        found.notes[
            f"Secret {use.secret} in namespace {namespace} cannot be read; it may have annotations already"
        ] = None
        body = unknown
    if body is None:
        found.notes[f"Secret {use.secret} in namespace {namespace} does not exist"] = None
        return
    found.add(body, use)
