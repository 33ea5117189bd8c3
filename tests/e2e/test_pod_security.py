"""What the platform's pods may do, and what they show of secrets: as little as possible, and nothing."""

import base64
import json

import pytest

from e2e.counting import PASSWORD, Guarded
from lab.kube import kubectl
from platform_switch import NAMESPACE

pytestmark = pytest.mark.timeout(900)

_LOOK_INSIDE = """
import contextlib, pathlib
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    with contextlib.suppress(OSError):  # it has just ended
        for name in ("cmdline", "environ"):
            print((entry / name).read_bytes().replace(bytes(1), b" ").decode(errors="replace"))
"""
_LEVEL = "pod-security.kubernetes.io/enforce"


def test_all_pods_of_a_pipeline_run_under_the_restricted_standard(guarded: Guarded) -> None:
    labels = json.loads(kubectl("get", "namespace", guarded.place.name, "-o", "json"))["metadata"]["labels"]
    assert labels[_LEVEL] == "restricted"
    roles = {pod["metadata"]["labels"].get("kappa-platform.io/role") for pod in guarded.place.find("pods")}
    assert {"driver", "executor"} <= roles
    checked = guarded.place.get("StateStore", "small").status
    assert checked.check is not None, "the pod that checks the store was admitted and ran"


def test_the_operators_own_pods_run_under_the_restricted_standard(platform: None) -> None:
    labels = json.loads(kubectl("get", "namespace", NAMESPACE, "-o", "json"))["metadata"]["labels"]
    assert labels[_LEVEL] == "restricted"
    pods = json.loads(kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]
    spec = {key: value for key, value in pods[0]["spec"].items() if key != "nodeName"}
    again = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "admitted-again", "namespace": NAMESPACE},
        "spec": spec,
    }
    assert "created" in kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(again))


def test_no_secret_is_in_objects_events_logs_arguments_or_metrics(guarded: Guarded) -> None:
    place = guarded.place
    token = json.loads(place.kubectl("get", "secret", "counts-control", "-o", "json"))["data"]["token"]
    user = json.loads(place.kubectl("get", "secret", "kafka-user", "-o", "json"))["data"]["password"]
    assert base64.b64decode(user).decode() == PASSWORD
    secrets = (PASSWORD, user, base64.b64decode(token).decode(), token)
    shown = {
        "objects": place.kubectl(
            "get", "kappa,pods,configmaps,services,serviceaccounts,roles,rolebindings,events", "-o", "json"
        ),
        "operator logs": kubectl(
            *("logs", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=kappa-operator", "--tail=-1")
        ),
    }
    for pod in [pod["metadata"]["name"] for pod in place.find("pods", "kappa-platform.io/pipeline")]:
        shown[f"log of {pod}"] = place.kubectl("logs", pod)
        shown[f"processes of {pod}"] = place.kubectl("exec", pod, "--", "python3", "-c", _LOOK_INSIDE)
    metrics = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
    driver = place.pipeline().active.driver or ""
    shown["metrics"] = place.kubectl("exec", driver, "--", "python3", "-c", metrics)
    assert "kafka" in shown["objects"]
    assert "java" in shown[f"processes of {driver}"]
    found = [where for where, text in shown.items() if any(secret in text for secret in secrets)]
    assert found == []
