"""StateStores of the tests, and what the kubelet does with the pods that check them."""

from typing import Any

from fakes.context import Operator, build_resource, build_secret
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import StoreCheck, WorkResult
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE

STORE = Key("StateStore", "shop", "main")
REF = ObjectRef("kappa-platform.io/v1alpha1", *STORE)
CLAIM = ObjectRef("v1", "PersistentVolumeClaim", "shop", "main-state")
GOOD = WorkResult(checked=StoreCheck(free_bytes=2**30))


def start(**spec: Any) -> Operator:
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("StateStore", "main", **(spec or {"pvc": {"size": "1Gi"}})))
    return operator


def find_probe(operator: Operator) -> ObjectRef:
    (pod,) = operator.cluster.find("v1", "Pod", "shop")
    return ObjectRef.of(pod)


def fail(reason: Reason, message: str) -> WorkResult:
    return WorkResult(failure=DriverExit(reason=reason, message=message))


def finish_probe(operator: Operator, result: WorkResult) -> None:
    """Do what the kubelet does when the pod of a check ends."""
    phase = "Succeeded" if result.failure is None else "Failed"
    ended = {
        "exitCode": 0 if result.failure is None else 1,
        "message": result.model_dump_json(by_alias=True, exclude_none=True),
    }
    status = {"phase": phase, "containerStatuses": [{"state": {"terminated": ended}}]}
    operator.cluster.patch(find_probe(operator), status=status)


async def make_ready(operator: Operator) -> Operator:
    operator = await operator.settle(STORE)
    finish_probe(operator, GOOD)
    return await operator.settle(STORE)


BUCKET = {"s3": {"bucket": "state", "credentialsSecretRef": {"name": "keys"}, "endpoint": "http://s3:7070"}}


def put_keys(operator: Operator, word: str = "word") -> None:
    operator.cluster.put(build_secret("keys", accessKeyId="id", secretAccessKey=word))


async def start_bucket() -> Operator:
    operator = start(**BUCKET)
    put_keys(operator)
    return operator
