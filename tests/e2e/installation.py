"""The chart as the tests install it: as a user does, and with the images that are in the cluster now."""

import os
import uuid

from demo.platform import create_namespace, install_chart, start_lab
from lab.kube import kubectl

_SESSION = uuid.uuid4().hex[:6]
PURPOSES = (
    *("count", "guarded", "refused", "served", "sources", "redeploy", "bucket", "ledger"),
    *("lag", "groups"),
)
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m"
"""A JVM that lives for a minute or two takes more time to compile well than that saves."""
_PREFIXES = tuple(f"e2e-{purpose}-" for purpose in PURPOSES)


def name_place(purpose: str) -> str:
    """Return the name of this session's namespace for a purpose."""
    return f"e2e-{purpose}-{_SESSION}"


def remove_places(*, of_this_session: bool) -> None:
    """Have the namespaces deleted that this session made, or those that a session left which was killed."""
    there = kubectl("get", "namespaces", "-o", "name").split()
    ours = [name for name in there if name.removeprefix("namespace/").startswith(_PREFIXES)]
    names = [name for name in ours if name.endswith(_SESSION) == of_this_session]
    if names:
        kubectl("delete", *names, "--ignore-not-found", "--wait=false")


def install() -> None:
    """Bring cluster, images and chart up to date; the operator's own pods meet the restricted standard too.

    It watches all namespaces. With `KAPPA_E2E_ALONE=1` it watches just those of the tests, for a cluster where others
    have operators of their own.
    """
    start_lab()
    remove_places(of_this_session=False)
    alone = bool(os.environ.get("KAPPA_E2E_ALONE"))
    watched = [name_place(purpose) for purpose in PURPOSES] if alone else []
    for name in watched:
        create_namespace(name)
    install_chart(watched, _JAVA_OPTIONS)
