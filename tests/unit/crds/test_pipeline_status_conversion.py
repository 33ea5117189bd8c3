"""A status of release 0.1 is read as a list of runs. `pipeline_statuses.json` was recorded from that release, at each step of each change."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.release import write_as_release_0_1
from kappa_crds.conversion import convert
from kappa_crds.pipeline_status import AT_WORK, PipelineStatus, RunRole, UpgradePhase

RECORDED = json.loads(Path(__file__).with_name("pipeline_statuses.json").read_text())
STATUSES: list[dict[str, Any]] = [each["status"] for each in RECORDED]
PRESENT = set(PipelineStatus().to_manifest()) | {"recovery", "restoration", "upgrade"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=2)
)


def convert_status(stored: Any) -> Any:
    return convert("Pipeline", {"status": stored})["status"]


def read_status(stored: dict[str, Any]) -> PipelineStatus:
    return PipelineStatus.model_validate(convert_status(stored))


def test_every_phase_is_recorded() -> None:
    phases = {(status.get("upgrade") or {}).get("phase") for status in STATUSES}
    later = {UpgradePhase.DRY_RUN, UpgradePhase.REPROCESSING, UpgradePhase.SOAKING}
    assert {"Rehearsing", None, *phases} == {None, "Rehearsing", *UpgradePhase} - later


@pytest.mark.parametrize("old", STATUSES, ids=[each["scene"] for each in RECORDED])
def test_a_recorded_status_becomes_runs_without_a_field_left_over(old: dict[str, Any]) -> None:
    status = read_status(old)
    assert not status.model_extra
    active, change = status.active, old.get("upgrade", {})
    assert (active.generation, active.revision, active.driver) == (
        old["generation"],
        old.get("revision"),
        old.get("driver"),
    )
    assert (active.checkpoint, active.driver_uid) == (old["runningCheckpoint"], old.get("driverUid"))
    assert (active.stopping_since is None) == ("stoppingSince" not in old)
    assert status.last_generation == max(old["generation"], change.get("generation", 0))
    is_at_work = status.upgrade is not None and status.upgrade.phase in AT_WORK
    assert (status.standby is not None) == is_at_work
    if status.standby is not None:
        assert (status.standby.generation, status.standby.driver_uid) == (
            change["generation"],
            change.get("uid"),
        )
        assert status.standby.revision == change["revision"]


@pytest.mark.parametrize("old", STATUSES, ids=[each["scene"] for each in RECORDED])
def test_nothing_is_lost(old: dict[str, Any]) -> None:
    back = write_as_release_0_1(convert_status(old))
    if old.get("upgrade", {}).get("phase") not in ("Rehearsing", "Saving", "HandingOver"):
        for status in (old, back):  # the driver that took over is the active run, which has both
            status.get("upgrade", {}).pop("uid", None)
            status.get("upgrade", {}).pop("generation", None)
    assert back == old


@pytest.mark.parametrize("old", STATUSES, ids=[each["scene"] for each in RECORDED])
def test_the_present_form_is_not_converted_again(old: dict[str, Any]) -> None:
    present = read_status(old).to_manifest()
    assert convert_status(present) is present
    assert read_status(present).to_manifest() == present


def test_fields_that_neither_version_knows_survive_at_every_level() -> None:
    old = json.loads(json.dumps(next(each for each in STATUSES if "upgrade" in each)))
    for part in (old, old["upgrade"], old["restarts"]):
        part["fromAnotherVersion"] = {"kept": [1]}
    status = read_status(old).to_manifest()
    for part in (status, status["upgrade"], status["restarts"]):
        assert part["fromAnotherVersion"] == {"kept": [1]}


@pytest.mark.parametrize("old", STATUSES, ids=[each["scene"] for each in RECORDED])
def test_defaults_that_the_api_server_adds_to_the_old_form_change_nothing(old: dict[str, Any]) -> None:
    defaulted = {"runs": [], "lastGeneration": 0, **old}
    assert read_status(defaulted) == read_status(old)


def test_after_a_rollback_of_the_operator_the_fields_that_the_older_one_wrote_count() -> None:
    present = {"runs": [{"role": "active", "generation": 3}], "lastGeneration": 7}
    status = read_status({**present, "generation": 5, "driver": "counts-driver-5"})
    assert [(run.role, run.generation, run.driver) for run in status.runs] == [
        (RunRole.ACTIVE, 5, "counts-driver-5")
    ]
    assert status.last_generation == 7


@given(st.dictionaries(st.sampled_from(["generation", "driver", "upgrade", "restarts", "runs", "x"]), JSON))
def test_no_status_makes_the_conversion_fail(stored: dict[str, Any]) -> None:
    assert convert_status(convert_status(stored)) == convert_status(stored)
