"""LagPolicies over groups of a Kafka of the tests' own: what contradicts, vanishes or is away is said as such, and what would be lost is kept."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from e2e.place import Place
from e2e.traffic import Reader, Traffic
from kappa_crds.conditions import find_condition
from kappa_crds.lagpolicy import CONSISTENT, LAG_HEALTHY
from kappa_crds.lagstate import LagState, Severity
from lab.broker import Broker
from lab.groups import read_committed
from lab.network import NODE_IP
from monitored.kubernetes import read_metrics

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]

RETENTION = 60
KAFKA = """
apiVersion: kappa-platform.io/v1alpha1
kind: KafkaCluster
metadata: {{name: own}}
spec: {{bootstrapServers: ["{bootstrap}"], checkInterval: 5s, lag: {{interval: 2s}}}}
"""
POLICY = """
apiVersion: kappa-platform.io/v1alpha1
kind: LagPolicy
metadata: {{name: {name}}}
spec:
  selector: {{groups: ["{group}"]}}
  {bounds}
  clearAfter: 5s
  unknownAfter: 15s
"""
HOLD = """
apiVersion: kappa-platform.io/v1alpha1
kind: Topic
metadata: {name: kept}
spec: {partitions: 1, retention: {time: 60s}, config: {segment.ms: "1000"}, deletionPolicy: Delete}
---
apiVersion: kappa-platform.io/v1alpha1
kind: LagPolicy
metadata: {name: keeper}
spec:
  selector: {groups: ["slow-reader"]}
  warning: {timeToLoss: 45s, for: 0s}
  clearAfter: 5s
  remediation: {holdRetention: {upTo: 10m, coolDown: 0s}}
"""


@dataclass(frozen=True)
class Groups:
    """A namespace with a KafkaCluster of its own."""

    place: Place
    broker: Broker

    @cached_property
    def admin(self) -> AdminClient:
        """A client of the broker, that lives as long as its calls."""
        return AdminClient({"bootstrap.servers": self.broker.bootstrap})

    def make(self, topic: str, **config: str) -> None:
        """Make a topic of one partition."""
        self.admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result()

    def apply_policy(self, name: str, group: str, bounds: str) -> None:
        """Make a policy of one group."""
        self.place.apply(POLICY.format(name=name, group=group, bounds=bounds))

    def find_bounds(self, topic: str) -> tuple[int, int]:
        """Return the first and the next offset of a topic's only partition."""
        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "bounds", "log_level": 0}
        )
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
            return low, high
        finally:
            consumer.close()

    def find_committed(self, group: str, topic: str) -> int:
        """Return the offset that a group has committed in a topic's only partition."""
        return read_committed(self.broker.bootstrap, group, topic, (0,)).get(0, -1)

    def find_retention(self, topic: str) -> int:
        """Return the retention of a topic in seconds, as Kafka has it."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self.admin.describe_configs([resource])[resource].result()
        return int(found["retention.ms"].value) // 1000


@pytest.fixture(scope="module")
def groups(platform: None) -> Iterator[Groups]:
    quick = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "100"}
    with Broker(address=NODE_IP, properties=quick) as broker:
        place = Place.create("groups")
        place.apply(KAFKA.format(bootstrap=broker.bootstrap))
        place.await_ready("kafkacluster/own", 60)
        yield Groups(place, broker)
        place.empty()


@pytest.fixture(autouse=True)
def no_policies(groups: Groups) -> Iterator[None]:
    yield
    groups.place.kubectl("delete", "lagpolicies", "--all", "--timeout=60s")


def say(place: Place, policy: str, kind: str) -> tuple[str, str, str]:
    """Return status, reason and message of a condition; an unknown one where there is none yet."""
    found = find_condition(place.policy(policy).conditions, kind)
    return ("Unknown", "", "") if found is None else (found.status, str(found.reason), found.message)


def read_operator(place: Place, folder: Path) -> str:
    """Return what the acting replica shows to Prometheus."""
    return next(text for text in read_metrics(place.name, folder) if "kappa_operator_leading 1.0" in text)


def test_policies_that_conflict_report_it_and_both_are_evaluated(groups: Groups) -> None:
    place = groups.place
    groups.make("orders")
    groups.apply_policy("mild", "shared", "warning: {lag: 10m}")
    groups.apply_policy("strict", "shared", "critical: {lag: 1m}")
    with (
        Traffic(groups.broker.bootstrap, "orders", 1, 50.0),
        Reader(groups.broker.bootstrap, "shared", "orders"),
    ):
        place.await_health("mild", "True")
        place.await_health("strict", "True")
        for policy, other in (("mild", "strict"), ("strict", "mild")):
            place.wait(
                lambda policy=policy: say(place, policy, CONSISTENT)[0] == "False",  # type: ignore[misc]
                f"{policy} contradicts",
                30,
            )
            _, reason, said = say(place, policy, CONSISTENT)
            assert reason == "PoliciesConflict"
            assert f"LagPolicy {other} selects shared too" in said
        place.kubectl("delete", "lagpolicy", "strict")
        place.wait(lambda: say(place, "mild", CONSISTENT)[0] == "True", "mild stands alone", 30)


def test_a_group_that_never_was_and_one_that_vanishes_are_unknown(groups: Groups) -> None:
    place = groups.place
    groups.make("parcels")
    groups.apply_policy("nobody", "no-such-group", "warning: {lag: 1m}")
    unknown = place.await_health("nobody", "Unknown", 60)
    assert (unknown.state, unknown.missing) == (LagState.UNKNOWN, ("no-such-group",))
    assert "Kafka has no committed offset of this group" in say(place, "nobody", LAG_HEALTHY)[2]

    groups.apply_policy("mail", "post", "warning: {lag: 1m}")
    with Traffic(groups.broker.bootstrap, "parcels", 1, 50.0):
        with Reader(groups.broker.bootstrap, "post", "parcels"):
            place.await_health("mail", "True")
        groups.admin.delete_consumer_groups(["post"])["post"].result()
        gone = place.await_health("mail", "Unknown", 60)
        assert (gone.state, gone.severity) == (LagState.UNKNOWN, Severity.NONE)
        with Reader(groups.broker.bootstrap, "post", "parcels"):
            place.await_health("mail", "True")


class Glances:
    """A context that notes what a policy says of its health, again and again."""

    def __init__(self, place: Place, policy: str) -> None:
        self.seen: list[tuple[float, str]] = []
        self._place, self._policy = place, policy
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="glances", daemon=True)

    def __enter__(self) -> "Glances":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._ending.wait(0.5):
            with contextlib.suppress(AssertionError):
                self.seen.append((time.monotonic(), say(self._place, self._policy, LAG_HEALTHY)[0]))


def test_while_the_broker_is_unavailable_nothing_is_healthy_and_afterwards_it_is(
    groups: Groups, tmp_path: Path
) -> None:
    place = groups.place
    groups.make("trips")
    groups.apply_policy("riders", "rides", "warning: {lag: 5m}")
    with (
        Traffic(groups.broker.bootstrap, "trips", 1, 50.0),
        Reader(groups.broker.bootstrap, "rides", "trips"),
        Glances(place, "riders") as glances,
    ):
        place.await_health("riders", "True")
        groups.broker.kill()
        try:
            unknown = place.await_health("riders", "Unknown", 90)
            since = time.monotonic()
            assert unknown.state == LagState.UNKNOWN
            assert unknown.worst is not None
            assert unknown.worst.why.startswith("last sample at ")
            time.sleep(20)  # long enough for a look that would take old offsets for news
            away = [health for at, health in glances.seen if at > since]
            assert set(away) == {"Unknown"}
            text = read_operator(place, tmp_path)
            assert f'kappa_lagpolicy_unknown{{lagpolicy="riders",namespace="{place.name}"}} 1.0' in text
            assert f'kappa_lag_sample_failed{{cluster_name="{place.name}/own"}} 1.0' in text
            assert f'kafka_consumergroup_group_max_lag{{cluster_name="{place.name}/own"' not in text
            assert "NaN" not in text
        finally:
            groups.broker.start()
        place.await_health("riders", "True", 120)


def test_records_that_a_group_would_lose_are_kept_until_it_has_read_them(groups: Groups) -> None:
    place, bootstrap = groups.place, groups.broker.bootstrap
    groups.make("dropped", **{"retention.ms": str(RETENTION * 1000), "segment.ms": "1000"})
    place.apply(HOLD)
    place.await_ready("topics.kappa-platform.io/kept", 60)
    with (
        Traffic(bootstrap, "kept", 1, 20.0),
        Traffic(bootstrap, "dropped", 1, 20.0),
        Reader(bootstrap, "slow-reader", "kept") as reader,
    ):
        place.await_health("keeper", "True")
        reader.rate = 0.2
        status = place.await_health("keeper", "False", 90)
        assert status.state == LagState.LOSING
        place.wait(lambda: groups.find_retention("kept") > RETENTION, "the retention is longer in Kafka", 60)
        place.wait(
            lambda: groups.find_bounds("dropped")[0] > groups.find_committed("slow-reader", "kept"),
            "the other topic, with as many records, loses what the group has not read",
            240,
        )
        assert groups.find_bounds("kept")[0] <= groups.find_committed("slow-reader", "kept")
        reader.rate = None
        place.await_health("keeper", "True", 120)
        place.wait(
            lambda: groups.find_retention("kept") == RETENTION, "the retention is that of the spec", 60
        )
    reasons = [reason for reason, _ in place.events("keeper")]
    assert {"RetentionHeld", "RetentionRestored"} <= set(reasons)
