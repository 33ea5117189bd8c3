"""The chart as the tests install it: as a user does, and with the images that are in the cluster now."""

import json
import os
import uuid

from demo.platform import CHART, RELEASE, start_lab
from lab import cluster, containerd, kube
from lab.kube import kubectl
from lab.paths import BIN, KUBECONFIG
from lab.shell import run
from platform_switch import DEPLOYMENT, NAMESPACE

_SECONDS = 180
_OPERATOR_IMAGE = "docker.io/kappa/operator:dev"
_SESSION = uuid.uuid4().hex[:6]
PURPOSES = ("count", "guarded", "refused", "served")
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
    kube.apply([kube.namespace(name, "restricted") for name in (NAMESPACE, *watched)])
    run(
        [
            *(BIN / "helm", f"--kubeconfig={KUBECONFIG}", "upgrade", "--install", RELEASE, CHART),
            *("--namespace", NAMESPACE, "--take-ownership", "--reset-values", "--wait"),
            *(f"--timeout={_SECONDS}s", "--set-json", f"watchNamespaces={json.dumps(watched)}"),
        ],
        timeout=_SECONDS + 30,
    )
    _run_current_image()


def _run_current_image() -> None:
    """The image's tag stays the same when it is built anew, so the pods must be told."""
    digest = _SESSION if cluster.is_docker_there() else containerd.image_digests().get(_OPERATOR_IMAGE, "")
    note = {"spec": {"template": {"metadata": {"annotations": {"kappa-demo/image": digest}}}}}
    kubectl("patch", DEPLOYMENT, "-n", NAMESPACE, "--patch", json.dumps(note))
    kubectl(
        *("rollout", "status", DEPLOYMENT, "-n", NAMESPACE, f"--timeout={_SECONDS}s"), timeout=_SECONDS + 10
    )
