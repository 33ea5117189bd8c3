"""Pods run as any user of group 0, as OpenShift assigns one: drivers, executors, checks of stores and savepoints."""

import json
from collections.abc import Iterator

import pytest

from e2e.installation import change_values
from e2e.lanes import Lane
from e2e.ledger import Ledger
from e2e.place import Place
from kappa_crds.savepoint import SavepointStatus
from lab import kafka
from lab.kube import kubectl
from platform_switch import NAMESPACE

pytestmark = pytest.mark.timeout(900)

USER = 1000650000
SAVEPOINT = """
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {name: first}
spec: {pipelineRef: counts, verify: {by: StateReader}}
"""


SCRIPT = """
/opt/entrypoint.sh driver /tmp/none || id
java -cp "/opt/spark/jars/*" org.apache.hadoop.security.UserGroupInformation
"""
"""The driver without its settings, the name of the user, and what Hadoop in a JVM knows about that user."""


def test_python_and_java_of_the_image_run_as_a_user_that_it_does_not_know(platform: None) -> None:
    place = Place.create("image-user")
    privileges = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "main", "image": "kappa/pipelines:dev", "command": ["bash", "-c", SCRIPT],
        "securityContext": {**privileges, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }  # fmt: skip
    user = {"runAsUser": USER, "runAsGroup": 0, "runAsNonRoot": True}
    spec = {
        "restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container],
        "securityContext": {**user, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }  # fmt: skip
    place.apply(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, "spec": spec}))
    place.wait(lambda: place.find("pods")[0]["status"]["phase"] == "Succeeded", "the pod ends", 120)
    log = place.kubectl("logs", "any")
    assert "KAPPA_GENERATION must be the generation" in log
    assert f"uid={USER}(kappa) gid=0(root)" in log
    assert "User: kappa\n" in log
    place.empty()


@pytest.fixture
def other_user(platform: None, lane: Lane) -> Iterator[None]:
    """The chart with another user for all pods, which changes all pipelines."""
    ids = {"podUser.source": "Fixed", "podUser.user": USER, "podUser.group": 0, "podUser.volumes": USER}
    with lane.before_pipelines():
        with lane.alone():
            change_values(ids)
        yield
        with lane.alone():
            change_values({})


@pytest.mark.chaos  # `make test` has the image, and the user of every pod in `test_pod_templates`
@pytest.mark.usefixtures("other_user")
def test_a_pipeline_runs_as_a_user_that_the_image_does_not_know() -> None:
    place = Place.create("any-user")
    manifest = place.render("counting.yaml").replace("{count: 0,", "{count: 1,")
    place.apply(manifest)
    place.await_ready("topics.kappa-platform.io/events", 60)
    place.await_ready("topics.kappa-platform.io/counted", 60)
    source, result = f"{place.name}-events", f"{place.name}-counted"
    with Ledger(kafka.host_bootstrap(), source, result) as ledger:
        place.await_ready("pipeline/counts")
        place.apply(SAVEPOINT)
        place.wait(lambda: is_verified(place), "the savepoint is verified", 180)
        ledger.pause()
        ledger.catch_up()
    pods = {pod["metadata"]["labels"].get("kappa-platform.io/role"): pod for pod in place.find("pods")}
    assert {"driver", "executor"} <= pods.keys()
    for role in ("driver", "executor"):
        name = pods[role]["metadata"]["name"]
        assert place.kubectl("exec", name, "--", "id").startswith(f"uid={USER}(kappa) gid=0(root)")
    assert all(pod["spec"]["securityContext"]["runAsUser"] == USER for pod in pods.values())
    (operator, *_) = json.loads(kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]
    assert operator["spec"]["securityContext"]["runAsUser"] == USER
    place.empty()


def is_verified(place: Place) -> bool:
    status = place.get("Savepoint", "first").status
    assert isinstance(status, SavepointStatus)
    return any(each.type == "Verified" and each.status == "True" for each in status.conditions)
