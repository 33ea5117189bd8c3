"""A pipeline's life on the whole cluster: start, scale, change, suspend, failures. Records come in all the time.

After each step every result is exact: see `e2e.ledger`. And a watch has seen each driver pod from its making to its end.
"""

import json
import re

import pytest

from e2e.counting import Counting
from e2e.faults import KILL_JVM
from e2e.place import START_SECONDS
from kappa_crds.pipeline_status import PipelineState, PipelineStatus, UpgradePhase
from kappa_crds.upgrade import Handover, VerdictKind
from lab import kafka
from lab.groups import read_committed

pytestmark = pytest.mark.timeout(900)


def is_running(status: PipelineStatus, generation: int) -> bool:
    """Return whether a driver of this generation runs, or a later one: a change that came to nothing leaves its number unused."""
    return status.state == PipelineState.RUNNING and status.active.generation >= generation


def await_generation(counting: Counting, generation: int) -> PipelineStatus:
    return counting.place.await_pipeline(
        lambda status: is_running(status, generation), f"runs as generation {generation}"
    )


def read_revision(counting: Counting) -> dict[str, str]:
    name = counting.place.pipeline().active.revision
    data = json.loads(counting.place.kubectl("get", "configmap", name or "", "-o", "json"))["data"]
    found: dict[str, str] = json.loads(data["revision.json"])
    return found


def test_a_pipeline_from_manifests_is_ready_and_its_results_are_correct(counting: Counting) -> None:
    counting.check()
    assert counting.ledger.results > 0
    assert set(counting.ledger.counted) == set(counting.ledger.written)


def test_its_consumer_group_shows_how_far_it_is(counting: Counting) -> None:
    counting.check()
    group, topic = f"kappa.{counting.place.name}.counts", counting.ledger.source
    wanted = counting.ledger.total

    def committed() -> int:
        return sum(read_committed(kafka.host_bootstrap(), group, topic, range(4)).values())

    counting.place.wait(lambda: committed() >= wanted, f"group {group} is at {wanted} records", 30)


def test_kubectl_get_fills_every_column(counting: Counting) -> None:
    status = counting.place.await_pipeline(
        lambda status: status.batch is not None and status.rate is not None, "reports a batch", 30
    )
    header, line = counting.place.kubectl("get", "kpp", "counts", "-o", "wide").splitlines()
    assert header.split() == [
        *("NAME", "READY", "STATE", "LAG", "RATE", "GUARANTEE", "EXECUTORS", "REVISION"),
        *("RECOVERY", "RESTARTS", "REASON", "MESSAGE", "AGE"),
    ]
    for shown in (
        "True",
        "Running",
        "records",
        "/s",
        "AtLeastOnce",
        "Running",
        "batch",
        status.active.revision,
    ):
        assert f"{shown}" in line
    assert "<none>" not in line


@pytest.mark.chaos
def test_kubectl_scale_starts_a_new_revision_with_that_many_executors(counting: Counting) -> None:
    before = counting.place.pipeline()
    counting.place.kubectl("scale", "kpp", "counts", "--replicas=1")
    after = await_generation(counting, before.active.generation + 1)
    counting.check()
    assert after.active.revision != before.active.revision
    scale = json.loads(
        counting.place.kubectl(
            "get",
            "--raw",
            f"/apis/kappa-platform.io/v1alpha1/namespaces/{counting.place.name}/pipelines/counts/scale",
        )
    )
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (1, 1)
    executors = counting.place.find("pods", scale["status"]["selector"])
    assert [pod["status"]["phase"] for pod in executors] == ["Running"]


def test_a_change_of_spec_has_a_dry_run_and_takes_over_the_same_checkpoint(counting: Counting) -> None:
    before, checkpoint = counting.place.pipeline(), read_revision(counting)["checkpoint"]
    counting.place.patch(
        "kpp/counts", {"trigger": {"maxRecords": 50_000}, "resources": {"executors": {"count": 0}}}
    )
    after = await_generation(counting, before.active.generation + 1)
    counting.check()
    assert read_revision(counting)["checkpoint"] == checkpoint
    assert after.restarts.total == before.restarts.total, "a stop that was asked for is no failure"
    assert (after.batch or 0) > (before.batch or 0), "batches are numbered on"
    change = counting.place.await_pipeline(
        lambda status: status.upgrade is not None and status.upgrade.phase is UpgradePhase.DONE, "is done", 30
    ).upgrade
    assert change is not None
    assert (change.handover, change.previous) == (Handover.WARM, before.active.revision)
    assert change.verdict is not None
    assert change.verdict.kind is VerdictKind.RESUME
    assert counting.place.pipeline().active.generation == after.active.generation


@pytest.mark.chaos  # `make test` has every kind of such changes on Spark
def test_a_change_that_the_state_does_not_fit_is_refused_and_nothing_stops(counting: Counting) -> None:
    before = counting.place.pipeline()
    good = counting.place.get("Pipeline", "counts").spec.views[0].sql
    change_view(counting, good.replace("max(seq)", "min(seq)"))
    said = counting.place.await_reason("Pipeline", "counts", "UpgradeRefused", START_SECONDS).message
    assert "the previous revision continues" in said
    assert "view 'counted': new aggregates without state: min(" in said
    counting.check()
    after = counting.place.pipeline()
    assert (after.active.driver_uid, after.state) == (before.active.driver_uid, PipelineState.RUNNING)
    change_view(counting, good)
    counting.place.await_reason("Pipeline", "counts", "Running", 30)
    assert counting.place.pipeline().active.driver_uid == before.active.driver_uid


def change_view(counting: Counting, sql: str) -> None:
    view = {"name": "counted", "sql": sql, "allowUnboundedState": True}
    counting.place.patch("kpp/counts", {"views": [view]})


def test_a_suspended_pipeline_stays_stopped_and_continues_with_its_changes(
    counting: Counting,
) -> None:
    before, checkpoint = counting.place.pipeline(), read_revision(counting)["checkpoint"]
    counting.place.patch("kpp/counts", {"suspend": True})
    counting.place.await_reason("Pipeline", "counts", "Suspended")
    counting.place.wait(lambda: counting.place.drivers() == [], "no driver pod is left", 30)
    written = counting.ledger.total
    counting.ledger.read()
    counted = dict(counting.ledger.counted)
    counting.place.wait(lambda: counting.ledger.total > written + 1000, "records come in", 30)
    counting.ledger.read()
    assert counting.ledger.counted == counted, "a suspended pipeline counts nothing"
    changed = {"trigger": {"maxRecords": 60_000}, "resources": {"executors": {"count": 0}}}
    counting.place.patch("kpp/counts", {"suspend": False, "statePartitions": 3, **changed})
    after = await_generation(counting, before.active.generation + 1)
    counting.check()
    assert (before.shuffle_partitions, after.shuffle_partitions) == (1, 3), "its state was divided"
    assert after.active.revision != before.active.revision
    assert read_revision(counting)["checkpoint"] == checkpoint
    assert after.restarts.total == before.restarts.total, "a stop that was asked for is no failure"
    assert (after.batch or 0) > (before.batch or 0), "batches are numbered on"


@pytest.mark.chaos
def test_what_was_changed_while_it_was_suspended_and_does_not_fit_is_taken_back(counting: Counting) -> None:
    good = counting.place.get("Pipeline", "counts").spec.views[0].sql
    counting.place.patch("kpp/counts", {"suspend": True})
    counting.place.await_reason("Pipeline", "counts", "Suspended")
    before = counting.place.pipeline()
    change_view(counting, good.replace("max(seq)", "min(seq)"))
    counting.place.patch("kpp/counts", {"suspend": False})
    said = counting.place.await_reason("Pipeline", "counts", "RolledBack", START_SECONDS).message
    assert "view 'counted': new aggregates without state: min(" in said
    counting.check()
    after = counting.place.pipeline()
    assert (after.state, after.active.revision) == (PipelineState.RUNNING, before.active.revision)
    change_view(counting, good)
    counting.place.await_reason("Pipeline", "counts", "Running", 30)
    assert counting.place.pipeline().active.driver_uid == after.active.driver_uid


@pytest.mark.chaos  # starts a driver; `make test` kills those of `test_cdc`
def test_a_driver_whose_jvm_is_killed_is_started_again(counting: Counting) -> None:
    before = counting.place.pipeline()
    counting.place.kubectl("exec", before.active.driver or "", "--", "python3", "-c", KILL_JVM)
    after = await_generation(counting, before.active.generation + 1)
    counting.check()
    assert after.restarts.total == before.restarts.total + 1
    assert after.restarts.crashes == before.restarts.crashes + 1
    assert after.restarts.last_reason == "DriverCrashed"
    recovered = counting.place.await_pipeline(
        lambda status: status.recovery is not None and status.recovery.generation == after.active.generation,
        "shows how long its start took",
        60,
    ).recovery
    assert recovered is not None
    assert not recovered.warm
    assert recovered.seconds >= (recovered.prepare_seconds or 0) > 0
    assert recovered.state_rows == len(counting.ledger.counted)
    assert recovered.took in counting.place.kubectl("get", "kpp", "counts", "-o", "wide")


@pytest.mark.chaos
def test_a_driver_pod_deleted_by_force_is_started_again_after_a_pause(counting: Counting) -> None:
    before = counting.place.pipeline()
    counting.place.kubectl("delete", "pod", before.active.driver or "", "--force", "--grace-period=0")
    said = f"its node was lost; failure {before.restarts.crashes + 1} in a row, next start after back-off"
    counting.place.wait(
        lambda: counting.place.ready("Pipeline", "counts").message.endswith(said),
        "the pause is announced",
        60,
    )
    after = await_generation(counting, before.active.generation + 1)
    counting.check()
    assert after.restarts.total == before.restarts.total + 1
    assert after.restarts.last_reason == "DriverLost"


BAD_SQL = {
    "InvalidSql": ("\n  max(seq AS last", r"'counted'.*line 2, column"),
    "UnknownColumn": (
        "max(sequ) AS last",
        r"'counted', line 1, column.*no column 'sequ'.*did you mean.*\bseq\b",
    ),
}
"""What is wrong, what stands for `max(seq) AS last`, and what the message is like."""


@pytest.mark.chaos
@pytest.mark.parametrize("wrong", BAD_SQL)
def test_invalid_sql_is_refused_with_its_place_while_the_pipeline_continues(
    counting: Counting, wrong: str
) -> None:
    before = counting.place.pipeline()
    good = counting.place.get("Pipeline", "counts").spec.views[0].sql
    text, words = BAD_SQL[wrong]
    change_view(counting, good.replace("max(seq) AS last", text))
    said = counting.place.await_reason("Pipeline", "counts", "UpgradeRefused", START_SECONDS).message
    assert re.search(words, said, re.DOTALL), said
    change_view(counting, good)
    counting.place.await_reason("Pipeline", "counts", "Running", 30)
    counting.check()
    assert counting.place.pipeline().active.driver_uid == before.active.driver_uid
