"""What pipelines and topics notice of their operator's failures: little."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.counting import Counting
from e2e.faults import lose_pod
from e2e.lanes import Lane
from e2e.place import Place
from kappa_crds.pipeline_status import PipelineState
from lab import api
from lab.kube import kubectl
from platform_switch import NAMESPACE, stopped_operator

pytestmark = pytest.mark.timeout(900)

_TAKEOVER_SECONDS = 15.0
_SURROUNDINGS = """
apiVersion: kappa-platform.io/v1alpha1
kind: KafkaCluster
metadata: {name: main}
spec: {bootstrapServers: ["kafka.kafka.svc:9092"]}
"""


@pytest.fixture(scope="module")
def served(platform: None) -> Iterator[Place]:
    place = Place.create("served")
    place.apply(_SURROUNDINGS)
    place.await_ready("kafkacluster/main", 60)
    yield place
    place.empty()


def read_lease() -> dict[str, Any]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kappa-operator"
    spec: dict[str, Any] = api.request("GET", path)["spec"]
    return spec


def build_topic(place: Place, name: str) -> str:
    return f"""
apiVersion: kappa-platform.io/v1alpha1
kind: Topic
metadata: {{name: {name}}}
spec: {{topicName: {place.name}-{name}, deletionPolicy: Delete}}
"""


@pytest.fixture
def alone(lane: Lane) -> Iterator[None]:
    with lane.alone():
        yield


@pytest.mark.usefixtures("alone")
def test_when_the_leader_is_killed_the_standby_acts_within_15_seconds(
    served: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = read_lease()["holderIdentity"]
    killed = datetime.now(UTC)
    lose_pod(leader, NAMESPACE)
    served.apply(build_topic(served, "after"))

    def has_new_leader() -> bool:
        return read_lease()["holderIdentity"] not in ("", leader)

    served.wait(has_new_leader, "another replica holds the lease", 60)
    lease = read_lease()
    served.await_ready("topics.kappa-platform.io/after", 60)
    acted = (datetime.now(UTC) - killed).total_seconds()
    took = (datetime.fromisoformat(lease["acquireTime"]) - killed).total_seconds()
    with capsys.disabled():
        print(
            f"\n  the lease changed hands {took:.1f} s after the kill, the first topic was there after {acted:.1f} s"
        )
    assert took <= _TAKEOVER_SECONDS
    kubectl(
        *("rollout", "status", "deployment/kappa-operator", "-n", NAMESPACE, "--timeout=120s"), timeout=130
    )


@pytest.mark.chaos
def test_without_an_operator_a_pipeline_continues_and_a_change_waits(
    counting: Counting, served: Place
) -> None:
    counting.check()
    before = counting.place.pipeline()
    with stopped_operator():
        served.apply(build_topic(served, "meanwhile"))
        written = counting.ledger.total
        counting.place.wait(lambda: counting.ledger.total > written + 1000, "records come in", 30)
        counting.check()
        assert served.ready("Topic", "meanwhile").status == "Unknown"
    served.await_ready("topics.kappa-platform.io/meanwhile", 60)
    wanted = (before.records or 0) + counting.ledger.total - written  # a driver counts from its own start
    after = counting.place.await_pipeline(
        lambda status: (status.records or 0) >= wanted, "is looked after again", 60
    )
    assert (after.state, after.active.generation) == (PipelineState.RUNNING, before.active.generation)
    assert after.active.driver_uid == before.active.driver_uid
    counting.drivers.check()
