"""What StateStores hold: counted by a pod when that is due, told in the status and to Prometheus."""

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import effort
from fakes.context import Operator, build_resource, build_secret
from fakes.fuse import Killed
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import (
    REQUEST_ANNOTATION,
    Removal,
    SavepointTask,
    StoreCheck,
    WorkRequest,
    WorkResult,
)
from kappa_crds.stores import StoreContents
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.statestore.pods import ROLES
from kappa_operator.telemetry.resource_metrics import STORE_METRICS, ResourceCollector

COLLECTOR_ROLE, MEASURER_ROLE = ROLES[SavepointTask.COLLECT], ROLES[SavepointTask.MEASURE]
CHECKED = WorkResult(checked=StoreCheck(free_bytes=1024))
STORE = Key("StateStore", "shop", "main")
HOLDS = StoreContents(
    checkpoints=2, checkpoint_bytes=4096, savepoints=3, savepoint_objects=40, savepoint_bytes=2048,
    oldest_savepoint=datetime(2026, 1, 1, tzinfo=UTC), newest_savepoint=datetime(2026, 1, 3, tzinfo=UTC),
)  # fmt: skip
FOUND = WorkResult(contents=HOLDS)
FAILED = WorkResult(failure=DriverExit(reason=Reason.CHECKPOINT_UNAVAILABLE, message="the bucket is away"))
SAID = "2 checkpoints, 4 KiB; 3 savepoints, 2 KiB"


async def start(**spec: Any) -> Operator:
    """A store on a claim that was found to work, and is measured each hour."""
    operator = Operator(KIND_TABLE)
    given = {"pvc": {"size": "1Gi"}, "measureInterval": "1h", "checkInterval": "1d", **spec}
    operator.cluster.put(build_resource("StateStore", "main", **given))
    operator = await operator.settle(STORE)
    (probe,) = operator.cluster.find("v1", "Pod", "shop")
    end(operator, ObjectRef.of(probe), CHECKED.model_dump_json(by_alias=True))
    return await operator.settle(STORE)


def end(operator: Operator, ref: ObjectRef, message: str) -> None:
    state = {"terminated": {"exitCode": 0, "message": message}}
    operator.cluster.patch(ref, status={"phase": "Succeeded", "containerStatuses": [{"state": state}]})


def find_pods(operator: Operator, role: dict[str, str] = MEASURER_ROLE) -> list[dict[str, Any]]:
    return operator.cluster.find("v1", "Pod", labels=role)


async def finish(operator: Operator, result: WorkResult = FOUND) -> Operator:
    (pod,) = find_pods(operator)
    end(operator, ObjectRef.of(pod), result.model_dump_json(by_alias=True))
    return await operator.settle(STORE)


def read_status(operator: Operator) -> dict[str, Any]:
    found: dict[str, Any] = (operator.get(STORE) or {})["status"].get("measurement") or {}
    return found


async def test_a_pod_that_can_only_read_counts_what_there_is() -> None:
    operator = await start()
    (pod,) = find_pods(operator)
    request = WorkRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
    assert (request.task, request.namespace) == (SavepointTask.MEASURE, "shop")
    assert request.location == "file:///var/lib/kappa/state"
    mounts = {each["name"]: each for each in pod["spec"]["containers"][0]["volumeMounts"]}
    assert mounts["state"]["readOnly"] is True
    operator = await finish(operator)
    status = read_status(operator)
    assert (status["state"], status["message"], status["contents"]) == ("Done", SAID, HOLDS.to_manifest())
    assert find_pods(operator) == []
    assert operator.get_condition(STORE)[0] == "True", "the store is ready all the while"


async def test_a_store_is_measured_soon_after_it_was_found_to_work_not_at_its_next_check() -> None:
    operator = Operator(KIND_TABLE)
    spec: dict[str, Any] = {
        "s3": {"bucket": "state", "credentialsSecretRef": {"name": "keys"}},
        "measureInterval": "1h",
    }
    operator.cluster.put(build_resource("StateStore", "main", **spec))
    operator.cluster.put(build_secret("keys", accessKeyId="a", secretAccessKey="b"))
    operator = await operator.settle(STORE)
    (pod,) = operator.cluster.find("v1", "Pod", "shop")
    end(operator, ObjectRef.of(pod), CHECKED.model_dump_json(by_alias=True))
    outcome = await operator.reconcile(STORE)
    assert operator.get_condition(STORE)[0] == "True"
    assert read_status(operator) == {}
    assert outcome.requeue_after == 1.0


async def test_nothing_is_measured_unless_requested() -> None:
    operator = await start(measureInterval=None)
    assert (find_pods(operator), read_status(operator)) == ([], {})


async def test_it_is_done_again_when_that_is_due_and_not_before() -> None:
    operator = await finish(await start())
    outcome = await operator.reconcile(STORE)
    assert outcome.requeue_after == 3600
    operator.clock.advance(3599)
    operator = await operator.settle(STORE)
    assert find_pods(operator) == []
    operator.clock.advance(1)
    operator = await operator.settle(STORE)
    assert [pod["metadata"]["name"] for pod in find_pods(operator)] == ["main-measure-2"]
    assert read_status(operator)["contents"] == HOLDS.to_manifest(), (
        "what was found before is known meanwhile"
    )


async def test_a_failed_measurement_is_reported_and_the_previous_one_stays() -> None:
    operator = await finish(await start())
    operator.clock.advance(3600)
    operator = await finish(await operator.settle(STORE), FAILED)
    status = read_status(operator)
    assert (status["state"], status["message"]) == ("Done", "the bucket is away")
    assert status["contents"] == HOLDS.to_manifest()


async def test_a_pod_that_cannot_be_created_is_reported() -> None:
    operator = await finish(await start())
    operator.clock.advance(3600)
    operator.cluster.refusals.append(
        lambda _, after: "exceeded quota" if "measure" in after["metadata"]["name"] else None
    )
    operator = await operator.settle(STORE)
    assert read_status(operator)["message"] == "the pod cannot be created: exceeded quota"


async def test_a_collection_comes_first_and_there_is_one_pod_at_a_time() -> None:
    operator = await start(collection={"request": "1"})
    assert (len(find_pods(operator, COLLECTOR_ROLE)), find_pods(operator)) == (1, [])
    (pod,) = find_pods(operator, COLLECTOR_ROLE)
    end(operator, ObjectRef.of(pod), WorkResult(removed=Removal()).model_dump_json(by_alias=True))
    operator = await operator.settle(STORE)
    assert (find_pods(operator, COLLECTOR_ROLE), len(find_pods(operator))) == ([], 1)


async def test_dying_after_any_write_changes_nothing_about_the_end() -> None:
    async def live(die_after: int | None) -> tuple[dict[str, Any], int]:
        operator = await start(measureInterval=None)
        before = operator.cluster.fuse.writes
        spec: dict[str, Any] = {"pvc": {"size": "1Gi"}, "measureInterval": "1h", "checkInterval": "1d"}
        operator.cluster.put(build_resource("StateStore", "main", **spec))
        operator.cluster.fuse.die_after(die_after)
        for _ in range(20):
            try:
                await operator.reconcile(STORE)
            except Killed:
                operator = operator.restart()
            for pod in find_pods(operator):
                end(operator, ObjectRef.of(pod), FOUND.model_dump_json(by_alias=True))
        assert find_pods(operator) == []
        return read_status(operator), operator.cluster.fuse.writes - before

    wanted, writes = await live(None)
    assert (wanted["state"], wanted["number"], writes > 3) == ("Done", 1, True)
    for number in effort.deaths(writes):
        assert (await live(number))[0] == wanted, f"died after write {number} of {writes}"


def read_metrics(operator: Operator) -> dict[str, list[tuple[dict[str, str], float]]]:
    """What Prometheus gets, read as it reads it."""
    registry = CollectorRegistry()
    registry.register(ResourceCollector(operator.cache, lambda: True))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    found = {family.name: [(each.labels, each.value) for each in family.samples] for family in families}
    return {name: samples for name, samples in found.items() if name.startswith("kappa_statestore_")}


async def test_prometheus_gets_what_is_known_of_each_store_and_nothing_of_one_that_is_gone() -> None:
    operator = await finish(await start())
    operator.cluster.put(build_resource("StateStore", "new", s3={"bucket": "new"}))
    found = read_metrics(operator)
    assert set(found) == {metric.name for metric in STORE_METRICS}
    main, new = ({"namespace": "shop", "statestore": name} for name in ("main", "new"))
    assert found["kappa_statestore_ready"] == [(main, 1.0), (new, 0.0)]
    values = {name: samples for name, samples in found.items() if name != "kappa_statestore_ready"}
    assert {name: value for name, ((_, value),) in values.items()} == {
        "kappa_statestore_check_timestamp_seconds": operator.clock().timestamp(),
        "kappa_statestore_free_bytes": 1024.0,
        "kappa_statestore_measurement_timestamp_seconds": operator.clock().timestamp(),
        "kappa_statestore_measurement_partial": 0.0,
        "kappa_statestore_checkpoints": 2.0,
        "kappa_statestore_checkpoint_bytes": 4096.0,
        "kappa_statestore_savepoints": 3.0,
        "kappa_statestore_savepoint_objects": 40.0,
        "kappa_statestore_savepoint_bytes": 2048.0,
        "kappa_statestore_oldest_savepoint_timestamp_seconds": 1767225600.0,
        "kappa_statestore_newest_savepoint_timestamp_seconds": 1767398400.0,
    }
    for name in ("main", "new"):
        operator.cluster.remove(ObjectRef("kappa-platform.io/v1alpha1", "StateStore", "shop", name))
    assert set(map(len, read_metrics(operator).values())) == {0}


@pytest.mark.parametrize("metric", STORE_METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_by_the_conventions_of_prometheus(metric: Any) -> None:
    assert metric.name.startswith("kappa_statestore_")
    assert not metric.name.endswith(("_total", "_count", "_sum")), "it is a gauge"
    says_bytes, says_time = "Bytes" in metric.help, "Unix time" in metric.help
    assert metric.name.endswith("_bytes") == says_bytes
    assert metric.name.endswith("_timestamp_seconds") == says_time
