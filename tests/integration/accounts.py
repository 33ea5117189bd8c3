"""Accounts that may do no more than their Roles."""

from pathlib import Path
from typing import Protocol

import yaml

from lab.kube import kubectl
from lab.paths import KUBECONFIG


class Place(Protocol):
    """Something in a namespace."""

    namespace: str


def build_kubeconfig(bench: Place, folder: Path, account: str, *roles: str) -> Path:
    """Return a kubeconfig of an account with these Roles and no other permission."""
    kubectl("create", "serviceaccount", account, "-n", bench.namespace)
    for role in roles:
        subject = f"--serviceaccount={bench.namespace}:{account}"
        kubectl(
            "create", "rolebinding", f"{account}-{role}", f"--role={role}", subject, "-n", bench.namespace
        )
    token = kubectl("create", "token", account, "-n", bench.namespace).strip()
    config = yaml.load(KUBECONFIG.read_text(), yaml.CSafeLoader)
    config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
    path = folder / f"{account}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
