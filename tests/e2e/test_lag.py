"""Lag on the whole cluster: a consumer that is slowed down is told of, by a LagPolicy and by a real Prometheus, and so is its recovery."""

import json
from collections.abc import Iterator

import pytest

from e2e.counting import Counting
from e2e.traffic import Reader
from e2e.watching import BOUND, NOT_OF_A_PIPELINE, build_config, monitored
from kappa_crds.lagstate import LagState, Severity
from lab import kafka
from lab.kube import kubectl
from monitored.servers import Monitoring, list_queries, wait_for
from platform_switch import NAMESPACE

pytestmark = pytest.mark.timeout(900)

BILLING = f"""
apiVersion: kappa-platform.io/v1alpha1
kind: LagPolicy
metadata: {{name: billing}}
spec:
  selector: {{groups: ["billing-*"]}}
  warning: {{lag: {BOUND}s, for: 2s}}
  clearAfter: 5s
"""
SAVEPOINT = """
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {name: seen}
spec: {pipelineRef: counts}
"""
NOT_HERE = {
    **NOT_OF_A_PIPELINE,
    "kappa_pipeline_watermark_delay_seconds": "the pipeline has no event time",
}


@pytest.fixture(scope="module")
def watched(running_count: Counting, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    """The cluster with Prometheus, a policy, a savepoint, and a store that is measured, so that there is something to see of each."""
    place = running_count.place
    place.apply(SAVEPOINT)
    place.patch("statestore/default", {"measureInterval": "15s"})
    place.apply(BILLING)
    with monitored(place, tmp_path_factory.mktemp("watched")) as monitoring:
        yield monitoring
    place.patch("statestore/default", {"measureInterval": None})
    place.kubectl("delete", "savepoint/seen", "lagpolicy/billing", "--timeout=60s")


@pytest.fixture
def reader(running_count: Counting) -> Iterator[Reader]:
    """A consumer group beside the pipeline's. It is not behind at first: what the tests before wrote would take it long enough to be told of."""
    place, topic = running_count.place, running_count.ledger.source
    with Reader(kafka.host_bootstrap(), f"billing-{place.name}", topic, reset="latest") as reader:
        yield reader


def find_targets(watched: Monitoring, job: str) -> set[str]:
    return {each["metric"]["instance"] for each in watched.query(f'up{{job=~"{job}"}} == 1')}


def test_prometheus_finds_the_operator_and_the_drivers_by_monitors_and_by_annotations(
    watched: Monitoring, running_count: Counting
) -> None:
    monitors = f"{NAMESPACE}/kappa-.+"
    driver = running_count.place.find("pods", "kappa-platform.io/role=driver")[0]["status"]["podIP"]
    replicas = json.loads(kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]
    expected = {f"{driver}:8443", *(f"{each['status']['podIP']}:8444" for each in replicas)}
    wait_for(lambda: expected <= find_targets(watched, monitors), f"{expected} are scraped")
    wait_for(
        lambda: find_targets(watched, monitors) == find_targets(watched, "annotated"),
        "annotations lead to the same pods",
    )


@pytest.mark.chaos  # takes a minute; tests/integration/test_monitoring.py has such an alert come and go
def test_a_slow_consumer_is_reported_and_its_catching_up_too(
    watched: Monitoring, counting: Counting, reader: Reader
) -> None:
    place, group = counting.place, f"billing-{counting.place.name}"
    labels = {"cluster_name": f"{place.name}/main", "group": group}
    policy = {"namespace": place.name, "lagpolicy": "billing"}
    place.await_health("billing", "True")
    assert watched.receiver.find("KappaConsumerLag", "firing", labels) is None

    reader.rate = 1.0
    status = place.await_health("billing", "False")
    worst = status.worst
    assert worst is not None
    assert (worst.group, worst.topic, worst.state) == (group, counting.ledger.source, LagState.WARNING)
    assert (worst.lag_seconds or 0) > BOUND
    assert worst.why.endswith(f"over spec.warning.lag ({BOUND}s)")
    assert status.severity is Severity.WARNING
    told = watched.await_alert("KappaConsumerLag", "firing", labels)
    assert (told["path"], told["labels"]["severity"]) == ("/chat", "warning")
    watched.await_alert("KappaLagPolicyWarning", "firing", policy)

    reader.rate = None
    assert place.await_health("billing", "True").severity is Severity.NONE
    watched.await_alert("KappaConsumerLag", "resolved", labels)
    watched.await_alert("KappaLagPolicyWarning", "resolved", policy)
    assert [reason for reason, _ in place.events("billing")] == ["LagOverBound", "LagWithinBounds"]


def test_commands_give_the_same_result_from_either_replica(
    watched: Monitoring, counting: Counting, reader: Reader
) -> None:
    place, group = counting.place, f"billing-{counting.place.name}"
    place.wait(lambda: group in place.kappa("lag"), "the group is told of", 30)
    told = [json.loads(place.kappa("lag", "-o", "json")) for _ in range(2)]
    assert {each["source"] for each in told} == {"operator"}
    assert len({each["replica"] for each in told}) == 1
    place.await_ready("statestore/default", 60)
    place.kubectl("wait", "--for=condition=LagHealthy", "lagpolicy/billing", "--timeout=60s")
    assert f"operator: {told[0]['replica']} is the leader" in place.kappa("status")


@pytest.mark.chaos  # tests/integration/test_monitoring.py asks them all of the same collectors
def test_each_query_of_each_dashboard_has_data_of_the_running_cluster(
    watched: Monitoring, counting: Counting, reader: Reader
) -> None:
    place = counting.place
    variables = {
        "namespace": place.name, "pipeline": "counts",
        "cluster_name": f"{place.name}/main", "topic": counting.ledger.source,
    }  # fmt: skip
    queries = {
        name: query
        for name, query in list_queries(build_config(), variables).items()
        if not any(metric in query for metric in NOT_HERE)
    }
    assert watched.find_empty(queries) == {}
