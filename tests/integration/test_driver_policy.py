"""The chart's admission policy: with the rights of a driver, only executors of its pipeline can be created."""

import asyncio
import copy
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.accounts import build_kubeconfig
from integration.bench import Bench
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.pod_template import PINNED_ANNOTATION
from kappa_operator.pipeline.objects import DRIVER_ROLE, PIPELINE_LABEL, build_driver_rules
from kappa_operator.pipeline.revision import build_revision
from lab.api import request
from lab.errors import LabError
from lab.kube import kubectl
from monitored.chart import find, render
from unit.control.pipelines import IMAGES, pipeline
from unit.control.test_revision import SECURED

Body = dict[str, Any]
ONE = {"resources": {"executors": {"count": 1}}}
TEMPLATE = build_revision(pipeline(ONE), SECURED, IMAGES).executor_pod
OWN = {
    "podTemplate": {
        "metadata": {"labels": {"team": "flights"}, "annotations": {"example.com/owner": "flights"}},
        "spec": {
            "containers": [{
                "env": [{"name": "REGION", "valueFrom": {"configMapKeyRef": {"name": "region", "key": "name"}}},
                        {"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "api", "key": "key"}}}],
                "volumeMounts": [{"name": "rules", "mountPath": "/mnt/rules"}],
            }],
            "volumes": [{"name": "rules", "configMap": {"name": "rules"}},
                        {"name": "all", "projected": {"sources": [{"configMap": {"name": "rules"}}, {"secret": {"name": "api"}}]}}],
            "nodeSelector": {"pool": "streaming"},
            "tolerations": [{"key": "streaming", "operator": "Exists", "effect": "NoSchedule"}],
        },
    },
    "serviceAccount": {"annotations": {"example.com/role": "flights"}},
}  # fmt: skip
TEMPLATED = build_revision(pipeline({**ONE, **OWN}), SECURED, IMAGES).executor_pod
TOKEN = {"serviceAccountToken": {"path": "token", "audience": "sts.example.com"}}
CHANGES: list[tuple[str, dict[str, Any], str]] = [
    ("the network of the node", {"spec.hostNetwork": True}, "nothing of its node"),
    ("the processes of the node", {"spec.hostPID": True}, "nothing of its node"),
    ("a chosen node", {"spec.nodeName": "control"}, "nothing of its node"),
    ("a folder of the node", {"spec.volumes.+": {"name": "x", "hostPath": {"path": "/"}}}, "ConfigMaps of its template and empty folders only"),
    ("another Secret as files", {"spec.volumes.+": {"name": "x", "secret": {"secretName": "payroll"}}}, "payroll"),
    ("another PVC", {"spec.volumes.+": {"name": "x", "persistentVolumeClaim": {"claimName": "payroll"}}}, "pvc/payroll"),
    ("a token", {"spec.volumes.+": {"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}}, "ConfigMaps of its template and empty folders only"),
    ("the token of its account", {"spec.automountServiceAccountToken": True}, "and no token"),
    ("the account of the driver", {"spec.serviceAccountName": "delays-driver"}, "no account but that of its template"),
    ("another Secret as a variable", {"spec.containers.0.env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "payroll", "key": "k"}}}]}, "payroll"),
    ("another Secret as all variables", {"spec.containers.0.envFrom": [{"secretRef": {"name": "payroll"}}]}, "ConfigMaps of its template only"),
    ("another ConfigMap as a variable", {"spec.containers.0.env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]}, "ConfigMaps of its template only"),
    ("a privileged container", {"spec.containers.0.securityContext": {"privileged": True}}, "no capabilities"),
    ("a capability", {"spec.containers.0.securityContext.capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}, "no capabilities"),
    ("root", {"spec.containers.0.securityContext.runAsUser": 0}, "no capabilities"),
    ("root by the container", {"spec.containers.0.securityContext.runAsNonRoot": False}, "does not run as root"),
    ("a port of the node", {"spec.containers.0.ports": [{"containerPort": 80, "hostPort": 80}]}, "nothing of its node"),
    ("no user rule", {"spec.securityContext": {}}, "does not run as root"),
    ("a second container", {"spec.initContainers": [{"name": "i", "image": "x"}]}, "one container"),
    ("another pipeline's labels", {"metadata.labels": {PIPELINE_LABEL: "other", "kappa-platform.io/role": "executor"}}, "its own pipeline"),
    ("a driver", {"metadata.labels": {PIPELINE_LABEL: "delays", **DRIVER_ROLE}}, "its own pipeline"),
    ("no labels", {"metadata.labels": None}, "its own pipeline"),
    ("no owner", {"metadata.ownerReferences": None}, "belongs to the driver pod"),
    ("a label", {"metadata.labels.app": "payroll"}, "labels of its template only"),
    ("a ConfigMap", {"spec.volumes.+": {"name": "x", "configMap": {"name": "rules"}}}, "ConfigMaps of its template"),
    ("a projected Secret", {"spec.volumes.+": {"name": "x", "projected": {"sources": [{"secret": {"name": "payroll"}}]}}}, "ConfigMaps of its template"),
    ("a token for a cloud", {"spec.volumes.+": {"name": "x", "projected": {"sources": [TOKEN]}}}, "ConfigMaps of its template"),
    ("a toleration", {"spec.tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}, "taints of its template only"),
    ("every toleration", {"spec.tolerations": [{"operator": "Exists"}]}, "taints of its template only"),
    ("a priority", {"spec.priorityClassName": "system-node-critical"}, "the PriorityClass"),
    ("a template that it has not", {"metadata.annotations": {PINNED_ANNOTATION: "label/app=payroll"}, "metadata.labels.app": "payroll"}, "label/app=payroll"),
    ("the account of executors", {"spec.serviceAccountName": "delays-executor"}, "no account but that of its template"),
    ("another owner", {"metadata.ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "other-driver-1", "uid": "1"}]}, "belongs to the driver pod"),
]  # fmt: skip


TEMPLATED_CHANGES: list[tuple[str, dict[str, Any], str]] = [
    ("another value of a label", {"metadata.labels.team": "payroll"}, "labels of its template only"),
    ("another ConfigMap", {"spec.volumes.+": {"name": "x", "configMap": {"name": "payroll"}}}, "ConfigMaps of its template"),
    ("another projected Secret", {"spec.volumes.+": {"name": "x", "projected": {"sources": [{"secret": {"name": "payroll"}}]}}}, "ConfigMaps of its template"),
    ("a token for the API server", {"spec.volumes.+": {"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}}, "ConfigMaps of its template"),
    ("other nodes", {"spec.nodeSelector": {"pool": "payroll"}}, "nodes of its template only"),
    ("all nodes", {"spec.nodeSelector": None}, "nodes of its template only"),
    ("another effect of a toleration", {"spec.tolerations": [{"key": "streaming", "operator": "Exists", "effect": "NoExecute"}]}, "taints of its template only"),
    ("a RuntimeClass", {"spec.runtimeClassName": "unlisted"}, "the RuntimeClass of its template"),
    ("the account of the driver", {"spec.serviceAccountName": "delays-driver"}, "no account but that of its template"),
    ("no template", {"metadata.annotations": None}, "no account but that of its template"),
]  # fmt: skip


def build_executor(name: str = "delays-exec-1", uid: str = "1", template: Body = TEMPLATE) -> Body:
    """Return an executor of the driver with that uid, as Spark completes the template."""
    pod = copy.deepcopy(template)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "delays-driver-1", "uid": uid, "controller": True}
    pod["metadata"] |= {"name": name, "ownerReferences": [owner]}
    pod["metadata"]["labels"] |= {"spark-role": "executor"}
    (container,) = pod["spec"]["containers"]
    own = [each for each in container["env"] if "valueFrom" in each]
    container |= {
        "image": "kappa/pipelines:dev",
        "env": [*own, {"name": "SPARK_USER", "value": "kappa"}],
    }
    pod["spec"]["volumes"].append({"name": "spark-local-dir-1", "emptyDir": {}})
    return pod


def change(pod: Body, path: str, value: Any) -> Body:
    """Return the pod with a field set, or an item added to a list; None takes the field away."""
    *parents, last = path.split(".")
    place: Any = pod
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
    if value is None:
        del place[last]
    elif isinstance(place, list):
        place.append(value)
    else:
        place[last] = value
    return pod


class Driver:
    """What the holder of a driver's token can do."""

    def __init__(self, bench: Bench, kubeconfig: Path) -> None:
        self._bench, self._flags = bench, (f"--kubeconfig={kubeconfig}", "-n", bench.namespace)
        self._kubeconfig = kubeconfig

    def run(self, *words: str) -> str:
        """Run kubectl with the token; raise LabError."""
        return kubectl(*words, *self._flags)

    def create(self, pod: Body, *, dry_run: bool = False) -> None:
        """Create a pod; raise LabError."""
        query = [("dryRun", "All")] if dry_run else []
        path = f"/api/v1/namespaces/{self._bench.namespace}/pods"
        request("POST", path, pod, query=query, kubeconfig=self._kubeconfig)


@pytest.fixture
async def driver(bench: Bench, tmp_path: Path) -> AsyncIterator[Driver]:
    """Return a driver of the pipeline `delays` in the namespace of the bench, with the policy of the chart."""
    name = f"{bench.namespace}-drivers"
    async with apply_policy(bench, name):
        metadata = {"name": "delays-driver", "namespace": bench.namespace}
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata}
        await bench.cluster.create({**role, "rules": build_driver_rules([TEMPLATE, TEMPLATED])})
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        await bench.cluster.create({**account, "metadata": {**metadata, "name": "delays-executor"}})
        path = await asyncio.to_thread(build_kubeconfig, bench, tmp_path, "delays-driver", "delays-driver")
        driver = Driver(bench, path)
        await await_policy(driver)
        yield driver


@asynccontextmanager
async def apply_policy(bench: Bench, name: str) -> AsyncIterator[None]:
    """Have the policy and its binding, for this namespace only, and a RuntimeClass that no template has."""
    bodies = render()
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc"}
    (policy,) = find(bodies, "ValidatingAdmissionPolicy").values()
    (binding,) = find(bodies, "ValidatingAdmissionPolicyBinding").values()
    selector = {"matchLabels": {"kubernetes.io/metadata.name": bench.namespace}}
    binding["spec"] |= {"policyName": name, "matchResources": {"namespaceSelector": selector}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        items = [{**body, "metadata": {"name": name}} for body in (policy, binding)]
        items.append({**runtime, "metadata": {"name": "unlisted"}})
        json.dump({"apiVersion": "v1", "kind": "List", "items": items}, file)
        file.flush()
        await asyncio.to_thread(kubectl, "apply", "-f", file.name)
        try:
            yield
        finally:
            await asyncio.to_thread(kubectl, "delete", "-f", file.name)


async def await_policy(driver: Driver) -> None:
    """Wait until the API server evaluates the policy: that takes a second or two."""
    probe = change(build_executor("probe"), "spec.hostPID", True)
    for _ in range(60):
        try:
            await asyncio.to_thread(driver.create, probe, dry_run=True)
        except LabError as error:
            if "ValidatingAdmissionPolicy" in str(error):
                return
        await asyncio.sleep(0.5)
    raise AssertionError("the API server does not evaluate the policy")


async def test_only_executors_of_the_pipeline_can_be_created(driver: Driver) -> None:
    driver.create(build_executor())
    for what, changes, why in CHANGES:
        pod = build_executor("hostile")
        for path, value in changes.items():
            pod = change(pod, path, value)
        with pytest.raises(LabError) as refusal:
            driver.create(pod)
            pytest.fail(f"{what} was admitted")
        assert why in str(refusal.value), what


async def test_executors_have_what_their_template_gives_and_no_more(driver: Driver) -> None:
    pod = build_executor("templated", template=TEMPLATED)
    pod["spec"]["volumes"].append({"name": "identity", "projected": {"sources": [TOKEN]}})
    driver.create(pod)
    for what, changes, why in TEMPLATED_CHANGES:
        pod = build_executor("hostile", template=TEMPLATED)
        for path, value in changes.items():
            pod = change(pod, path, value)
        with pytest.raises(LabError) as refusal:
            driver.create(pod)
            pytest.fail(f"{what} was admitted")
        assert why in str(refusal.value), what


async def test_pods_of_others_can_be_neither_changed_nor_deleted(driver: Driver, bench: Bench) -> None:
    other = change(build_executor("other"), "metadata.labels", {PIPELINE_LABEL: "other", **DRIVER_ROLE})
    other["metadata"].pop("ownerReferences")
    await bench.cluster.create({**other, "metadata": {**other["metadata"], "namespace": bench.namespace}})
    ours = {"metadata": {"labels": {PIPELINE_LABEL: "delays", "kappa-platform.io/role": "executor"}}}
    for words, why in (
        (("delete", "pod", "other", "--wait=false"), "its own pipeline"),
        (("delete", "pods", "--all", "--wait=false"), "its own pipeline"),
        (("patch", "pod", "other", "-p", json.dumps(ours)), "forbidden"),
    ):
        with pytest.raises(LabError, match=why):
            driver.run(*words)
    assert await bench.cluster.get(ObjectRef("v1", "Pod", bench.namespace, "other")) is not None


async def test_executors_of_the_pipeline_can_be_deleted(driver: Driver, bench: Bench) -> None:
    """The driver exists: Kubernetes deletes executors without one."""
    pod = {
        **build_executor("delays-driver-1"),
        "metadata": {"name": "delays-driver-1", "namespace": bench.namespace},
    }
    created = await bench.cluster.create(pod)
    driver.create(build_executor(uid=created["metadata"]["uid"]))
    assert "deleted" in driver.run("delete", "pod", "delays-exec-1", "--wait=false")


async def test_secrets_cannot_be_read(driver: Driver) -> None:
    for words in (("get", "secret", "delays-rpc"), ("get", "secrets"), ("create", "token", "delays-driver")):
        with pytest.raises(LabError, match="forbidden"):
            driver.run(*words)
