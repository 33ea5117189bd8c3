"""What the operator tells of lag, topics and pipelines: added up, and never more than is known."""

from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from fakes.context import START, Operator, build_resource
from kappa_crds import API_VERSION
from kappa_crds.lagstate import LagState, Severity
from kappa_crds.progress import DriverState, Progress, QueryProgress, SourceProgress
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.memory import Remembered
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.lag.rules import Rules, Threshold
from kappa_operator.pipeline.progress_cache import ProgressCache
from kappa_operator.report.build import ClusterInput, PipelineInput, PolicyInput, ReportInput, build_report
from kappa_operator.report.gather import gather_report
from kappa_operator.report.model import LagReport, Report
from kappa_operator.report.serve import add_report

MAIN = Key("KafkaCluster", "shop", "main")
RULES = Rules(Threshold(60.0, None, None, 0.0), None, 60.0, 60.0, 300.0)


def pair(number: int, group: str = "billing", topic: str = "orders") -> GroupPartition:
    return GroupPartition(group, Partition(topic, number))


def sample(committed: int | None, end: int = 1000, start: int = 0, **known: Any) -> Sample:
    return Sample(START, PartitionLog(start, end, end), committed, **known)


def build(sampled: ClusterSample, *policies: PolicyInput, with_partitions: bool = False) -> Report:
    inputs = ReportInput("one", (ClusterInput(MAIN, 30.0, sampled, policies),))
    return build_report(inputs, START, with_partitions=with_partitions)


def only(report: Report) -> LagReport:
    (lag,) = report.clusters[0].lags
    return lag


def test_lag_is_added_up_and_the_furthest_partition_is_named() -> None:
    samples = {
        pair(0): sample(900, behind=5.0, loss=600.0),
        pair(1): sample(400, behind=80.0, loss=300.0),
        pair(2): sample(1000, behind=0.0),
    }
    lag = only(build(ClusterSample(START, 0.4, samples=samples)))
    assert (lag.partitions, lag.lag, lag.behind, lag.loss, lag.worst) == (3, 700, 80.0, 300.0, 1)
    assert (lag.unknown, lag.undated, lag.state, lag.why, lag.by_partition) == (0, 0, None, None, ())


@pytest.mark.parametrize(
    ("look", "unknown", "undated", "why"),
    [
        (sample(None), 1, 0, "the group has no committed offset, and the partition has records"),
        (sample(2000), 1, 0, "the committed offset is past the end of the log: the topic was recreated"),
        (sample(900), 0, 1, "the age of the oldest unread record is unknown"),
    ],
)
def test_unknown_partitions_are_counted_and_reported(
    look: Sample, unknown: int, undated: int, why: str
) -> None:
    lag = only(build(ClusterSample(START, 0.4, samples={pair(0): sample(990, behind=1.0), pair(1): look})))
    assert (lag.unknown, lag.undated, lag.why) == (unknown, undated, why)


def test_a_group_that_has_committed_nothing_in_an_empty_partition_is_no_riddle() -> None:
    lag = only(build(ClusterSample(START, 0.4, samples={pair(0): sample(None, end=0)})))
    assert (lag.lag, lag.behind, lag.unknown, lag.why) == (0, 0.0, 0, None)


def test_after_nothing_could_be_seen_all_is_unknown_and_nothing_is_zero() -> None:
    before = ClusterSample(START, 0.4, frozenset({"billing"}), samples={pair(0): sample(900, behind=5.0)})
    report = build(before.as_failed(START, "no broker answers"))
    lag = only(report)
    assert report.clusters[0].failure == "no broker answers"
    assert (lag.lag, lag.behind, lag.loss, lag.unknown, lag.state) == (None, None, None, 1, LagState.UNKNOWN)


def test_a_group_whose_offsets_could_not_be_read_has_a_line_of_its_own() -> None:
    lag = only(build(ClusterSample(START, 0.4, unread={"secret": "not allowed"})))
    assert (lag.group, lag.topic, lag.lag, lag.why) == ("secret", None, None, "not allowed")


def test_the_state_is_the_worst_of_all_policies() -> None:
    seen = {"at": START, "since": START, "watched": START, "judged": START}
    well = LagHistory(**seen, state=LagState.OK)  # type: ignore[arg-type]
    bad = LagHistory(**seen, state=LagState.STALLED, severity=Severity.CRITICAL)  # type: ignore[arg-type]
    sampled = ClusterSample(
        START, 0.4, samples={pair(0): sample(900, behind=1.0), pair(1): sample(900, behind=99.0)}
    )
    policies = [PolicyInput(RULES, {pair(0): well, pair(1): well}), PolicyInput(RULES, {pair(0): bad})]
    lag = only(build(sampled, *policies, with_partitions=True))
    assert (lag.state, lag.severity, lag.worst) == (LagState.STALLED, Severity.CRITICAL, 0)
    assert [each.state for each in lag.by_partition] == [LagState.STALLED, LagState.OK]


def test_what_a_policy_has_not_seen_for_long_is_unknown() -> None:
    old = START - timedelta(hours=1)
    history = LagHistory(at=old, since=old, watched=old, judged=old, state=LagState.OK)
    sampled = ClusterSample(START, 0.4, samples={pair(0): sample(900, behind=1.0)})
    assert only(build(sampled, PolicyInput(RULES, {pair(0): history}))).state is LagState.UNKNOWN


def test_topics_have_their_records_and_rates_as_far_as_they_are_known() -> None:
    logs = {Partition("orders", 0): PartitionLog(100, 1000, 1000), Partition("dim", 0): PartitionLog(0, 5, 5)}
    sampled = ClusterSample(
        START, 0.4, logs=logs, unavailable={Partition("dim", 1): "no leader"}, rates={"orders": 12.5}
    )
    told = {each.topic: each for each in build(sampled).clusters[0].topics}
    assert (told["orders"].partitions, told["orders"].records, told["orders"].rate) == (1, 900, 12.5)
    assert (told["dim"].partitions, told["dim"].records, told["dim"].rate) == (2, None, None)


def progress() -> Progress:
    source = SourceProgress(
        name="events", topic="orders", end_offsets={"orders": {0: 60}}, latest_offsets={"orders": {0: 100}}
    )
    query = QueryProgress(
        sink="out", query_id="q", run_id="r", batch_id=7, timestamp=START, input_rows_per_second=20.0,
        processed_rows_per_second=80.0, duration_ms={"triggerExecution": 1500, "addBatch": 900},
        watermark=START - timedelta(seconds=90), state_rows=12, sources=(source,),
    )  # fmt: skip
    return Progress(
        namespace="shop", pipeline="delays", revision="delays-1", generation=1, state=DriverState.RUNNING,
        started_at=START, executors=2, queries=(query,),
    )  # fmt: skip


def pipeline() -> dict[str, Any]:
    source = {"name": "events", "topic": "orders", "format": {"json": {"schema": "k STRING"}}}
    return build_resource(
        "Pipeline",
        "delays",
        sources=[source],
        sinks=[{"name": "out", "from": "events", "kafka": {"topic": "out"}}],
    )


def test_a_pipeline_reports_the_last_progress_of_its_driver() -> None:
    key = Key("Pipeline", "shop", "delays")
    pipeline = PipelineInput(key, "kappa.shop.delays", "Running", "Running", (START, progress()))
    (told,) = build_report(ReportInput("one", (), (pipeline,)), START).pipelines
    assert (told.state, told.executors, told.batch, told.came, told.done) == ("Running", 2, 7, 20.0, 80.0)
    assert (told.lag, told.batch_seconds, told.watermark_delay, told.state_rows) == (40, 1.5, 90.0, 12)


def test_a_pipeline_without_progress_has_no_metrics() -> None:
    pipeline = PipelineInput(Key("Pipeline", "shop", "delays"), "kappa.shop.delays")
    (told,) = build_report(ReportInput("one", (), (pipeline,)), START).pipelines
    assert (told.executors, told.done, told.lag, told.batch_seconds) == (None, None, None, None)


def put_operator() -> Operator:
    """Return an operator that knows two clusters, a policy and a pipeline, and has sampled one of the clusters."""
    operator = Operator(KIND_TABLE)
    for body in (
        build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]),
        build_resource("KafkaCluster", "far", "elsewhere", bootstrapServers=["kafka:9092"]),
        build_resource("KafkaCluster", "unsampled", "quiet", bootstrapServers=["kafka:9092"], lag={"enabled": False}),
        build_resource("LagPolicy", "gold", clusterRef="main", selector={"groups": ["*"]}, warning={"lag": "60s"}),
        pipeline(),
    ):  # fmt: skip
        operator.cluster.put(body)
    operator.lag.sample(MAIN, START, billing=(10, 40, 3.0))
    ready = {"type": "Ready", "status": "True", "reason": "Healthy", "lastTransitionTime": START.isoformat()}
    status = {"state": "Running", "conditions": [ready]}
    operator.cluster.patch(ObjectRef(API_VERSION, "Pipeline", "shop", "delays"), status=status)
    return operator


def remember(context: OperatorContext, policy: str, state: LagState) -> None:
    key = Key("LagPolicy", "shop", policy)
    resource = context.cache.get(key)
    assert resource is not None
    history = LagHistory(at=START, since=START, watched=START, judged=START, state=state)
    context.histories.keep(key, resource.metadata.uid, Remembered({pair(0, topic="in"): history}))


async def ask(operator: Operator, query: str = "", *, acting: bool = True) -> tuple[int, Any]:
    app = web.Application()
    add_report(app, operator.context, lambda: acting)
    async with TestClient(TestServer(app)) as client:
        response = await client.get(f"/report{query}")
        return response.status, await response.json() if response.status == 200 else await response.text()


async def test_only_the_leader_exports_metrics() -> None:
    status, text = await ask(put_operator(), acting=False)
    assert (status, "retry at another one" in text) == (421, True)


async def test_the_report_of_a_namespace_excludes_others() -> None:
    operator = put_operator()
    remember(operator.context, "gold", LagState.OK)
    _, told = await ask(operator, "?namespace=shop")
    assert [each["name"] for each in told["clusters"]] == ["main"]
    assert told["pipelines"] == [
        {"namespace": "shop", "name": "delays", "state": "Running", "reason": "Healthy"}
    ]
    (lag,) = told["clusters"][0]["lags"]
    assert (lag["group"], lag["lag"], lag["behind"], lag["state"], lag["byPartition"]) == (
        "billing",
        30,
        3.0,
        "OK",
        [],
    )
    _, told = await ask(operator)
    assert sorted(each["name"] for each in told["clusters"]) == ["far", "main"]


async def test_partitions_are_shown_on_request() -> None:
    _, told = await ask(put_operator(), "?namespace=shop&partitions=true")
    assert told["clusters"][0]["lags"][0]["byPartition"] == [
        {"partition": 0, "committed": 10, "start": 0, "end": 40, "lag": 30, "behind": 3.0, "lost": 0, "severity": "None"}
    ]  # fmt: skip


async def test_a_cluster_without_a_sample_is_reported_as_such() -> None:
    _, told = await ask(put_operator(), "?namespace=elsewhere")
    (cluster,) = told["clusters"]
    assert (cluster["name"], "at" in cluster, cluster["lags"], cluster["topics"]) == ("far", False, [], [])


async def test_the_history_of_a_recreated_policy_is_not_used() -> None:
    operator = put_operator()
    remember(operator.context, "gold", LagState.LOSING)
    key = Key("LagPolicy", "shop", "gold")
    operator.cluster.remove(ObjectRef(API_VERSION, *key))
    operator.cluster.put(
        build_resource("LagPolicy", "gold", selector={"groups": ["*"]}, warning={"lag": "60s"})
    )
    assert gather_report(operator.context, "shop").clusters[0].policies == ()


def test_the_last_progress_is_kept_until_its_pipeline_is_gone() -> None:
    cache, key = ProgressCache(), Key("Pipeline", "shop", "delays")
    cache.record(key, 1, START, progress())
    cache.record(key, 1, START + timedelta(seconds=10), None)
    assert cache.get(key) == (START, progress())
    cache.forget(key)
    assert cache.get(key) is None
