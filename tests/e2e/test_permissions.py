"""The permissions of the operator and of drivers are those that this session used, and they end at namespaces without a RoleBinding.

This file comes last: it goes by the audit log of all tests before.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

from e2e.audit import (
    COLLECTED,
    DRIVER_ROLE,
    INSTALLED,
    NAMESPACE_ROLE,
    Call,
    find_refused,
    find_undeclared,
    find_unused,
    read_calls,
)
from e2e.installation import is_ours, name_place
from e2e.lanes import Lane
from e2e.place import Place
from fakes.permissions import (
    Permission,
    read_endpoint_rules,
    read_lease_rules,
    read_namespace_rules,
    read_platform_rules,
)
from kappa_crds import GROUP
from kappa_crds.kinds import KINDS
from kappa_operator.pipeline.objects import build_driver_rules
from lab import audit, kube
from lab.errors import LabError
from lab.paths import REPOSITORY
from platform_switch import NAMESPACE

CERTIFICATE_ROLE, ENDPOINTS_ROLE = "kappa-operator-certificate", f"{NAMESPACE}.kappa-endpoints"
RULES = {
    "kappa-operator": read_platform_rules(),
    NAMESPACE_ROLE: read_namespace_rules(),
    "kappa-operator-lease": read_lease_rules(),
    "kappa-operator-certificate": read_endpoint_rules("Role"),
    "kappa-system.kappa-endpoints": read_endpoint_rules("ClusterRole"),
    CERTIFICATE_ROLE: read_endpoint_rules("Role"),
    ENDPOINTS_ROLE: read_endpoint_rules("ClusterRole"),
    DRIVER_ROLE: build_driver_rules(
        [{"metadata": {"labels": {}}, "spec": {"volumes": [], "containers": [{}]}}]
    ),
}
POLICY = "only the admission policy of drivers checks it: tests/integration/test_driver_policy.py"
CONFLICT = "an object is read again after a conflict, which is chance: tests/unit/control/test_controller.py"
CONVERSION = "objects of release 0.1 are written back, and finalizers: tests/unit/control/test_conversion.py"
RENEWAL = (
    "the certificate is created once and renewed after two months: tests/unit/control/test_certificates.py"
)
EXCEPTIONS = {
    (CERTIFICATE_ROLE, Permission("", "secrets", "update")): RENEWAL,
    (
        ENDPOINTS_ROLE,
        Permission("admissionregistration.k8s.io", "validatingwebhookconfigurations", "patch"),
    ): RENEWAL,
    **{
        (role, Permission(GROUP, resource, verb)): POLICY
        for role in (NAMESPACE_ROLE, DRIVER_ROLE)
        for resource, verb in (("executors", "create"), ("executormounts", "use"))
    },
    **{
        ("kappa-operator", Permission(GROUP, kind.plural, verb)): reason
        for kind in KINDS
        for verb, reason in (("get", CONFLICT), ("patch", CONVERSION))
    },
    (
        "kappa-operator-lease",
        Permission("coordination.k8s.io", "leases", "create"),
    ): "only the first operator of a cluster creates it: tests/unit/control/test_permissions.py",
    (
        NAMESPACE_ROLE,
        Permission("", "persistentvolumeclaims", "patch"),
    ): "a PVC grows only where its storage class permits it: tests/unit/control/test_statestore.py",
    (
        NAMESPACE_ROLE,
        Permission("", "secrets", "patch"),
    ): "certificates of drivers are renewed after two months: tests/unit/control/test_control_secret.py",
    (NAMESPACE_ROLE, Permission("events.k8s.io", "events", "list")): "read while a PVC is pending:"
    " tests/integration/test_reconcile_apiserver.py",
    (
        NAMESPACE_ROLE,
        Permission("", "persistentvolumeclaims", "delete"),
    ): "the StateStore of a user deletes its PVC: tests/unit/control/test_statestore.py",
    (
        NAMESPACE_ROLE,
        Permission("", "configmaps", "delete"),
    ): "revisions that no run needs any more are deleted: tests/unit/control/test_upgrade_plan.py",
    (
        NAMESPACE_ROLE,
        Permission("policy", "poddisruptionbudgets", "patch"),
    ): "a budget that a person changed is reverted: tests/unit/control/test_connect_workers.py",
    **{
        (
            NAMESPACE_ROLE,
            Permission(GROUP, "savepoints", verb),
        ): "scheduled savepoints, in the chaos tests of this folder:"
        " tests/unit/control/test_savepoint_policy.py"
        for verb in ("create", "delete")
    },
    **{
        (
            role,
            Permission(GROUP, resource, verb),
        ): "a change in mode Shadow, in the chaos tests of this folder: tests/e2e/test_reprocessing.py"
        for role, resource, verb in (
            (NAMESPACE_ROLE, "topics", "create"),
            (NAMESPACE_ROLE, "topics", "delete"),
            (NAMESPACE_ROLE, "reprocessings", "create"),
            ("kappa-operator", "reprocessings/status", "patch"),
        )
    },
    **{
        (
            NAMESPACE_ROLE,
            Permission("apps", "statefulsets", verb),
        ): "workers change and are no longer wanted, in the chaos tests of this folder: tests/e2e/test_connect.py"
        for verb in ("patch", "delete")
    },
    (
        NAMESPACE_ROLE,
        Permission("", "pods/log", "get"),
    ): "the topic of a large row is in the log of a worker, which is rare: tests/unit/control/test_cdcsource_limits.py",
    (
        DRIVER_ROLE,
        Permission("", "pods", "delete"),
    ): "Spark deletes an executor that failed, in the chaos tests of this"
    " folder: tests/integration/test_driver_policy.py",
}
"""Permissions that a run of the tests does not need to use: why the platform has them, and the test that uses them."""

KAFKA = {
    "apiVersion": f"{GROUP}/v1alpha1",
    "kind": "KafkaCluster",
    "metadata": {"name": "main"},
    "spec": {"bootstrapServers": ["127.0.0.1:1"]},
}


pytestmark = pytest.mark.timeout(1800)  # with the rest of the other lane


@pytest.fixture(scope="module")
def calls(platform: None, lane: Lane, request: pytest.FixtureRequest) -> set[Call]:
    """What the accounts called since the chart was installed, in all lanes."""
    lane.await_others()
    if not audit.list_files():
        pytest.skip("the API server is not the lab's own, and has no audit log")
    return read_calls(audit.list_files(), request.config.stash[INSTALLED])


def test_an_administrator_of_a_namespace_enables_it_with_the_command_that_the_condition_has(
    platform: None,
) -> None:
    place = Place(name_place("closed"))
    kube.apply([kube.namespace(place.name)])
    place.kubectl("create", "rolebinding", "ann", "--clusterrole=admin", "--user=ann")
    place.apply(json.dumps(KAFKA))
    message = place.await_reason("KafkaCluster", "main", "NamespaceNotEnabled").message
    program, *command = shlex.split(re.search(r"kubectl create rolebinding .*", message)[0])  # type: ignore[index]
    with pytest.raises(LabError, match="forbidden"):
        kube.kubectl(*command, "--as=bob")
    kube.kubectl(*command, "--as=ann")
    place.await_reason("KafkaCluster", "main", "BrokerUnreachable")
    assert program == "kubectl"


def test_no_request_of_the_operator_or_of_a_driver_was_refused(calls: set[Call]) -> None:
    assert calls
    assert find_refused(call for call in calls if is_ours(call.namespace)) == set()


def test_the_installed_roles_are_those_of_the_chart(calls: set[Call]) -> None:
    assert find_undeclared(RULES, calls) == set()


def test_every_permission_was_used(calls: set[Call], request: pytest.FixtureRequest) -> None:
    if not set(Path(__file__).parent.glob("test_*.py")) <= request.config.stash[COLLECTED]:
        pytest.skip("only a part of the tests runs")
    assert find_unused(RULES, calls) - EXCEPTIONS.keys() == set()


def test_each_exception_is_for_a_permission_that_is_granted_and_names_a_test_that_exists() -> None:
    assert EXCEPTIONS.keys() <= find_unused(RULES, ())
    for reason in EXCEPTIONS.values():
        assert (REPOSITORY / reason.rpartition(" ")[2]).is_file(), reason
