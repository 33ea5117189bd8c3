"""A LagPolicy on the real API server, with looks at Kafka that the test makes up: what is written is read back, and remediations arrive."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from fakes.context import Clock
from fakes.samples import FakeSamples
from integration.bench import Bench
from integration.manifests import read_smallest
from kappa_crds import API_VERSION
from kappa_crds.lagremediation import LAG_FINALIZER
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.lag.memory import LagMemory
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.lagpolicy.alertmanager import build_alert_app
from kappa_operator.lagpolicy.webhooks import HttpWebhooks
from kappa_operator.topic.retention import name_hold

SPEC: dict[str, Any] = {
    "selector": {"pipelines": {"names": ["delays"]}},
    "warning": {"lag": "60s", "timeToLoss": "10m"},
    "remediation": {"scale": {"max": 4}, "holdRetention": {"upTo": "4h"}},
}


class Looks:
    """Looks every ten seconds, by a clock of the test's own, at a pipeline that takes 100 of 160 records a second."""

    def __init__(self, bench: Bench, cluster: Key, policy: Key) -> None:
        self.bench, self.cluster, self.policy = bench, cluster, policy
        self.samples, self.clock = FakeSamples(), Clock()
        bench.context = replace(bench.context, get_lag=self.samples.get, now=self.clock)
        self.pair = GroupPartition(f"kappa.{bench.namespace}.delays", Partition("in", 0))
        self.count = 0

    async def take(self, count: int) -> None:
        """Take so many looks."""
        for _ in range(count):
            self.clock.advance(10)
            self.count += 1
            log = PartitionLog(0, 1600 * self.count, 1600 * self.count)
            behind, loss = (70.0, 300.0) if self.count > 10 else (5.0, None)
            sample = Sample(self.clock.time, log, 1000 * self.count, behind, loss)
            self.samples.samples[self.cluster] = ClusterSample(
                self.clock.time, 0.1, samples={self.pair: sample}
            )
            await self.bench.look(self.policy)

    async def read(self) -> dict[str, Any]:
        """Return the policy's status."""
        status: dict[str, Any] = (await self.bench.read(self.policy) or {})["status"]
        return status


async def start(bench: Bench) -> Looks:
    cluster = await bench.put("KafkaCluster", "main", bootstrapServers=["nowhere:9092"])
    await bench.put("Topic", "in", retention={"time": "1h"})
    pipeline = await bench.put("Pipeline", "delays", **read_smallest("Pipeline")["spec"])
    body = await bench.read(pipeline)
    assert body is not None
    status = {"state": "Running", "executors": 1, "observedGeneration": body["metadata"]["generation"]}
    metadata = {"name": "delays", "namespace": bench.namespace}
    await bench.cluster.apply_status(
        {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "status": status}
    )
    return Looks(bench, cluster, await bench.put("LagPolicy", "gold", **SPEC))


def say(status: dict[str, Any], kind: str) -> tuple[str, str]:
    return next((each["status"], each["reason"]) for each in status["conditions"] if each["type"] == kind)


async def test_the_state_of_a_group_is_in_the_status_and_survives_the_operator(bench: Bench) -> None:
    looks = await start(bench)
    await looks.take(3)
    before = await looks.read()
    assert (say(before, "Ready"), say(before, "LagHealthy")) == (
        ("True", "LagEvaluated"),
        ("True", "LagWithinBounds"),
    )
    assert before["groupPartitions"] == {"OK": 1}
    await looks.take(22)
    status = await looks.read()
    assert (say(status, "LagHealthy"), status["severity"]) == (("False", "LosingRecords"), "Warning")
    assert (status["worst"]["partition"], status["worst"]["lagSeconds"]) == (0, 70)
    assert list(status["lagHistory"]) == [f"{looks.pair.group} in 0"]
    bench.context = replace(bench.context, histories=LagMemory())
    await looks.take(1)
    assert say(await looks.read(), "LagHealthy") == ("False", "LosingRecords")


async def test_remediations_arrive_and_leave_the_rest_of_a_spec_alone(bench: Bench) -> None:
    looks = await start(bench)
    pipeline, topic = (
        ObjectRef(API_VERSION, kind, bench.namespace, name)
        for kind, name in (("Pipeline", "delays"), ("Topic", "in"))
    )
    before = await bench.cluster.get(pipeline)
    await looks.take(26)
    after, held = await bench.cluster.get(pipeline), await bench.cluster.get(topic)
    assert before is not None
    assert after is not None
    assert held is not None
    count = after["spec"]["resources"]["executors"].pop("count")
    before["spec"]["resources"]["executors"].pop("count")
    assert (count, after["spec"]) == (3, before["spec"])
    assert "kappa-lag-scale" in {each["manager"] for each in after["metadata"]["managedFields"]}
    assert held["metadata"]["annotations"][name_hold("lagpolicy.gold")].startswith("7200s until 2026-01-01T")
    assert held["metadata"]["generation"] == 1
    done = {(each["kind"], each["result"]) for each in (await looks.read())["remediations"]}
    assert done == {("Scale", "Done"), ("HoldRetention", "Done")}


def tell(bench: Bench, status: str) -> dict[str, Any]:
    """Return what Alertmanager posts of an alert about the policy."""
    labels = {"alertname": "CheckoutSlow", "namespace": bench.namespace, "lagpolicy": "gold"}
    return {
        "version": "4",
        "alerts": [{"status": status, "labels": labels, "fingerprint": "0123456789abcdef"}],
    }


async def test_alerts_stand_as_annotations_and_go_and_a_policy_that_may_set_quotas_is_let_go_of(
    bench: Bench, tmp_path: Path
) -> None:
    looks = await start(bench)
    remediation = {
        **SPEC["remediation"], "onAlerts": True, "raiseBatchLimit": {"upTo": 10}, "throttleProducers": {"producers": [{"clientId": "loader"}]},
        "webhook": {"url": "https://hooks.example.com/lag"},
    }  # fmt: skip
    await bench.put("LagPolicy", "gold", **{**SPEC, "remediation": remediation})
    bench.context = replace(bench.context, webhooks=HttpWebhooks())
    await looks.take(2)
    assert (await bench.read(looks.policy) or {})["metadata"]["finalizers"] == [LAG_FINALIZER]
    (tmp_path / "token").write_text("a-token")
    known = {"Authorization": "Bearer a-token"}
    async with TestClient(TestServer(build_alert_app(bench.context, tmp_path))) as client:
        assert (await client.post("/alerts", json=tell(bench, "firing"), headers=known)).status == 200
        await looks.take(1)
        assert [each["name"] for each in (await looks.read())["alerts"]] == ["CheckoutSlow"]
        assert (await client.post("/alerts", json=tell(bench, "resolved"), headers=known)).status == 200
    await looks.take(22)
    status = await looks.read()
    assert status.get("alerts", []) == []
    assert not (await bench.read(looks.policy) or {})["metadata"].get("annotations")
    (notification,) = status["notifications"]
    assert (notification["severity"], notification["result"]) == ("Warning", "Pending")
    assert "calls no webhooks" in notification["error"]
    await bench.cluster.delete(ObjectRef(API_VERSION, *looks.policy))
    await looks.bench.look(looks.policy)
    assert await bench.read(looks.policy) is None
