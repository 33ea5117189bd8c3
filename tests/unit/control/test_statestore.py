"""StateStores: the PVC is created, grown and never lost; a pod checks it."""

import json
from typing import Any

import pytest

from fakes.cluster import refuse_shrinking_claims
from fakes.context import Operator, build_resource
from fakes.fuse import Killed
from kappa_crds.reasons import Reason
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.references import find_dependents
from unit.control.stores import CLAIM, GOOD, REF, STORE, fail, find_probe, finish_probe, make_ready, start


async def test_the_pvc_is_created_and_checked_and_the_pod_is_deleted() -> None:
    operator = await start().settle(STORE)
    claim = operator.cluster.read(CLAIM) or {}
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert operator.get_condition(STORE)[:2] == ("False", "StoreProvisioning")
    finish_probe(operator, GOOD)
    await operator.settle(STORE)
    status = (operator.get(STORE) or {})["status"]
    assert operator.get_condition(STORE)[:2] == ("True", "StoreVerified")
    assert (status["claimName"], status["freeBytes"], status["check"]) == ("main-state", 2**30, 1)
    assert operator.cluster.find("v1", "Pod") == []


async def test_a_retained_pvc_has_no_owner_and_survives_its_store() -> None:
    operator = await make_ready(start())
    assert "ownerReferences" not in (operator.cluster.read(CLAIM) or {})["metadata"]
    operator.cluster.remove(REF)
    await operator.settle(STORE)
    assert operator.get(STORE) is None
    assert operator.cluster.read(CLAIM) is not None


async def test_the_probe_runs_by_the_restricted_standard() -> None:
    operator = await start().settle(STORE)
    pod = operator.cluster.read(find_probe(operator)) or {}
    security, container = pod["spec"]["securityContext"], pod["spec"]["containers"][0]
    assert (security["runAsNonRoot"], security["runAsUser"], security["fsGroup"]) == (True, 1000, 1000)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["metadata"]["ownerReferences"][0]["uid"] == (operator.get(STORE) or {})["metadata"]["uid"]


async def test_a_store_stays_ready_while_it_is_checked_again() -> None:
    operator = await make_ready(start())
    operator.clock.advance(301)
    await operator.settle(STORE)
    assert find_probe(operator).name == "main-check-2"
    assert operator.get_condition(STORE)[0] == "True"
    finish_probe(operator, fail(Reason.STORE_FULL, "no room"))
    await operator.settle(STORE)
    assert operator.get_condition(STORE) == ("False", "StoreFull", "no room")


async def test_no_check_is_made_before_it_is_due() -> None:
    operator = await make_ready(start())
    operator.clock.advance(200)
    outcome = await operator.reconcile(STORE)
    assert operator.cluster.find("v1", "Pod") == []
    assert outcome.requeue_after == 100


async def test_a_changed_spec_is_seen_at_once_and_not_only_at_the_next_check() -> None:
    operator = await make_ready(start())
    operator.cluster.patch(REF, spec={"checkInterval": "1h"})
    await operator.settle(STORE)
    body = operator.get(STORE) or {}
    seen = body["status"]["observedGeneration"], body["status"]["conditions"][0]["observedGeneration"]
    assert seen == (body["metadata"]["generation"],) * 2
    assert operator.get_condition(STORE)[:2] == ("True", "StoreVerified")
    assert operator.cluster.find("v1", "Pod", "shop") == [], "nothing in it needs another check"


async def test_a_store_that_failed_is_checked_again_soon() -> None:
    operator = await start().settle(STORE)
    finish_probe(operator, fail(Reason.STORE_CHECK_FAILED, "EACCES"))
    await operator.settle(STORE)
    operator.clock.advance(31)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "StoreCheckFailed", (
        "it stands while the next check is under way"
    )
    finish_probe(operator, GOOD)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[0] == "True"


async def test_a_pending_pvc_reports_the_message_of_the_provisioner() -> None:
    operator = await start().settle(STORE)
    operator.cluster.patch(CLAIM, status={"phase": "Pending"})
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "shop"},
        "regarding": {"kind": "PersistentVolumeClaim", "name": "main-state"},
        "reason": "ProvisioningFailed",
        "note": 'storageclass "fast" not found',
    }
    operator.cluster.put(event)
    operator.clock.advance(30)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "StoreProvisioning"
    assert 'ProvisioningFailed: storageclass "fast" not found' in operator.get_condition(STORE)[2]


async def test_a_check_that_never_ends_is_given_up() -> None:
    operator = await start().settle(STORE)
    operator.clock.advance(400)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "StoreCheckFailed"
    assert operator.cluster.find("v1", "Pod") == []


async def test_a_probe_goes_where_the_volume_is_mounted_already() -> None:
    operator = start()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver", "namespace": "shop"},
        "spec": {
            "nodeName": "node-7",
            "volumes": [{"name": "s", "persistentVolumeClaim": {"claimName": "main-state"}}],
        },
    }
    operator.cluster.put(pod)
    await operator.settle(STORE)
    probe = operator.cluster.read(ObjectRef("v1", "Pod", "shop", "main-check-1")) or {}
    assert "node-7" in json.dumps(probe["spec"]["affinity"])


async def test_growing_applies_and_shrinking_is_refused_in_the_api_servers_words() -> None:
    operator = await make_ready(start())
    operator.cluster.refusals.append(refuse_shrinking_claims)
    operator.cluster.put(build_resource("StateStore", "main", pvc={"size": "2Gi"}))
    await operator.settle(STORE)
    claim = operator.cluster.read(CLAIM) or {}
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    operator.cluster.put(build_resource("StateStore", "main", pvc={"size": "1Gi"}))
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[:2] == ("False", "StoreSizeRefused")
    assert "field can not be less than previous value" in operator.get_condition(STORE)[2]
    operator.cluster.put(build_resource("StateStore", "main", pvc={"size": "2Gi"}))
    operator.clock.advance(31)
    await make_ready(operator)
    assert operator.get_condition(STORE)[0] == "True"


async def test_a_missing_existing_pvc_is_named() -> None:
    operator = await start(pvc={"claimName": "theirs"}).settle(STORE)
    assert operator.get_condition(STORE)[:2] == ("False", "PvcNotFound")
    assert 'PVC "theirs" not found' in operator.get_condition(STORE)[2]


async def test_a_pvc_deleted_from_outside_is_created_again_and_the_loss_is_reported() -> None:
    operator = await make_ready(start())
    operator.cluster.remove(CLAIM)
    await operator.settle(STORE)
    assert operator.cluster.read(CLAIM) is not None
    assert any("with all state" in said for said in operator.list_events("PvcNotFound"))


async def test_delete_removes_the_pvc_but_not_while_a_pipeline_uses_it() -> None:
    operator = await make_ready(start(pvc={"size": "1Gi"}, deletionPolicy="Delete"))
    pipeline = build_resource("Pipeline", "delays", stateStoreRef="main")
    operator.cluster.put(pipeline)
    operator.cluster.remove(REF)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "InUse"
    assert "Pipeline delays" in operator.get_condition(STORE)[2]
    assert operator.cluster.read(CLAIM) is not None
    operator.cluster.remove(ObjectRef.of(pipeline))
    await operator.settle(STORE)
    assert operator.get(STORE) is None
    assert operator.cluster.read(CLAIM) is None


def put_savepoint(operator: Operator, name: str, spec: dict[str, Any], **status: Any) -> ObjectRef:
    body = build_resource("Savepoint", name, pipelineRef="delays", **spec)
    operator.cluster.put(body)
    operator.cluster.patch(ObjectRef.of(body), status=status)
    return ObjectRef.of(body)


async def test_delete_keeps_a_pvc_with_a_savepoint_or_a_copy() -> None:
    operator = await make_ready(start(pvc={"size": "1Gi"}, deletionPolicy="Delete"))
    there = put_savepoint(operator, "there", {}, claimName="main-state")
    copied = [{"storeRef": "main", "state": "Exported"}]
    exports = {"exports": [{"storeRef": "main"}]}
    copy = put_savepoint(operator, "copied", exports, claimName="other-state", exports=copied)
    put_savepoint(operator, "elsewhere", exports, claimName="other-state")
    operator.cluster.remove(REF)
    await operator.settle(STORE)
    assert operator.get_condition(STORE)[1] == "InUse"
    said = operator.get_condition(STORE)[2]
    assert said.startswith("PVC main-state holds the files of Savepoint copied, there; delete those first")
    operator.cluster.remove(there)
    assert STORE in find_dependents(operator.cache, Key("Savepoint", there.namespace, "there")), (
        "it is looked at again"
    )
    await operator.settle(STORE)
    assert "of Savepoint copied;" in operator.get_condition(STORE)[2]
    operator.cluster.put(build_resource("Savepoint", "copied", pipelineRef="delays"))
    await operator.settle(STORE)
    assert operator.get(STORE) is None, "a copy that is not asked for any more does not hold it"
    assert (operator.cluster.read(CLAIM), operator.cluster.read(copy) is None) == (None, False)


async def test_a_pvc_with_many_savepoints_names_some() -> None:
    operator = await make_ready(start(pvc={"size": "1Gi"}, deletionPolicy="Delete"))
    for number in range(1, 8):
        put_savepoint(operator, f"s{number}", {}, claimName="main-state")
    operator.cluster.remove(REF)
    await operator.settle(STORE)
    assert "Savepoint s1, s2, s3, s4, s5 and 2 more; delete" in operator.get_condition(STORE)[2]
    operator.cluster.remove(CLAIM)
    await operator.settle(STORE)
    assert operator.get(STORE) is None, "with the claim gone there is nothing to keep"


@pytest.mark.parametrize("pvc", [{"size": "1Gi"}, {"claimName": "theirs"}])
async def test_only_a_pvc_of_the_operator_blocks_the_deletion(pvc: dict[str, str]) -> None:
    operator = await start(pvc=pvc, deletionPolicy="Delete").settle(STORE)
    held = bool((operator.get(STORE) or {})["metadata"].get("finalizers"))
    assert held == ("size" in pvc)


async def test_a_crash_at_any_write_of_a_check_leaves_one_pvc_and_no_second_pod() -> None:
    for number in range(1, 6):
        operator = start()
        operator.cluster.fuse.die_after(number)
        try:
            await operator.reconcile(STORE)
        except Killed:
            operator = operator.restart()
        operator = await operator.settle(STORE)
        assert len(operator.cluster.find("v1", "PersistentVolumeClaim")) == 1
        operator = await make_ready(operator)
        assert operator.get_condition(STORE)[0] == "True"
        assert operator.cluster.find("v1", "Pod") == []
