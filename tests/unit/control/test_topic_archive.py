"""The archive of a Topic: a pod for each run, one at a time, whose answer is recorded, and the retention that is held while it is behind."""

from typing import Any

import effort
from fakes.cluster import Body
from fakes.context import Operator, build_resource, build_secret
from fakes.fuse import Killed
from kappa_crds import API_VERSION
from kappa_crds.archive_work import ArchiveRequest, ArchiveResult
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import REQUEST_ANNOTATION
from kappa_operator.archive.objects import ROLE, shorten_name
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE

CLUSTER, STORE = Key("KafkaCluster", "shop", "main"), Key("StateStore", "shop", "main")
TOPIC = Key("Topic", "shop", "orders")
REF = ObjectRef(API_VERSION, *TOPIC)
HOUR, DAY = 3600.0, 86_400.0
SPEC: dict[str, Any] = {
    "partitions": 2,
    "retention": {"time": "1d"},
    "archive": {"stateStoreRef": "main", "interval": "1h"},
}
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "StoreVerified",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
WHOLE = ArchiveResult(ranges=((0, 10), (0, 12)), is_complete=True, segments=2, size_bytes=4096)
FAILED = ArchiveResult(failure=DriverExit(reason=Reason.BROKER_UNREACHABLE, message="no broker"))


async def start(store: dict[str, Any] | None = None, **spec: Any) -> Operator:
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    operator.cluster.put(build_resource("StateStore", "main", **(store or {"pvc": {"claimName": "state"}})))
    operator.cluster.patch(ObjectRef(API_VERSION, *STORE), status={"conditions": [READY]})
    operator.cluster.put(build_resource("Topic", "orders", **{**SPEC, **spec}))
    return await operator.settle(CLUSTER, TOPIC)


def find_pods(operator: Operator) -> list[Body]:
    return operator.cluster.find("v1", "Pod", "shop", labels=ROLE)


def end(operator: Operator, result: ArchiveResult) -> None:
    """Do what the kubelet does when the pod of a run ends."""
    (pod,) = find_pods(operator)
    ended = {"exitCode": int(result.failure is not None), "message": result.model_dump_json(by_alias=True)}
    status = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": ended}}]}
    operator.cluster.patch(ObjectRef.of(pod), status=status)


async def finish(operator: Operator, result: ArchiveResult = WHOLE) -> Operator:
    end(operator, result)
    return await operator.settle(TOPIC)


async def advance(operator: Operator, seconds: float) -> Operator:
    operator.clock.advance(seconds)
    return await operator.settle(TOPIC)


def read_archive(operator: Operator) -> dict[str, Any]:
    body = operator.get(TOPIC)
    assert body is not None
    found: dict[str, Any] = body["status"]["archive"]
    return found


def read_retention(operator: Operator) -> float:
    return int(operator.brokers["kafka:9092"].topics["orders"].configs["retention.ms"]) / 1000 / DAY


async def test_a_pod_archives_the_topic_and_what_it_did_is_in_the_status() -> None:
    operator = await start()
    (pod,) = find_pods(operator)
    assert pod["metadata"]["name"] == "orders-archive-1"
    request = ArchiveRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
    assert (request.topic, request.kafka.bootstrap_servers) == ("orders", ("kafka:9092",))
    assert request.location == "file:///var/lib/kappa/state/_kappa/archive/shop"
    assert operator.get_condition(TOPIC, "Archived")[:2] == ("Unknown", "Archiving")
    operator = await finish(operator)
    assert find_pods(operator) == []
    found = read_archive(operator)
    assert found["partitions"] == [
        {"partition": 0, "first": 0, "end": 10}, {"partition": 1, "first": 0, "end": 12},
    ]  # fmt: skip
    assert (found["state"], found["complete"], found["sizeBytes"]) == ("Done", found["at"], 4096)
    status, reason, message = operator.get_condition(TOPIC, "Archived")
    assert (status, reason) == ("True", "Archived")
    assert "22 offsets of 2 partitions" in message
    assert operator.get_condition(TOPIC)[0] == "True"


async def test_the_next_run_is_due_after_the_interval_and_not_before() -> None:
    operator = await finish(await start())
    operator = await advance(operator, HOUR - 30)
    assert find_pods(operator) == []
    operator = await advance(operator, 30)
    assert [pod["metadata"]["name"] for pod in find_pods(operator)] == ["orders-archive-2"]
    assert len(read_archive(operator)["partitions"]) == 2, "what is known stays meanwhile"


async def test_a_run_that_left_something_is_soon_followed_by_the_next() -> None:
    operator = await finish(await start(), WHOLE.replace(is_complete=False, behind=7))
    assert read_archive(operator)["behind"] == 7
    operator = await advance(operator, 60)
    assert len(find_pods(operator)) == 1


async def test_a_run_that_failed_is_reported_and_retried() -> None:
    operator = await finish(await start(), FAILED)
    assert operator.get_condition(TOPIC, "Archived") == ("False", "ArchiveFailed", "no broker")
    assert operator.list_events("ArchiveFailed") == ["the archive: no broker"]
    operator = await advance(operator, 30)
    operator = await finish(operator, FAILED)
    assert len(operator.list_events("ArchiveFailed")) == 1, "the same cause is no news"
    assert read_archive(operator)["failures"] == 2
    operator = await finish(await advance(operator, 60))
    assert operator.get_condition(TOPIC, "Archived")[0] == "True"


async def test_lost_records_are_an_event_and_stay_in_the_status() -> None:
    lost = "partition 0: offsets 10 to 12"
    operator = await finish(await start(), WHOLE.replace(lost=lost))
    (event,) = operator.list_events("ArchiveIncomplete")
    assert lost in event
    operator = await finish(await advance(operator, HOUR))
    assert read_archive(operator)["lost"] == lost


async def test_retention_is_held_until_the_first_run_is_complete_and_while_runs_fail() -> None:
    operator = await start()
    assert read_retention(operator) == 2
    operator = await finish(operator)
    assert read_retention(operator) == 1
    for hours, days in ((11, 1), (2, 2), (12, 4)):
        operator.clock.advance(hours * HOUR)
        for _ in range(3):  # a run is due, fails, and the next one waits
            operator = await operator.settle(TOPIC)
            if find_pods(operator):
                operator = await finish(operator, FAILED)
        assert read_retention(operator) == days, f"after {hours} more hours"
    status, reason, message = operator.get_condition(TOPIC, "Archived")
    assert (status, reason) == ("False", "ArchiveBehind")
    assert "the retention is 1d; it is held meanwhile: no broker" in message
    operator = await advance(operator, 600)
    operator = await finish(operator)
    assert read_retention(operator) == 1
    assert operator.list_events("DriftRepaired") == []


async def test_a_topic_that_was_created_again_has_an_archive_of_its_own() -> None:
    operator = await finish(await start())
    before = read_archive(operator)
    del operator.brokers["kafka:9092"].topics["orders"]
    operator = await operator.settle(TOPIC)
    assert read_archive(operator)["topicId"] != before["topicId"]
    assert read_archive(operator)["number"] == 2
    assert read_archive(operator)["partitions"] == []


async def test_an_archive_that_is_not_declared_any_more_has_no_pod_and_no_condition() -> None:
    operator = await start()
    operator.cluster.put(build_resource("Topic", "orders", partitions=2, retention={"time": "1d"}))
    operator = await operator.settle(TOPIC)
    assert find_pods(operator) == []
    body = operator.get(TOPIC)
    assert body is not None
    assert "Archived" not in [each["type"] for each in body["status"]["conditions"]]
    assert read_retention(operator) == 1


async def test_a_store_that_is_not_ready_is_reported_and_waited_for() -> None:
    operator = await start()
    operator = await finish(operator)
    operator.cluster.patch(
        ObjectRef(API_VERSION, *STORE), status={"conditions": [{**READY, "status": "False"}]}
    )
    operator = await advance(operator, HOUR)
    assert find_pods(operator) == []
    assert operator.get_condition(TOPIC, "Archived")[:2] == ("False", "StateStoreNotReady")
    assert operator.get_condition(TOPIC)[0] == "True", "the topic itself is as its spec declares"


async def test_a_pod_that_cannot_be_created_is_reported() -> None:
    operator = await finish(await start())
    operator.cluster.refusals.append(
        lambda _, after: "exceeded quota" if "archive" in after["metadata"]["name"] else None
    )
    operator = await advance(operator, HOUR)
    assert read_archive(operator)["message"] == "the pod cannot be created: exceeded quota"


async def test_a_bucket_and_kafka_are_reached_with_their_own_secrets_and_nothing_else_is() -> None:
    s3 = {"bucket": "state", "endpoint": "http://s3:7070", "credentialsSecretRef": {"name": "keys"}}
    operator = await start({"s3": s3})
    assert operator.get_condition(TOPIC, "Archived")[:2] == ("False", "SecretNotFound")
    operator.cluster.put(build_secret("keys", accessKeyId="id", secretAccessKey="word"))
    operator = await advance(operator, 60)
    (pod,) = find_pods(operator)
    (container,) = pod["spec"]["containers"]
    assert {each["valueFrom"]["secretKeyRef"]["name"] for each in container["env"]} == {"keys"}
    assert "word" not in str(pod)
    assert pod["spec"]["automountServiceAccountToken"] is False


async def test_a_store_with_an_archive_is_not_deleted() -> None:
    operator = await finish(await start({"pvc": {"size": "1Gi"}, "deletionPolicy": "Delete"}))
    await operator.settle(STORE)
    operator.cluster.remove(ObjectRef(API_VERSION, *STORE))
    operator = await operator.settle(STORE)
    assert "holds the archive of Topic orders" in operator.get_condition(STORE)[2]


def test_a_long_name_of_a_topic_fits_into_labels() -> None:
    name = "a." * 120 + "b"
    assert shorten_name("orders") == "orders"
    assert len(shorten_name(name)) <= 50
    assert shorten_name(name) != shorten_name("a." * 120 + "c")


async def test_dying_after_any_write_changes_nothing_about_the_end() -> None:
    async def live(die_after: int | None) -> tuple[dict[str, Any], list[str], int]:
        operator = await finish(await start())
        before = operator.cluster.fuse.writes
        operator.clock.advance(HOUR)
        operator.cluster.fuse.die_after(die_after)
        names: list[str] = []
        for _ in range(20):
            try:
                await operator.reconcile(TOPIC)
            except Killed:
                operator = operator.restart()
            pods = find_pods(operator)
            assert len(pods) <= 1
            names += [pod["metadata"]["name"] for pod in pods]
            if pods:
                end(operator, WHOLE.replace(ranges=((0, 20), (0, 22))))
        assert find_pods(operator) == []
        return read_archive(operator), sorted(set(names)), operator.cluster.fuse.writes - before

    wanted, names, writes = await live(None)
    assert (wanted["state"], wanted["number"], names) == ("Done", 2, ["orders-archive-2"])
    assert writes > 3
    for number in effort.deaths(writes):
        found, made, _ = await live(number)
        assert (found, made) == (wanted, names), f"died after write {number} of {writes}"
