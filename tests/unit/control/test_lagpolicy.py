"""LagPolicies on fakes: what they say of the groups that they select, when they write it, and what outlives the operator."""

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from fakes.cluster import Body
from fakes.context import Operator, build_resource
from kappa_crds import API_VERSION
from kappa_crds.lagpolicy import MuteWindow
from kappa_operator.cli.plan import plan_one
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lag.groups import find_groups
from kappa_operator.lag.model import ClusterSample
from kappa_operator.lagpolicy.decide import is_long
from kappa_operator.lagpolicy.mute import find_mute
from kappa_operator.lagpolicy.observe import observe_lagpolicy
from kappa_operator.telemetry.resource_metrics import POLICY_METRICS, ResourceCollector

CLUSTER = Key("KafkaCluster", "shop", "main")
POLICY = Key("LagPolicy", "shop", "gold")
REF = ObjectRef(API_VERSION, *POLICY)
BILLING: dict[str, Any] = {
    "selector": {"groups": ["billing*"]},
    "warning": {"lag": "60s"},
    "critical": {"lag": "10m", "for": "1m"},
}


class Desk:
    """An operator with one KafkaCluster and a policy, and what a sampler sees."""

    def __init__(self, **spec: Any) -> None:
        self.operator = Operator(KIND_TABLE)
        self.operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
        self.operator.cluster.put(build_resource("LagPolicy", "gold", **(spec or BILLING)))
        self.committed = 100

    async def look(self, **looks: tuple[int, int, float | None]) -> None:
        """Let ten seconds pass, sweep Kafka, and evaluate."""
        self.operator.clock.advance(10)
        if looks:
            self.operator.lag.sample(CLUSTER, self.operator.clock.time, **looks)
        await self.operator.reconcile(POLICY)

    async def look_for(
        self, seconds: int, behind: float | None, *, moving: bool = True, group: str = "billing"
    ) -> None:
        """Look again and again at one group that is so many seconds behind."""
        for _ in range(seconds // 10):
            self.committed += moving
            await self.look(**{group: (self.committed, self.committed + (50 if behind else 0), behind)})

    @property
    def status(self) -> Body:
        body = self.operator.get(POLICY)
        assert body is not None
        status: Body = body["status"]
        return status

    def say(self, kind: str = "LagHealthy") -> tuple[str, str, str]:
        return self.operator.get_condition(POLICY, kind)

    @property
    def version(self) -> str:
        return str((self.operator.get(POLICY) or {})["metadata"]["resourceVersion"])


async def test_a_policy_whose_groups_keep_their_bounds_is_healthy() -> None:
    desk = Desk()
    await desk.look(billing=(100, 100, 0.0), billing2=(90, 100, 5.0), other=(0, 100, 9999.0))
    assert desk.say() == ("True", "LagWithinBounds", "all of 2 partitions of groups keep the bounds")
    assert desk.say("Ready")[:2] == ("True", "LagEvaluated")
    assert (desk.status["state"], desk.status["severity"], desk.status["groups"]) == ("OK", "None", 2)
    assert desk.status["groupPartitions"] == {"OK": 2}
    assert desk.operator.list_events() == []


async def test_the_worst_partition_is_named_with_its_reason() -> None:
    desk = Desk()
    for _ in range(15):
        desk.committed += 1
        await desk.look(billing___3=(desk.committed, 5000, 75.0), billing2=(100, 100, 0.0))
    status, reason, message = desk.say()
    assert (status, reason) == ("False", "LagOverBound")
    assert message == "Warning: billing in[3]: lag of 4.9k records, 1m15s over spec.warning.lag (1m)"
    worst = desk.status["worst"]
    assert (worst["group"], worst["topic"], worst["partition"]) == ("billing", "in", 3)
    assert (worst["lagSeconds"], worst["state"], worst["severity"]) == (75, "Warning", "Warning")
    assert desk.status["groupPartitions"] == {"OK": 1, "Warning": 1}
    assert desk.status["lag"] == "4.9k records, 1m15s"


async def test_events_come_with_changes_of_severity_only() -> None:
    desk = Desk()
    await desk.look_for(60, 0.0)
    await desk.look_for(300, 90.0)
    await desk.look_for(300, 700.0)
    await desk.look_for(300, 0.0)
    said = [event.split(":")[0] for event in desk.operator.list_events()]
    assert said == ["Warning", "Critical", "lag is no more Critical"]
    assert desk.say()[0] == "True"


async def test_a_status_is_not_written_at_each_reconcile() -> None:
    desk = Desk()
    await desk.look_for(60, 0.0)
    before = desk.version
    await desk.look_for(300, 0.0)
    assert desk.version == before, "all is well as before"
    await desk.look_for(300, 90.0)
    writes = desk.operator.cluster.fuse.writes
    await desk.look_for(600, 90.0)
    assert desk.operator.cluster.fuse.writes - writes <= 10, "as bad as before: once a minute"


async def test_figures_of_unhealthy_partitions_are_at_most_a_minute_old() -> None:
    desk = Desk()
    await desk.look_for(300, 90.0)
    await desk.look_for(70, 130.0)
    assert desk.status["worst"]["lagSeconds"] == 130


async def test_without_a_sample_the_state_is_unknown_and_not_ok() -> None:
    desk = Desk()
    await desk.operator.reconcile(POLICY)
    said = "the groups of KafkaCluster main have no sample yet"
    assert desk.say() == ("Unknown", "LagUnknown", said)
    assert desk.say("Ready")[0] == "False"
    await desk.look(billing=(100, 100, 0.0))
    assert desk.say()[0] == "True"
    for _ in range(40):
        await desk.look()
    assert desk.say()[:2] == ("Unknown", "LagUnknown")
    assert "last sample at 2026-01-01 00:00:10 UTC" in desk.say()[2]


async def test_an_outage_of_kafka_for_hours_is_reported_and_nothing_is_lost() -> None:
    desk = Desk()
    await desk.look_for(60, 0.0)
    desk.operator.clock.advance(7200)
    desk.operator.lag.samples[CLUSTER] = ClusterSample(
        desk.operator.clock.time, 10.0, failure="Connection refused"
    )
    await desk.look()
    said = "billing in[0]: last sample at 2026-01-01 00:01:00 UTC: Connection refused"
    assert desk.say() == ("Unknown", "LagUnknown", said)
    assert desk.status["groupPartitions"] == {"Unknown": 1}


async def test_a_share_that_kafka_does_not_show_any_more_is_unknown_and_forgotten_after_an_hour() -> None:
    desk = Desk()
    await desk.look(billing=(100, 100, 0.0), billing2=(100, 100, 0.0))
    for _ in range(32):
        await desk.look(billing=(100, 100, 0.0))
    assert desk.status["groupPartitions"] == {"OK": 1, "Unknown": 1}
    desk.operator.clock.advance(3600)
    await desk.look(billing=(100, 100, 0.0))
    assert desk.status["groupPartitions"] == {"OK": 1}


async def test_what_was_critical_matters_as_much_while_kafka_is_down() -> None:
    desk = Desk()
    await desk.look_for(300, 700.0)
    for _ in range(60):
        await desk.look()
    status, _, message = desk.say()
    assert (status, desk.status["severity"]) == ("Unknown", "Critical")
    assert "(before, it was Critical)" in message
    assert len(desk.operator.list_events()) == 1, "no all-clear"


async def test_a_restarted_operator_continues_from_the_stored_state() -> None:
    desk = Desk()
    await desk.look_for(60, 0.0)
    await desk.look_for(200, 90.0)
    since = desk.status["since"]
    desk.operator = desk.operator.restart()
    await desk.look_for(10, 90.0)
    assert (desk.say()[1], desk.status["since"]) == ("LagOverBound", since)
    desk.operator = desk.operator.restart()
    await desk.look_for(60, 0.0)
    assert desk.say()[1] == "LagOverBound", "clearAfter is not over"
    await desk.look_for(70, 0.0)
    assert desk.say()[1] == "LagWithinBounds"


async def test_a_restarted_operator_reports_no_state_before_its_first_sample_unless_late() -> None:
    desk = Desk()
    await desk.look_for(70, 0.0)
    desk.operator = desk.operator.restart()
    desk.operator.lag.samples.clear()
    before = desk.version
    for _ in range(20):
        await desk.look()
    assert desk.version == before
    for _ in range(20):
        await desk.look()
    assert desk.say()[:2] == ("Unknown", "LagUnknown")


async def test_stalled_partitions_are_found_across_restarts() -> None:
    desk = Desk(**{**BILLING, "warning": {"lag": "1h"}, "critical": {"lag": "1d"}})
    await desk.look_for(60, 0.0)
    for _ in range(4):
        await desk.look_for(70, 30.0, moving=False)
        desk.operator = desk.operator.restart()
    await desk.look_for(40, 30.0, moving=False)
    assert desk.say()[1] in ("ConsumerStalled", "ConsumerStopped")


async def test_a_recreated_policy_has_no_history() -> None:
    desk = Desk()
    await desk.look_for(300, 90.0)
    desk.operator.cluster.remove(REF)
    await desk.operator.reconcile(POLICY)
    desk.operator.cluster.put(build_resource("LagPolicy", "gold", **BILLING))
    await desk.look_for(10, 0.0)
    assert desk.say()[0] == "True"


async def test_an_unreadable_history_starts_empty() -> None:
    desk = Desk()
    await desk.look_for(200, 90.0)
    histories = {"billing in 0": "{", "billing in x": "{}", "x": "{}", "billing in 1": '{"at": 7}'}
    desk.operator = desk.operator.restart()
    desk.operator.cluster.patch(REF, status={"lagHistory": histories})
    await desk.look_for(10, 0.0)
    assert desk.say()[0] == "True"


async def test_only_the_worst_hundred_are_remembered_in_the_status() -> None:
    desk = Desk()
    for _ in range(14):
        desk.committed += 1
        looks = {f"billing___{number}": (desk.committed, 5000, 60.0 + number) for number in range(150)}
        await desk.look(**looks)
    assert desk.status["groupPartitions"] == {"OK": 1, "Warning": 149}
    assert len(desk.status["lagHistory"]) == 100
    assert "billing in 149" in desk.status["lagHistory"]
    assert len(desk.status["lagging"]) == 10


async def test_a_group_that_is_named_and_missing_is_unknown() -> None:
    desk = Desk(**{**BILLING, "selector": {"groups": ["billing", "ledger"]}})
    await desk.look(billing=(100, 100, 0.0))
    assert desk.say() == (
        "Unknown", "LagUnknown",
        "ledger: Kafka has no committed offset of this group; correct its name, or start the consumer",
    )  # fmt: skip
    assert desk.status["missing"] == ["ledger"]


async def test_a_pattern_without_matches_is_reported() -> None:
    desk = Desk()
    await desk.look(other=(100, 100, 0.0))
    assert desk.say()[:2] == ("Unknown", "NoGroupSelected")


async def test_a_missing_cluster_is_reported() -> None:
    desk = Desk(**{**BILLING, "clusterRef": "elsewhere"})
    await desk.look(billing=(100, 100, 0.0))
    assert desk.say("Ready")[:2] == ("False", "ClusterNotFound")
    assert desk.say()[:2] == ("Unknown", "ClusterNotFound")


def write_pipeline(desk: Desk, name: str, state: str, labels: dict[str, str] | None = None) -> None:
    body = build_resource("Pipeline", name, sources=[], sinks=[])
    body["metadata"]["labels"] = labels or {}
    desk.operator.cluster.put(body)
    desk.operator.cluster.patch(ObjectRef(API_VERSION, "Pipeline", "shop", name), status={"state": state})


async def test_pipelines_are_selected_by_their_labels() -> None:
    desk = Desk(**{**BILLING, "selector": {"pipelines": {"matchLabels": {"tier": "gold"}}}})
    write_pipeline(desk, "delays", "Running", {"tier": "gold"})
    write_pipeline(desk, "other", "Running", {"tier": "tin"})
    await desk.look(kappa__shop__delays=(100, 100, 0.0), kappa__shop__other=(0, 100, 900.0))
    assert desk.status["groupPartitions"] == {"OK": 1}


@pytest.mark.parametrize(
    ("state", "reason"),
    [("Running", "ConsumerStalled"), ("Suspended", "ConsumerStopped"), ("Failed", "ConsumerStopped")],
)
async def test_the_status_of_a_pipeline_shows_whether_it_runs(state: str, reason: str) -> None:
    desk = Desk(
        **{
            **BILLING,
            "warning": {"lag": "1h"},
            "critical": {"lag": "1d"},
            "selector": {"pipelines": {"names": ["delays"]}},
        }
    )
    write_pipeline(desk, "delays", state)
    await desk.look_for(340, 30.0, moving=False, group="kappa__shop__delays")
    assert desk.say()[1] == reason
    assert desk.say()[2].endswith(f"; Pipeline delays is {state}") == (state != "Running")


async def test_a_pipeline_that_has_committed_nothing_is_unknown_with_its_own_state() -> None:
    desk = Desk(**{**BILLING, "selector": {"pipelines": {"names": ["delays"]}}})
    write_pipeline(desk, "delays", "Starting")
    await desk.look(other=(100, 100, 0.0))
    said = "kappa.shop.delays: Pipeline delays is Starting, and Kafka has no committed offset of it; check its conditions"
    assert desk.say() == ("Unknown", "LagUnknown", said)


async def test_a_missing_pipeline_is_reported_and_the_rest_is_evaluated() -> None:
    desk = Desk(**{**BILLING, "selector": {"groups": ["billing"], "pipelines": {"names": ["gone"]}}})
    await desk.look(billing=(100, 100, 0.0))
    status, reason, message = desk.say("Ready")
    assert (status, reason) == ("False", "PipelineNotFound")
    assert 'Pipeline "gone" not found in namespace "shop"' in message
    assert desk.status["groupPartitions"] == {"OK": 1}


async def test_a_muted_policy_updates_status_without_events_until_the_window_ends() -> None:
    mute = [{"start": "0 0 * * *", "duration": "10m"}]
    desk = Desk(**{**BILLING, "mute": mute})
    await desk.look_for(300, 90.0)
    assert (desk.say()[1], desk.operator.list_events()) == ("LagOverBound", [])
    assert desk.status["mutedUntil"] == "2026-01-01T00:10:00Z"
    await desk.look_for(320, 90.0)
    assert len(desk.operator.list_events()) == 1
    assert "mutedUntil" not in desk.status


async def test_an_unknown_time_zone_is_reported_and_the_rest_is_evaluated() -> None:
    mute = [
        {"start": "0 0 * * *", "duration": "1h", "timeZone": "Mars/Base"},
        {"start": "0 0 31 2 *", "duration": "1h"},
    ]
    desk = Desk(**{**BILLING, "mute": mute})
    await desk.look(billing=(100, 100, 0.0))
    status, reason, message = desk.say("Ready")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "spec.mute[0].timeZone 'Mars/Base' is not known" in message
    assert "spec.mute[1].start '0 0 31 2 *' is not a valid cron expression" in message
    assert desk.say()[0] == "True"


@pytest.mark.parametrize(
    ("now", "until"),
    [
        (datetime(2026, 1, 1, 20, 59, tzinfo=UTC), None),
        (datetime(2026, 1, 1, 21, 0, tzinfo=UTC), datetime(2026, 1, 2, 5, 0, tzinfo=UTC)),
        (datetime(2026, 1, 2, 4, 59, 59, 500, tzinfo=UTC), datetime(2026, 1, 2, 5, 0, tzinfo=UTC)),
        (datetime(2026, 1, 2, 5, 0, tzinfo=UTC), None),
        (datetime(2026, 7, 1, 20, 30, tzinfo=UTC), datetime(2026, 7, 2, 4, 0, tzinfo=UTC)),
    ],
)
def test_a_mute_window_follows_the_clock_of_its_time_zone(now: datetime, until: datetime | None) -> None:
    window = MuteWindow(start="0 22 * * *", duration="8h", time_zone="Europe/Berlin")
    assert find_mute([window], now).until == until


async def test_policies_that_conflict_both_report_it_and_are_both_evaluated() -> None:
    desk = Desk()
    strict = Key("LagPolicy", "shop", "strict")
    desk.operator.cluster.put(
        build_resource("LagPolicy", "strict", selector={"groups": ["bill*"]}, critical={"lag": "30s"})
    )
    await desk.look(billing=(100, 100, 0.0))
    await desk.operator.reconcile(strict)
    status, reason, message = desk.say("Consistent")
    assert (status, reason) == ("False", "PoliciesConflict")
    assert message == (
        "LagPolicy strict selects billing too, and that one's critical.lag (30s) comes before this one's warning.lag (60s); change one of the two"
    )
    assert "LagPolicy gold selects billing too" in desk.operator.get_condition(strict, "Consistent")[2]
    assert desk.say()[0] == desk.operator.get_condition(strict, "LagHealthy")[0] == "True"


async def test_policies_of_other_groups_or_milder_ones_fit() -> None:
    desk = Desk()
    desk.operator.cluster.put(
        build_resource("LagPolicy", "milder", selector={"groups": ["*"]}, critical={"lag": "1h"})
    )
    desk.operator.cluster.put(
        build_resource("LagPolicy", "apart", selector={"groups": ["x"]}, critical={"lag": "1s"})
    )
    await desk.look(billing=(100, 100, 0.0), x=(1, 1, 0.0))
    assert desk.say("Consistent")[:2] == ("True", "PoliciesConsistent")


@pytest.mark.parametrize(
    ("globs", "found"),
    [
        (["*"], {"a", "a.b", "kappa.shop.delays"}),
        (["a"], {"a"}),
        (["a?b"], {"a.b"}),
        (["a.*"], {"a.b"}),
        (["A*"], set()),
        (["kappa.shop.delays.1-2.log"], {"kappa.shop.delays.1-2.log"}),
        ([], set()),
    ],
)
def test_groups_are_found_by_patterns_without_those_of_marks(globs: list[str], found: set[str]) -> None:
    assert find_groups({"a", "a.b", "kappa.shop.delays", "kappa.shop.delays.1-2.log"}, globs) == found


def read_metrics(operator: Operator) -> dict[str, list[tuple[dict[str, str], float]]]:
    """What Prometheus gets, read as it reads it."""
    registry = CollectorRegistry()
    registry.register(ResourceCollector(operator.cache, lambda: True))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    found = {family.name: [(each.labels, each.value) for each in family.samples] for family in families}
    return {name: samples for name, samples in found.items() if name.startswith("kappa_lagpolicy_")}


async def test_prometheus_gets_the_metrics_of_existing_policies_only() -> None:
    desk = Desk()
    assert [len(samples) for samples in read_metrics(desk.operator).values()] == [0, 0, 1, 1, 1]
    await desk.look_for(300, 700.0)
    found = read_metrics(desk.operator)
    assert set(found) == {metric.name for metric in POLICY_METRICS}
    assert {labels["lagpolicy"] for samples in found.values() for labels, _ in samples} == {"gold"}
    assert {name: value for name, ((_, value),) in found.items()} == {
        "kappa_lagpolicy_healthy": 0.0, "kappa_lagpolicy_unknown": 0.0, "kappa_lagpolicy_severity": 2.0,
        "kappa_lagpolicy_muted": 0.0, "kappa_lagpolicy_unhealthy_partitions": 1.0,
    }  # fmt: skip
    desk.operator.cluster.remove(REF)
    assert set(map(len, read_metrics(desk.operator).values())) == {0}


async def test_a_plan_shows_nothing_of_what_is_only_remembered() -> None:
    desk = Desk()
    desk.operator.lag.sample(CLUSTER, desk.operator.clock.time, billing=(100, 100, 0.0))
    lines = list((await plan_one(desk.operator.context, POLICY)).describe())
    assert lines[:2] == ["LagPolicy shop/gold", "  (nothing to do)"]
    assert "· LagEvaluated ·" in lines[2]


async def test_a_policy_of_many_shares_is_judged_beside_the_event_loop_and_alike() -> None:
    desk = Desk(**BILLING)
    looks: dict[str, tuple[int, int, float | None]] = {
        f"billing___{number}": (100, 150, 90.0 if number == 7 else 1.0) for number in range(600)
    }
    await desk.look(**looks)
    observed = await observe_lagpolicy(desk.operator.context, POLICY, ())
    assert observed is not None
    assert is_long(observed)
    assert (desk.status["groupPartitions"], desk.status["worst"]["partition"]) == (
        {"OK": 599, "Unknown": 1},
        7,
    )
    few = Desk(**BILLING)
    await few.look(billing=(100, 150, 1.0))
    observed = await observe_lagpolicy(few.operator.context, POLICY, ())
    assert observed is not None
    assert not is_long(observed)
