"""Kafka goes away just after a change: the previous revision would not run either, so nothing is rolled back while, or because, it is away."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import Restarts, UpgradePhase, UpgradeStatus
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.upgrade.rollback import find_failure
from unit.control.lives import CLUSTER, Life
from unit.control.pipelines import NOW, SPEC, pod
from unit.control.test_operator_absence import change, phase_of, poll, silence, status_of
from unit.control.test_upgrade_plan import change as dry_run
from unit.control.test_upgrade_plan import changed, decide, look, standby, upgrade_of

CLUSTER_REF = ObjectRef("kappa-platform.io/v1alpha1", CLUSTER.kind, CLUSTER.namespace, CLUSTER.name)


def judge(crashes: int, outages: int, *, failed: timedelta = timedelta(0), **spec: Any) -> str:
    """Return why a change is rolled back whose last driver died so long after the handover, of its own or of an outage."""
    reason = Reason.KAFKA_UNAVAILABLE if outages else Reason.DRIVER_CRASHED
    restarts = Restarts(
        crashes=crashes,
        kafka_unavailable=outages,
        next_start=NOW + failed + timedelta(minutes=5),
        last_reason=reason,
        last_failure="why",
    )
    watched = UpgradeStatus(phase=UpgradePhase.WATCHING, revision="new", since=NOW)
    return find_failure(watched, restarts, None, PipelineSpec.model_validate(SPEC), NOW + failed) or ""


def test_crashes_in_an_outage_do_not_count_and_others_do() -> None:
    assert judge(2, 2) == ""
    assert judge(9, 8) == ""
    assert judge(2, 0) == "DriverCrashed: why"
    assert judge(9, 7) == "KafkaUnavailable: why"


def test_drivers_that_do_not_find_kafka_after_the_health_timeout_are_at_fault() -> None:
    assert judge(3, 3, failed=timedelta(minutes=5)) == ""
    assert judge(3, 3, failed=timedelta(minutes=6)) == "KafkaUnavailable: why"
    assert judge(1, 1, failed=timedelta(minutes=6)) == ""


def show(life: Life, status: str) -> None:
    """Have the check of the operator find Kafka connected, or not."""
    at = life.operator.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": status,
        "reason": "Connected" if status == "True" else "BrokerUnreachable",
    }
    life.operator.cluster.patch(
        CLUSTER_REF, status={"conditions": [{**ready, "message": "", "lastTransitionTime": at}]}
    )


@pytest.mark.parametrize("minutes", [6, 20])
async def test_no_time_counts_while_kafka_is_away_nor_just_afterwards(minutes: int) -> None:
    life = await change()
    revision, kept = status_of(life)["runs"][0]["revision"], silence(life)
    show(life, "False")
    await poll(life, minutes * 60)
    assert phase_of(life) == UpgradePhase.WATCHING
    show(life, "True")
    await poll(life, 4 * 60)
    assert phase_of(life) == UpgradePhase.WATCHING
    life.operator.drivers.progress.update(kept)
    await life.settle()
    assert phase_of(life) == UpgradePhase.DONE
    assert status_of(life)["runs"][0]["revision"] == revision


async def test_a_driver_that_does_not_run_for_the_health_timeout_after_an_outage_is_rolled_back() -> None:
    life = await change()
    silence(life)
    show(life, "False")
    await poll(life, 600)
    show(life, "True")
    await poll(life, 400)
    assert phase_of(life) == UpgradePhase.ROLLING_BACK


@pytest.mark.parametrize(("connected", "attempts"), [(timedelta(0), 2), (timedelta(seconds=-1), 3)])
def test_an_outage_is_no_failure_of_the_standby(connected: timedelta, attempts: int) -> None:
    end = DriverExit(reason=Reason.KAFKA_UNAVAILABLE, message="no broker answers")
    begun = dry_run(attempts=2, since=NOW)
    seen = look(changed(upgrade=begun), pod(), standby(phase="Failed", exit=end))
    _, status = decide(replace(seen, connected_since=NOW + connected))
    assert upgrade_of(status).attempts == attempts
    assert upgrade_of(status).phase is (UpgradePhase.REFUSED if attempts == 3 else UpgradePhase.DRY_RUN)
