"""Accounts that may do no more than their Roles."""

from pathlib import Path
from typing import Protocol

import yaml

from lab.api import request
from lab.paths import KUBECONFIG


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
        request("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings", binding)
    token = request("POST", f"{core}/serviceaccounts/{account}/token", {"spec": {}})["status"]["token"]
    config = yaml.load(KUBECONFIG.read_text(), yaml.CSafeLoader)
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
