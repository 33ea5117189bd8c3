"""What a tenant, the code of a pipeline and any other pod of the cluster try to get, each with exactly the permissions that it has.

Attacks with the token of a driver in all variants: `tests/integration/test_driver_policy.py`.
"""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import hostile
from e2e.counting import Guarded
from e2e.place import Place
from integration.accounts import has_role
from kappa_crds.reasons import Reason
from lab import kube
from lab.errors import LabError

pytestmark = pytest.mark.timeout(600)

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_AWAIT_PORT = "import socket, time; f = lambda n: n and (socket.socket().connect_ex(('{}', {})) and (time.sleep(0.5) or f(n - 1))); f(40)"
_UNPRIVILEGED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_TENANT = [
    {"apiGroups": ["kappa-platform.io"], "resources": ["*"], "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
]  # fmt: skip


@pytest.fixture(scope="module")
def outside(platform: None) -> Iterator[Place]:
    place = Place.create("outside")
    place.admit_egress()
    yield place
    place.empty()


def build_pod(name: str, *command: str, **labels: str) -> dict[str, Any]:
    """Return a restricted pod of the runtime's image."""
    container = {
        "name": "main", "image": "kappa/pipelines:dev", "imagePullPolicy": "IfNotPresent",
        "command": list(command), "securityContext": _UNPRIVILEGED,
    }  # fmt: skip
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {
        "restartPolicy": "Never", "automountServiceAccountToken": False, "activeDeadlineSeconds": 90,
        "securityContext": security, "containers": [container],
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def run_pod(place: Place, name: str, *command: str, **labels: str) -> str:
    """Run a program in a pod to its end; return its log."""
    place.apply(json.dumps(build_pod(name, *command, **labels)))
    for _ in range(200):
        (pod,) = place.find("pods", fields=f"metadata.name={name}")
        if pod["status"]["phase"] in ("Failed", "Succeeded"):
            return place.kubectl("logs", name, "--tail=-1")
        time.sleep(0.5)
    raise AssertionError(f"pod {name} does not end")


def find_address(place: Place) -> str:
    (driver, *_) = (
        pod
        for pod in place.find("pods")
        if pod["metadata"]["labels"].get("kappa-platform.io/role") == "driver"
    )
    return str(driver["status"]["podIP"])


def test_a_pod_with_the_labels_of_an_executor_cannot_register_as_one(guarded: Guarded) -> None:
    """The NetworkPolicy admits it, and it has not the secret."""
    address = find_address(guarded.place)
    program = (
        "java", "-cp", "/opt/spark/jars/*", _EXECUTOR, "--driver-url", f"spark://CoarseGrainedScheduler@{address}:7078",
        "--executor-id", "99", "--hostname", "imitation", "--cores", "1", "--app-id", "x", "--resourceProfileId", "0",
    )  # fmt: skip
    # The rules of a new pod take effect a moment after it has its address.
    script = f"{_AWAIT_PORT.format(address, 7078)}; import os; os.execvp('java', {list(program)!r})"
    labels = {"kappa-platform.io/pipeline": "counts", "kappa-platform.io/role": "executor"}
    log = run_pod(guarded.place, "imitation", "python3", "-c", script, **labels)
    assert "Successfully created connection" in log, "the port was reached"
    # What of the closed connection the other side notices first depends on the moment.
    refusals = (
        "Unknown challenge message",
        "ClosedChannelException",
        "Connection reset",
        "Broken pipe",
        f"{address}:7078 closed",
    )
    assert any(each in log for each in refusals), (
        f"and the driver closed what came without authentication: {log[-4000:]}"
    )
    assert "Successfully registered" not in log
    assert "spark.kubernetes" not in log, "no property of the pipeline was read"


def test_the_token_of_a_driver_creates_no_other_pod_and_reads_no_secret(guarded: Guarded) -> None:
    place = guarded.place
    token = place.kubectl("create", "token", "counts-driver").strip()
    as_driver = (
        f"--token={token}",
        "--server",
        read_server(),
        "--insecure-skip-tls-verify",
        "--kubeconfig=/dev/null",
    )
    pod = build_pod("hostile", "cat", "/secret/password")
    pod["spec"]["volumes"] = [{"name": "x", "secret": {"secretName": "kafka-user"}}]
    with pytest.raises(LabError, match=r"drivers\.kappa-platform\.io"):
        place.kubectl("create", "-f", "-", *as_driver, stdin=json.dumps(pod))
    with pytest.raises(LabError, match="only the executors of its own pipeline"):
        place.kubectl("delete", "pod", "--all", *as_driver)
    with pytest.raises(LabError, match="forbidden"):
        place.kubectl("get", "secret", "kafka-user", *as_driver)


def read_server() -> str:
    return str(json.loads(kube.kubectl("config", "view", "-o", "json"))["clusters"][0]["cluster"]["server"])


HDFS = """
apiVersion: kappa-platform.io/v1alpha1
kind: StateStore
metadata: {{name: redirected}}
spec: {{hdfs: {{namenode: "{namenode}", webUrl: "{web}", path: /state, user: kappa}}}}
"""


def find_operators() -> set[str]:
    """Return the addresses of the operator's pods."""
    pods = json.loads(
        kube.kubectl("get", "pods", "-A", "-l", "app.kubernetes.io/name=kappa-operator", "-o", "json")
    )
    found = {pod["status"]["podIP"] for pod in pods["items"]}
    assert found
    return found


def get_status(url: str, token: str | None = None) -> int:
    """Return the status of an answer; the certificate is not verified."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    trust_all = ssl.create_default_context()
    trust_all.check_hostname, trust_all.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http and https
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust_all) as answer:  # noqa: S310 - http and https
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_metrics_and_report_need_an_account_with_permission(outside: Place) -> None:
    """The attacker is at the node, which NetworkPolicies do not hold back, and has an account of the cluster."""
    outside.kubectl("create", "serviceaccount", "curious")
    token = outside.kubectl("create", "token", "curious").strip()
    for address in find_operators():
        for path in ("/metrics", "/report"):
            assert get_status(f"https://{address}:8444{path}") == 401
            assert get_status(f"https://{address}:8444{path}", "forged") == 401
            assert get_status(f"https://{address}:8444{path}", token) == 403
            assert get_status(f"http://{address}:8080{path}") == 404


def await_check(place: Place, store: str) -> str:
    """Wait until a check of the store failed; return all that a tenant can read of it."""
    place.await_reason("StateStore", store, Reason.STORE_CHECK_FAILED, 120)
    return place.kubectl("get", "statestores,pods,events", "-o", "yaml")


def test_a_hostile_namenode_redirects_no_one_and_its_words_stay_out_of_the_cluster(outside: Place) -> None:
    with (
        hostile.record() as victim,
        hostile.record(redirect=f"{victim.url}/api/v1/secrets?op=CREATE") as namenode,
    ):
        outside.apply(HDFS.format(namenode=namenode.url.removeprefix("http://"), web=namenode.url))
        read = await_check(outside, "redirected")
        outside.kubectl("delete", "statestores/redirected", "--timeout=60s")
    assert namenode.received
    assert namenode.clients.isdisjoint(find_operators()), "a pod of the team connects, not the operator"
    assert victim.received == []
    assert hostile.BODY not in read


def test_a_tenant_takes_over_neither_accounts_nor_volumes_of_others(outside: Place) -> None:
    """The tenant has `edit` on Kappa's resources and nothing else, by impersonation."""
    metadata = {"name": "tenant", "namespace": outside.name}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata,
        "rules": _TENANT,
    }
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "payroll-state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    for body in (role, claim):
        outside.apply(json.dumps(body))
    for account in ("tenant", "ci-driver"):
        outside.kubectl("create", "serviceaccount", account)
    outside.kubectl(
        "create", "rolebinding", "tenant", "--role=tenant", f"--serviceaccount={outside.name}:tenant"
    )
    outside.wait(lambda: has_role(outside.name, "tenant", "tenant"), "the tenant has its permissions", 60)
    tenant = f"--as=system:serviceaccount:{outside.name}:tenant"
    outside.kubectl("apply", tenant, "-f", "-", stdin=outside.render("hostile_tenant.yaml"))
    outside.await_reason("StateStore", "payroll", Reason.NAME_TAKEN)
    outside.await_reason("Pipeline", "plugin", Reason.NOT_ALLOWED, 90)
    outside.await_reason("Pipeline", "ci", Reason.NAME_TAKEN, 90)
    kept = json.loads(outside.kubectl("get", "serviceaccount", "ci-driver", "-o", "json"))
    assert "ownerReferences" not in kept["metadata"]
    outside.kubectl("delete", tenant, "statestores/payroll", "--timeout=60s")
    kept = json.loads(outside.kubectl("get", "pvc", "payroll-state", "-o", "json"))
    assert "deletionTimestamp" not in kept["metadata"]
    assert not outside.drivers()


@pytest.mark.chaos  # starts a driver; `make test` has it in tests/spark/test_errors.py and tests/laptop/test_sandbox.py
def test_a_driver_refuses_sql_that_reads_files(outside: Place) -> None:
    outside.apply(outside.render("hostile_tenant.yaml"))
    outside.apply(outside.render("hostile_sql.yaml"))
    refused = outside.await_reason("Pipeline", "files", Reason.SQL_REFUSED, 180)
    assert "view 'lines', line 1, column 24" in refused.message
