"""Accounts that may do no more than their Roles."""

from functools import partial
from pathlib import Path
from typing import Protocol

import yaml

from lab.api import request
from lab.paths import KUBECONFIG
from lab.shell import wait_until

_RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Place(Protocol):
    """Something in a namespace."""

    namespace: str


def build_kubeconfig(bench: Place, folder: Path, account: str, *roles: str) -> Path:
    """Return a kubeconfig of an account with these Roles and no other permission."""
    core, space = f"/api/v1/namespaces/{bench.namespace}", bench.namespace
    request("POST", f"{core}/serviceaccounts", {"metadata": {"name": account}})
    for role in roles:
        binding = {
            "metadata": {"name": f"{account}-{role}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": space}],
        }
        request("POST", f"{_RBAC}/{space}/rolebindings", binding)
    for role in roles:
        wait_until(partial(has_role, space, account, role), f"{account} has {role}", every=0.02)
    token = request("POST", f"{core}/serviceaccounts/{account}/token", {"spec": {}})["status"]["token"]
    config = yaml.load(KUBECONFIG.read_text(), yaml.CSafeLoader)
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def has_role(namespace: str, account: str, role: str) -> bool:
    """Return whether the API server permits what the Role does; it sees new objects a moment later."""
    rule = request("GET", f"{_RBAC}/{namespace}/roles/{role}")["rules"][0]
    resource, _, part = rule["resources"][0].partition("/")
    wanted = {
        "namespace": namespace, "verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": resource, "subresource": part,
        "name": rule.get("resourceNames", [""])[0],
    }  # fmt: skip
    user = f"system:serviceaccount:{namespace}:{account}"
    review = request("POST", _REVIEWS, {"spec": {"user": user, "resourceAttributes": wanted}})
    return bool(review["status"]["allowed"])
