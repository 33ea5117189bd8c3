"""The chart as the tests install it: as a user does, and with the images that are in the cluster now."""

import base64
import os
import secrets
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from demo.platform import create_namespace, install_chart, start_lab
from lab.kube import kubectl
from lab.network import NODE_IP, POD_CIDR
from platform_switch import NAMESPACE

_SESSION = os.environ.setdefault("KAPPA_E2E_SESSION", uuid.uuid4().hex[:6])
"""The lanes of a session are processes that inherit it."""
PURPOSES = (
    *("count", "guarded", "refused", "served", "sources", "redeploy", "bucket", "ledger"),
    *("lag", "groups", "acts", "fleet", "outside", "stranger", "closed", "stolen"),
    *("canary", "any-user", "image-user", "connect", "users", "cdc", "shop", "database"),
    *("examples", "reprocess", "readers", "faults", "join", "archive", "chain"),
    *("python", "tables", "backfill", "executors", "copies", "quota", "binlog", "mariadb", "mariadb-shop"),
    *("only", "hdfs"),
)
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m"
"""A JVM that lives for a minute or two takes more time to compile well than that saves."""
_TOKEN = "kappa-alerts"
_FIND_TOKEN = ("get", "secret", _TOKEN, "-n", NAMESPACE)
_PREFIXES = tuple(f"e2e-{purpose}-" for purpose in PURPOSES)


def is_ours(namespace: str) -> bool:
    """Return whether a namespace is of this session, the operator's, or none: in others permissions may go with the namespace."""
    return namespace in ("", NAMESPACE) or namespace.endswith(_SESSION)


def name_place(purpose: str) -> str:
    """Return the name of this session's namespace for one of `PURPOSES`: those of others would stay when the session ends."""
    assert purpose in PURPOSES, purpose
    return f"e2e-{purpose}-{_SESSION}"


def remove_places(*, of_this_session: bool) -> None:
    """Have the namespaces deleted that this session made, or those that a session left which was killed."""
    there = kubectl("get", "namespaces", "-o", "name").split()
    ours = [name for name in there if name.removeprefix("namespace/").startswith(_PREFIXES)]
    names = [name for name in ours if name.endswith(_SESSION) == of_this_session]
    if names:
        kubectl("delete", *names, "--ignore-not-found", "--wait=false")


def install() -> str:
    """Bring cluster, images and chart up to date, and return the time afterwards as the audit log has it.

    The operator's own pods meet the restricted standard too.

    It acts in the namespaces that grant it permissions. With `KAPPA_E2E_ALONE=1` it watches just those of the tests, for a
    cluster where others have operators of their own.
    """
    start_lab()
    remove_places(of_this_session=False)
    alone = bool(os.environ.get("KAPPA_E2E_ALONE"))
    watched = [name_place(purpose) for purpose in PURPOSES] if alone else []
    for name in watched:
        create_namespace(name)
    change_values({"watchNamespaces": watched})
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"


def change_values(values: Mapping[str, object]) -> None:
    """Install the chart with the tests' values, and these besides or instead."""
    install_chart(
        {
            "pipelines.javaOptions": JAVA_OPTIONS,
            "pipelines.allowedVolumes": ["emptyDir", "configMap", "downwardAPI", "projected", "secret"],
            "pipelines.allowedVariableSources": ["configMapKeyRef", "fieldRef", "secretKeyRef"],
            "connect.javaOptions": f"{JAVA_OPTIONS} -XX:+UseSerialGC",
            "operator.webhookHosts": [NODE_IP],
            "secrets.allowClearText": [NODE_IP],
            "networkPolicies.podCidrs": [POD_CIDR],
            # The node's address is one of those of the pods here. Brokers and webhooks of tests are on it.
            "networkPolicies.operator.egress": [{"to": [{"ipBlock": {"cidr": f"{NODE_IP}/32"}}]}],
            "alerts.enabled": True,
            "alerts.tokenSecretRef.name": _make_token(),
            **values,
        }
    )


def read_token() -> str:
    """Return the token that Alertmanager has to show to the operator."""
    return base64.b64decode(kubectl(*_FIND_TOKEN, "-o", "jsonpath={.data.token}")).decode()


def _make_token() -> str:
    """Make the Secret with the token if there is none yet, and return its name: pods that run see a new one late."""
    if not kubectl(*_FIND_TOKEN, "--ignore-not-found", "-o", "name"):
        create_namespace(NAMESPACE)
        token = f"--from-literal=token={secrets.token_hex(32)}"
        kubectl("create", "secret", "generic", _TOKEN, "-n", NAMESPACE, token)
    return _TOKEN
