"""What people with the chart's roles can do in their namespace, by impersonation on a real API server."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from generate.examples import EXAMPLES
from integration.apiserver import ApiServer
from kappa_crds import GROUP
from kappa_crds.kinds import KINDS
from lab.errors import LabError
from lab.kube import kubectl
from monitored.chart import find, render

EDITOR, VIEWER, DEVELOPER = "ann", "eve", "dan"
PLURALS = [f"{kind.plural}.{GROUP}" for kind in KINDS]
_AGGREGATION_SECONDS = 30


@pytest.fixture(scope="module")
def team(server: ApiServer) -> Iterator[str]:
    """A namespace with an editor and a viewer of the chart's roles, and a developer who has Kubernetes' own role `edit`."""
    namespace, roles = server.namespace, find(render(), "ClusterRole")
    names = {name: f"{name}-{namespace}" for name in ("kappa-view", "kappa-edit")}
    for name, unique in names.items():
        body = {**roles[name], "metadata": {**roles[name]["metadata"], "name": unique}}
        kubectl("create", "-f", "-", stdin=json.dumps(body))
    try:
        for user, role in (
            (EDITOR, names["kappa-edit"]),
            (EDITOR, "view"),
            (VIEWER, "view"),
            (DEVELOPER, "edit"),
        ):
            kubectl(
                "create",
                "rolebinding",
                f"{user}-{role}",
                f"--clusterrole={role}",
                f"--user={user}",
                "-n",
                namespace,
            )
        kubectl("create", "secret", "generic", "other", "--from-literal=password=p", "-n", namespace)
        _await_aggregation(namespace)
        yield namespace
    finally:
        kubectl("delete", "clusterroles", *names.values(), "--ignore-not-found")


def _await_aggregation(namespace: str) -> None:
    """Wait until the controller of Kubernetes has added the roles to its own."""
    deadline = time.monotonic() + _AGGREGATION_SECONDS
    while not (
        may(VIEWER, "list", PLURALS[0], namespace) and may(DEVELOPER, "create", PLURALS[0], namespace)
    ):
        assert time.monotonic() < deadline, "roles with the labels are not aggregated"
        time.sleep(0.5)


def may(user: str, verb: str, resource: str, namespace: str, part: str = "") -> bool:
    command = ("auth", "can-i", verb, resource, f"--subresource={part}", f"--as={user}", "-n", namespace)
    try:
        return kubectl(*command).strip() == "yes"
    except LabError as error:
        assert "no" in str(error)
        return False


def act(user: str, namespace: str, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl as a user."""
    return kubectl(*arguments, f"--as={user}", "-n", namespace, stdin=stdin)


def test_an_editor_applies_changes_waits_for_and_deletes_every_kind(team: str) -> None:
    text = "\n---\n".join(EXAMPLES.values())
    act(EDITOR, team, "apply", "-f", "-", stdin=text)
    plan = ("--server-side", "--dry-run=server", "--force-conflicts")
    act(EDITOR, team, "apply", *plan, "-f", "-", stdin=text)
    act(EDITOR, team, "patch", f"pipeline.{GROUP}", "delays", "--type=merge", '-p={"spec":{"suspend":true}}')
    act(EDITOR, team, "annotate", f"pipeline.{GROUP}", "delays", "note=x")
    assert "delays" in act(EDITOR, team, "get", "kappa")
    found = act(EDITOR, team, "get", ",".join(PLURALS), "-o", "name").split()
    assert {name.partition("/")[0] for name in found} == {f"{kind.name.lower()}.{GROUP}" for kind in KINDS}
    act(EDITOR, team, "delete", ",".join(PLURALS), "--all", "--wait=false")
    watching = [_review(EDITOR, team, "watch", kind.plural, "") for kind in KINDS]
    assert _list_allowed(watching) == [True] * len(KINDS)


def test_nobody_writes_a_status_or_the_finalizers_of_a_kind(team: str) -> None:
    asked = [
        _review(user, team, verb, kind.plural, part)
        for user in (EDITOR, DEVELOPER, VIEWER)
        for kind in KINDS
        for verb in ("update", "patch")
        for part in ("status", "finalizers")
    ]
    asked += [_review(user, team, "patch", KINDS[0].plural, "") for user in (EDITOR, DEVELOPER)]
    assert _list_allowed(asked) == [False] * (len(asked) - 2) + [True] * 2


def _list_allowed(reviews: list[dict[str, Any]]) -> list[bool]:
    """Return for each request whether the API server would allow it, by one call of kubectl."""
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": reviews})
    answers = kubectl("create", "-f", "-", "-o", 'jsonpath={.status.allowed}{"\\n"}', stdin=listed)
    return [line == "true" for line in answers.split()]


def _review(user: str, namespace: str, verb: str, plural: str, part: str) -> dict[str, Any]:
    resource = {"namespace": namespace, "verb": verb, "group": GROUP, "resource": plural}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": {**resource, **({"subresource": part} if part else {})}},
    }


def test_a_status_that_an_editor_writes_is_refused(team: str) -> None:
    topic = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Topic", "metadata": {"name": "forged"}, "spec": {}}
    act(EDITOR, team, "create", "-f", "-", stdin=json.dumps(topic))
    forged = ("patch", f"topics.{GROUP}", "forged", "--type=merge", '-p={"status":{"state":"Synced"}}')
    with pytest.raises(LabError, match="forbidden"):
        act(EDITOR, team, *forged, "--subresource=status")
    act(EDITOR, team, *forged)
    assert act(EDITOR, team, "get", f"topics.{GROUP}", "forged", "-o", "jsonpath={.status.state}") == ""


@pytest.mark.parametrize(
    "command",
    [
        ("get", "secret", "other"),
        ("get", "secrets"),
        ("create", "secret", "generic", "mine"),
        ("run", "shell", "--image=busybox"),
        ("create", "serviceaccount", "mine"),
        ("create", "role", "mine", "--verb=get", "--resource=secrets"),
        ("create", "rolebinding", "mine", "--clusterrole=kappa-namespace", f"--user={EDITOR}"),
        ("delete", "secret", "other"),
    ],
    ids=" ".join,
)
def test_an_editor_has_nothing_else_in_the_namespace(team: str, command: tuple[str, ...]) -> None:
    with pytest.raises(LabError, match="forbidden"):
        act(EDITOR, team, *command)


def test_a_viewer_changes_nothing(team: str) -> None:
    verbs = ("get", "create", "update", "patch", "delete")
    asked = [_review(VIEWER, team, verb, kind.plural, "") for kind in KINDS for verb in verbs]
    assert _list_allowed(asked) == [True, False, False, False, False] * len(KINDS)
