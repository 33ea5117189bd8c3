"""What a LagPolicy does about a real pipeline that is too slow: executors come and go, and one that stands still gets another driver.

An executor of the pipeline takes some 95 records a second, whatever else the processors have to do: it sleeps for each of them.
"""

import itertools
import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.place import Place
from e2e.traffic import Traffic
from e2e.watching import NOT_OF_A_PIPELINE, build_config, monitored
from kappa_crds.lagpolicy import LagPolicyStatus
from kappa_crds.lagremediation import RemediationKind, RemediationResult, RemediationStatus
from kappa_crds.lagstate import LagState
from kappa_crds.pipeline_status import PipelineState, PipelineStatus, UpgradePhase
from lab import kafka
from monitored.servers import Monitoring, list_queries

BASE = 60.0
"""Records a second: one executor takes half as many again, and not twice as many."""
DRAIN_SECONDS, QUIET_SECONDS, BOUND = 180, 60, 20
NOISE_QUIET = "5m"
"""Half of the default: the load changes each quarter of a minute and is smoothed over one, so that a minute of it can look quiet."""
NOISE_MINUTES = float(os.environ.get("KAPPA_NOISE_MINUTES", "20"))
pytestmark = [pytest.mark.timeout(1200 + 60 * NOISE_MINUTES), pytest.mark.chaos]

GOLD = f"""
apiVersion: kappa-platform.io/v1alpha1
kind: LagPolicy
metadata: {{name: gold}}
spec:
  selector: {{pipelines: {{names: [slow]}}}}
  warning: {{lag: {BOUND}s, for: 10s}}
  window: 2m
  clearAfter: 20s
  unknownAfter: 1m
  remediation:
    scale: {{min: 1, max: 3, drainWithin: {DRAIN_SECONDS}s, coolDown: 1m, quietFor: {QUIET_SECONDS}s}}
"""
STUCK = """
apiVersion: kappa-platform.io/v1alpha1
kind: LagPolicy
metadata: {name: stuck}
spec:
  selector: {pipelines: {names: [slow]}}
  warning: {lag: 1h}
  window: 30s
  clearAfter: 10s
  remediation: {restartStalled: {atMost: 2, coolDown: 5m}}
"""
STOP_JVM = """
import os, pathlib, signal
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    if (entry / "comm").read_text().strip() == "java":
        os.kill(int(entry.name), signal.SIGSTOP)
"""
SAVEPOINT = """
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {name: seen}
spec: {pipelineRef: slow}
"""


@dataclass(frozen=True)
class Slow:
    """The slow pipeline, and the records that come in for it."""

    place: Place
    traffic: Traffic

    def count_wanted(self) -> int:
        """Return how many executors the spec asks for."""
        spec = json.loads(self.place.kubectl("get", "pipeline", "slow", "-o", "json"))["spec"]
        count: int = spec["resources"]["executors"]["count"]
        return count

    def await_executors(self, count: int, seconds: float) -> PipelineStatus:
        """Wait until it runs with so many executors, and that has shown to work."""

        def runs(status: PipelineStatus) -> bool:
            settled = status.upgrade is None or status.upgrade.phase is UpgradePhase.DONE
            return status.state == PipelineState.RUNNING and status.executors == count and settled

        return self.place.await_pipeline(runs, f"runs with {count} executors", seconds, name="slow")

    def find_remediation(self, policy: str, kind: RemediationKind) -> RemediationStatus:
        """Return the last remediation of a kind."""
        (found,) = [each for each in self.place.policy(policy).remediations if each.kind is kind]
        return found


@pytest.fixture(scope="module")
def slow(platform: None) -> Iterator[Slow]:
    place = Place.create("lag")
    place.apply(place.render("slow.yaml"))
    for topic in ("events", "passed"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    with Traffic(kafka.host_bootstrap(), f"{place.name}-events", 6, BASE) as traffic:
        place.await_ready("pipeline/slow")
        yield Slow(place, traffic)
    place.empty()


@pytest.fixture(scope="module")
def gold(slow: Slow) -> Iterator[Slow]:
    """The pipeline with a policy that scales it."""
    slow.place.apply(GOLD)
    slow.place.await_health("gold", "True", 120)
    yield slow
    slow.place.kubectl("delete", "lagpolicy/gold", "--timeout=60s")


@pytest.fixture(scope="module")
def watched(slow: Slow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    with monitored(slow.place, tmp_path_factory.mktemp("watched")) as monitoring:
        yield monitoring


def is_drained(status: LagPolicyStatus) -> bool:
    return (
        status.state == LagState.OK.value
        and status.worst is not None
        and (status.worst.lag_seconds or 0) < BOUND
    )


def test_when_load_doubles_an_executor_is_added_what_waits_is_drained_and_it_is_taken_away_again(
    gold: Slow, watched: Monitoring, capsys: pytest.CaptureFixture[str]
) -> None:
    place, began = gold.place, time.monotonic()
    times: dict[str, float] = {}

    def note(what: str) -> None:
        times[what] = time.monotonic() - began

    gold.traffic.rate = 2 * BASE
    late = place.await_health("gold", "False", 240)
    note("unhealthy")
    assert late.worst is not None
    assert (late.worst.state, late.worst.topic) == (LagState.WARNING, f"{place.name}-events")
    assert "over spec.warning.lag" in late.worst.why
    alert = {"namespace": place.name, "lagpolicy": "gold"}
    watched.await_alert("KappaLagPolicyWarning", "firing", alert)
    place.wait(lambda: gold.count_wanted() == 2, "the spec asks for two executors", 240)
    note("decided")
    gold.await_executors(2, 240)
    note("two executors")
    place.wait(lambda: is_drained(place.policy("gold")), "what waited is drained", DRAIN_SECONDS)
    note("drained")
    record = gold.find_remediation("gold", RemediationKind.SCALE)
    assert (record.before, record.wanted, record.result) == ("1", "2", RemediationResult.DONE)
    watched.await_alert("KappaLagPolicyWarning", "resolved", alert)

    gold.traffic.rate = BASE
    place.wait(lambda: gold.count_wanted() == 1, "the spec asks for one executor again", 4 * QUIET_SECONDS)
    note("fewer decided")
    gold.await_executors(1, 240)
    note("one executor")
    assert [reason for reason, _ in place.events("gold") if reason == "PipelineScaled"] == [
        "PipelineScaled"
    ] * 2
    with capsys.disabled():
        print("\n  " + ", ".join(f"{what} {at:.0f} s" for what, at in times.items()), f"; {record.why}")


def test_noisy_load_does_not_make_it_flap(gold: Slow, capsys: pytest.CaptureFixture[str]) -> None:
    """Around what one executor takes: for some seconds it is far too much, and for others next to nothing."""
    gold.place.patch("lagpolicy/gold", {"remediation": {"scale": {"quietFor": NOISE_QUIET}}})
    dice, end = random.Random(7), time.monotonic() + 60 * NOISE_MINUTES
    counts = [gold.count_wanted()]
    while time.monotonic() < end:
        gold.traffic.rate = 75 * dice.uniform(0.3, 1.7)
        time.sleep(min(dice.uniform(5, 25), max(0.0, end - time.monotonic())))
        counts.append(gold.count_wanted())
    changes = [now for before, now in itertools.pairwise(counts) if now != before]
    with capsys.disabled():
        print(
            f"\n  executors in {NOISE_MINUTES:g} minutes of noise: {counts[0]}, then {changes or 'no other'}"
        )
    assert len(changes) <= 1
    gold.traffic.rate = BASE
    gold.place.await_health("gold", "True", 120)


def test_each_query_of_each_dashboard_has_data_of_a_pipeline_with_event_time(
    gold: Slow, watched: Monitoring
) -> None:
    place = gold.place
    place.apply(SAVEPOINT)
    variables = {
        "namespace": place.name, "pipeline": "slow", "cluster_name": f"{place.name}/main", "topic": f"{place.name}-events",
    }  # fmt: skip
    gold.traffic.rate = BASE
    queries = {
        name: query
        for name, query in list_queries(build_config(), variables).items()
        if not any(metric in query for metric in NOT_OF_A_PIPELINE)
    }
    assert watched.find_empty(queries, 120) == {}


def test_a_stalled_driver_is_restarted_from_its_checkpoint(slow: Slow) -> None:
    place = slow.place
    slow.traffic.rate = BASE / 2
    before = place.await_pipeline(lambda status: status.state == PipelineState.RUNNING, "runs", name="slow")
    place.apply(STUCK)
    place.await_health("stuck", "True", 120)
    place.kubectl("exec", before.active.driver or "", "--", "python3", "-c", STOP_JVM)
    stalled = place.await_health("stuck", "False", 120)
    assert stalled.state == LagState.STALLED.value
    after = place.await_pipeline(
        lambda status: (
            status.state == PipelineState.RUNNING and status.active.generation > before.active.generation
        ),
        "runs again",
        300,
        name="slow",
    )
    assert (after.batch or 0) >= (before.batch or 0)
    record = slow.find_remediation("stuck", RemediationKind.RESTART_STALLED)
    assert (record.count, record.result) == (1, RemediationResult.DONE)
    place.await_health("stuck", "True", 180)
    assert "PipelineRestarted" in [reason for reason, _ in place.events("stuck")]
