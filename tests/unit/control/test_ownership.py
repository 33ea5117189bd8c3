"""Objects of others are neither changed, nor used, nor deleted, even under the names that the operator needs."""

from typing import Any

import pytest

from fakes.cluster import Body
from fakes.context import Operator, build_resource
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.ownership import require_own
from kappa_operator.errors import NameTaken
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.pipeline.objects import DRIVER_ROLE, PIPELINE_LABEL
from unit.control.lives import PIPELINE, REF, SPEC, Life

RBAC = "rbac.authorization.k8s.io/v1"
NEEDED = [
    ("v1", "ServiceAccount", "delays-driver"),
    (RBAC, "Role", "delays-driver"),
    (RBAC, "RoleBinding", "delays-driver"),
    ("v1", "Service", "delays-driver"),
    ("networking.k8s.io/v1", "NetworkPolicy", "delays-driver"),
    ("v1", "Secret", "delays-control"),
    ("v1", "Pod", "delays-driver-1"),
]


def build_foreign(api_version: str, kind: str, name: str, **metadata: Any) -> Body:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop", **metadata},
    }


async def start(*others: Body) -> Life:
    life = Life()
    for other in others:
        life.operator.cluster.put(other)
    await life.prepare()
    life.operator.cluster.put(build_resource("Pipeline", "delays", **SPEC))
    for _ in range(3):
        await life.operator.reconcile(PIPELINE)
    return life


@pytest.mark.parametrize(("api_version", "kind", "name"), NEEDED)
async def test_an_object_of_another_tool_stays_as_it_is(api_version: str, kind: str, name: str) -> None:
    foreign = build_foreign(api_version, kind, name, labels={"app": "ci"})
    life = await start(foreign)
    cluster = life.operator.cluster
    kept = cluster.read(ObjectRef.of(foreign)) or {}
    assert kept["metadata"]["labels"] == {"app": "ci"}
    assert "ownerReferences" not in kept["metadata"]
    status, reason, message = life.operator.get_condition(PIPELINE)
    assert (status, reason) == ("False", "NameTaken")
    assert f"{kind} {name}" in message
    assert kind == "Pod" or cluster.find("v1", "Pod") == []


async def test_it_continues_once_the_name_is_free() -> None:
    foreign = build_foreign("v1", "ServiceAccount", "delays-driver")
    life = await start(foreign)
    life.operator.cluster.remove(ObjectRef.of(foreign))
    await life.settle()
    assert life.operator.get_condition(PIPELINE)[0] == "True"


async def test_a_pod_that_only_has_the_labels_of_a_driver_is_not_touched() -> None:
    labels = {PIPELINE_LABEL: "delays", **DRIVER_ROLE}
    foreign = build_foreign("v1", "Pod", "imitation", labels=labels)
    life = await start(foreign)
    cluster = life.operator.cluster
    assert cluster.read(ObjectRef("v1", "Pod", "shop", "delays-driver-1")) is not None
    cluster.remove(REF)
    await life.operator.settle(PIPELINE)
    assert cluster.read(ObjectRef.of(foreign)) is not None


def build_owned(uid: str, **labels: str) -> Body:
    owner = {"kind": "Pipeline", "name": "delays", "uid": uid, "controller": True}
    return build_foreign("v1", "Service", "delays-driver", ownerReferences=[owner], labels=labels)


def test_the_uid_of_the_controller_decides() -> None:
    require_own(build_owned("1", other="label"), build_owned("1", **{PIPELINE_LABEL: "delays"}))
    with pytest.raises(NameTaken, match="Pipeline delays"):
        require_own(build_owned("2"), build_owned("1"))


def test_without_a_controller_our_labels_decide() -> None:
    wanted = build_foreign(
        "v1", "PersistentVolumeClaim", "state", labels={"kappa-platform.io/state-store": "main"}
    )
    require_own(wanted, wanted)
    with pytest.raises(NameTaken, match="no Kappa resource"):
        require_own(build_foreign("v1", "PersistentVolumeClaim", "state"), wanted)


PAYROLL = Key("StateStore", "shop", "payroll")


async def settle_store(**pvc: str) -> Operator:
    """A StateStore with `deletionPolicy: Delete` beside a PVC of another tool, whose name it would use."""
    operator = Operator(KIND_TABLE)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = build_foreign("v1", "PersistentVolumeClaim", "payroll-state")
    operator.cluster.put({**claim, "spec": spec, "status": {"phase": "Bound"}})
    operator.cluster.put(build_resource("StateStore", "payroll", pvc=pvc, deletionPolicy="Delete"))
    return await operator.settle(PAYROLL)


@pytest.mark.parametrize("size", ["1Gi", "2Gi"])
async def test_a_pvc_of_another_tool_is_neither_used_nor_grown_nor_deleted(size: str) -> None:
    operator = await settle_store(size=size)
    assert operator.get_condition(PAYROLL)[:2] == ("False", "NameTaken")
    assert operator.cluster.find("v1", "Pod") == []
    operator.cluster.remove(ObjectRef(API_VERSION, *PAYROLL))
    await operator.settle(PAYROLL)
    (claim,) = operator.cluster.find("v1", "PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert "labels" not in claim["metadata"]
    assert operator.get(PAYROLL) is None


async def test_a_pvc_that_the_spec_names_is_used_as_it_is() -> None:
    operator = await settle_store(claimName="payroll-state")
    (pod,) = operator.cluster.find("v1", "Pod")
    claims = [
        each["persistentVolumeClaim"] for each in pod["spec"]["volumes"] if "persistentVolumeClaim" in each
    ]
    assert claims == [{"claimName": "payroll-state"}]
