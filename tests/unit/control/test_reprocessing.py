"""A change in mode Shadow: a second run computes the log beside the active one, is compared with it, takes over, and can be rolled back."""

from typing import Any

import pytest

from fakes.context import build_resource
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.lag.model import Partition, PartitionLog
from kappa_operator.lagpolicy.remediation.observe import read_pipeline
from kappa_operator.log.facts import PartitionFacts, Record
from kappa_operator.pipeline.objects import REVISION_LABEL
from unit.control.lives import CRASH, HOPELESS, PIPELINE, both, take_savepoint, write
from unit.control.reprocessings import (
    FIXED,
    OTHER,
    SPEC,
    check,
    delete_reprocessing,
    describe,
    fail_active,
    fail_new,
    find_active_revision,
    find_all,
    live,
    pause_at,
    read_revision,
    request,
)

MANUAL = {"mode": "Shadow", "reprocessing": {"soak": "1m", "outputs": "Delete"}}
BY_HAND = {**FIXED, "upgrade": MANUAL}
OLD = {"active": (1, 0, 0)}
NEW = {"active": (2, 1, 1)}


def get_conditions(body: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in body["status"]["conditions"]}


async def test_a_change_of_what_is_computed_is_reprocessed_and_cut_over_without_a_driver_that_stops() -> None:
    life = await live(write(SPEC), both(pause_at("Soaking"), write(FIXED)))
    soaking = describe(life)
    assert soaking["runs"] == {"active": (2, 1, 1), "soaking": (1, 0, 0)}
    assert (soaking["change"], soaking["outputs"], soaking["alive"]) == ("Soaking", ["out.r1"], 2)
    await life.settle()
    assert describe(life) == {
        "phases": ["Done"],
        "change": "Done",
        "runs": NEW,
        "outputs": ["out.r1"],
        "checkpoint": 1,
        "alive": 1,
        "topics": ["in", "out", "out.r1"],
    }
    check(life)
    assert len(life.node.made) == 2
    cut = find_all(life)[0]["status"]["cut"]
    assert [cut[name] for name in ("inputs", "old", "new")] == [
        [{"topic": "in", "offsets": {"0": 100}}],
        [{"topic": "out", "offsets": {"0": 50}}],
        [{"topic": "out.r1", "offsets": {"0": 70}}],
    ]


async def test_a_change_of_something_else_is_made_as_with_last_state() -> None:
    life = await live(write(SPEC), write({**SPEC, "trigger": {"maxRecords": 10}}))
    assert (describe(life)["phases"], describe(life)["change"]) == ([], "Done")
    assert describe(life)["runs"] == {"active": (2, 0, 0)}


async def test_the_gate_of_the_cutover_waits_for_a_person_and_a_second_request_of_the_same_is_refused() -> (
    None
):
    life = await live(write(SPEC), write(BY_HAND))
    assert describe(life)["phases"] == ["ReadyToCut"]
    ready = get_conditions(find_all(life)[0])["Ready"]
    assert ready == ("False", "WaitingForPerson")
    assert describe(life)["runs"] == {**OLD, "shadow": (2, 1, 1)}
    both(pause_at("Soaking"), request("Cut"))(life)
    await life.settle()
    assert describe(life)["change"] == "Soaking"


@pytest.mark.parametrize("start", ["Proving", "CatchingUp", "Comparing", "ReadyToCut"])
async def test_an_abort_leaves_the_active_version_and_drops_the_topics_where_the_policy_wants_that(
    start: str,
) -> None:
    life = await live(write(SPEC), both(pause_at(start), write(BY_HAND)), request("Abort"))
    end = describe(life)
    assert (end["phases"], end["change"], end["runs"], end["alive"]) == (["Aborted"], "Refused", OLD, 1)
    assert end["topics"] == ["in", "out"]
    assert "out.r1" not in life.operator.brokers["kafka:9092"].topics
    assert life.node.made[0] == "delays-driver-1"
    assert "a person requested it" in life.operator.get(PIPELINE)["status"]["conditions"][0]["message"]  # type: ignore[index]


async def test_without_that_policy_the_topics_stay() -> None:
    kept = {**BY_HAND, "upgrade": {"mode": "Shadow"}}
    life = await live(write(SPEC), write(kept), request("Abort"))
    assert describe(life)["topics"] == ["in", "out", "out.r1"]


async def test_a_rollback_makes_the_old_version_active_again_and_its_outputs_those_that_readers_follow() -> (
    None
):
    life = await live(write(SPEC), both(pause_at("Soaking"), write(FIXED)), request("Rollback"))
    end = describe(life)
    assert (end["phases"], end["change"], end["runs"]) == (["RolledBack"], "RolledBack", OLD)
    assert (end["outputs"], end["checkpoint"], end["alive"]) == (["out"], 0, 1)
    assert len(life.node.made) == 2
    assert find_all(life)[0]["status"]["rollbackCut"]["new"] == [{"topic": "out", "offsets": {"0": 50}}]


async def test_a_new_version_that_fails_while_the_old_one_soaks_is_rolled_back_without_a_common_cut() -> None:
    life = await live(write(SPEC), both(pause_at("Soaking"), write(FIXED)), fail_active(CRASH))
    end = describe(life)
    assert (end["phases"], end["change"], end["runs"]) == (["RolledBack"], "RolledBack", OLD)
    assert "inputs" not in (cut := find_all(life)[0]["status"]["rollbackCut"]) or cut["inputs"] == []


async def test_a_rollback_waits_for_a_new_version_whose_driver_was_lost_once() -> None:
    life = await live(write(SPEC), both(pause_at("Soaking"), write(FIXED)))
    life.node.crash = CRASH
    life.node.step()
    request("Rollback")(life)
    reprocessing = Key("Reprocessing", "shop", find_all(life)[0]["metadata"]["name"])
    for _ in range(100):  # seconds in which no driver starts
        await life.operator.reconcile(PIPELINE)
        await life.operator.reconcile(reprocessing)
        life.operator.clock.advance(1)
    assert describe(life)["phases"] == ["RollingBack"]
    await life.settle()
    assert describe(life)["phases"] == ["RolledBack"]
    assert find_all(life)[0]["status"]["rollbackCut"]["new"] == [{"topic": "out", "offsets": {"0": 50}}]


async def test_a_new_version_that_cannot_run_fails_and_one_that_crashes_is_started_again() -> None:
    hopeless = await live(write(SPEC), both(fail_new(HOPELESS), write(FIXED)))
    assert (describe(hopeless)["phases"], describe(hopeless)["runs"]) == (["Failed"], OLD)
    assert "no such column" in find_all(hopeless)[0]["status"]["why"]
    crashing = await live(write(SPEC), both(pause_at("CatchingUp"), write(FIXED)))
    both(fail_new(CRASH))(crashing)
    for _ in range(80):
        await crashing.step()
    assert len(crashing.node.made) > 3
    assert describe(crashing)["phases"] == ["CatchingUp"]
    crashing.node.broken = lambda _pod: None
    await crashing.settle()
    assert describe(crashing)["phases"] == ["Done"]


@pytest.mark.parametrize("start", ["Proving", "CatchingUp", "Comparing", "ReadyToCut"])
async def test_another_spec_aborts_it_and_begins_the_next_and_the_former_spec_only_aborts_it(
    start: str,
) -> None:
    to_other = await live(write(SPEC), both(pause_at(start), write(BY_HAND)), write(OTHER))
    assert sorted(describe(to_other)["phases"]) == ["Aborted", "Done"]
    assert set(describe(to_other)["runs"]) == {"active"}
    back = await live(write(SPEC), both(pause_at(start), write(BY_HAND)), write(SPEC))
    assert (describe(back)["phases"], describe(back)["runs"], describe(back)["change"]) == (
        ["Aborted"],
        OLD,
        "Withdrawn",
    )
    assert len([name for name in back.node.made if name.endswith("-1")]) == 1


async def test_a_change_of_the_spec_ends_the_soak_time_first() -> None:
    life = await live(write(SPEC), both(pause_at("Soaking"), write(FIXED)), write(OTHER))
    assert describe(life)["phases"] == ["Done", "Done"]
    assert describe(life)["outputs"] == ["out.r2"]


@pytest.mark.parametrize(
    ("start", "end"), [("Proving", OLD), ("CatchingUp", OLD), ("ReadyToCut", OLD), ("Soaking", NEW)]
)
async def test_a_deletion_ends_it_before_it_is_gone(start: str, end: dict[str, Any]) -> None:
    spec = FIXED if start == "Soaking" else BY_HAND
    life = await live(write(SPEC), both(pause_at(start), write(spec)), delete_reprocessing)
    assert (describe(life)["phases"], describe(life)["runs"]) == ([], end)
    assert life.node.count_alive() == 1


async def test_outputs_that_differ_wait_for_a_person_who_may_cut_over_nevertheless() -> None:
    life = await live(write(SPEC))
    life.operator.drivers.differing = 3
    write(FIXED)(life)
    await life.settle()
    assert get_conditions(find_all(life)[0])["Ready"] == ("False", "OutputsDiffer")
    assert find_all(life)[0]["status"]["comparison"]["unexpected"] == 3
    request("Compare")(life)
    await life.settle()
    assert find_all(life)[0]["status"]["comparison"]["number"] == 2
    request("Cut")(life)
    await life.settle()
    assert describe(life)["phases"] == ["Done"]


async def test_a_request_that_fits_no_phase_is_refused_once_and_not_carried_out_later() -> None:
    life = await live(write(SPEC), both(pause_at("ReadyToCut"), write(BY_HAND)), request("Rollback"))
    assert find_all(life)[0]["status"]["request"] == {"action": "Rollback", "id": ""}
    both(pause_at("Soaking"), request("Cut"))(life)
    await life.settle()
    assert describe(life)["change"] == "Soaking"


async def test_a_reprocessing_that_a_person_wrote_has_no_effect() -> None:
    life = await live(write(SPEC))
    life.operator.cluster.put(build_resource("Reprocessing", "delays-0123456789", pipelineRef="delays"))
    await life.settle()
    (body,) = find_all(life)
    assert (body["status"]["state"], describe(life)["runs"]) == ("Ignored", OLD)
    assert body["metadata"].get("finalizers", []) == []


async def test_a_suspended_pipeline_rests_with_both_drivers_and_resumes_with_both() -> None:
    life = await live(write(SPEC), write(BY_HAND), write({**BY_HAND, "suspend": True}))
    assert (describe(life)["phases"], describe(life)["alive"]) == (["ReadyToCut"], 0)
    write(BY_HAND)(life)
    await life.settle()
    assert describe(life)["alive"] == 2
    request("Cut")(life)
    await life.settle()
    assert (describe(life)["phases"], describe(life)["outputs"]) == (["Done"], ["out.r1"])


async def test_a_version_whose_topic_is_in_kafka_from_a_former_pipeline_is_not_used() -> None:
    life = await live(write(SPEC))
    life.operator.brokers["kafka:9092"].add("out.r1")
    write(FIXED)(life)
    await life.settle()
    assert (describe(life)["phases"], describe(life)["outputs"]) == (["Done"], ["out.r2"])


async def test_a_second_reprocessing_replaces_the_first_version_and_deletes_it_where_the_policy_wants_that() -> (
    None
):
    dropped = {
        **OTHER,
        "upgrade": {
            **SPEC["upgrade"],
            "reprocessing": {**SPEC["upgrade"]["reprocessing"], "outputs": "Delete"},
        },
    }
    life = await live(write(SPEC), write(FIXED), write(dropped))
    end = describe(life)
    assert (end["phases"], end["outputs"], end["topics"]) == (
        ["Done", "Done"],
        ["out.r2"],
        ["in", "out", "out.r2"],
    )


@pytest.mark.parametrize(
    "spec",
    [
        {**FIXED, "trigger": {"maxRecords": 10}, "upgrade": {"mode": mode}}
        for mode in ("LastState", "Savepoint", "Reprocess", "Stateless")
    ]
    + [{**FIXED, "restore": {"savepoint": "one"}}],
    ids=lambda spec: str(spec.get("restore") or spec["upgrade"]["mode"]),
)
async def test_after_a_cutover_the_version_of_the_outputs_stays_whatever_a_driver_starts_from(
    spec: dict[str, Any],
) -> None:
    life = await live(write(SPEC), write(FIXED), take_savepoint, write(spec))
    end = describe(life)
    assert (end["outputs"], end["runs"]["active"][2]) == (["out.r1"], 1)
    assert (end["phases"], end["alive"]) == (["Done"], 1)
    active = find_active_revision(life)
    pods = (each for each in life.node.find_pods() if each["metadata"]["labels"][REVISION_LABEL] == active)
    assert read_revision(life, next(pods))["topics"]["out"] == "out.r1"


async def test_a_pipeline_that_is_deleted_ends_both_drivers_and_its_reprocessing() -> None:
    life = await live(write(SPEC), both(pause_at("CatchingUp"), write(FIXED)))
    life.operator.cluster.remove(ObjectRef(API_VERSION, "Pipeline", "shop", "delays"))
    await life.settle()
    assert life.operator.get(PIPELINE) is None
    assert life.node.count_alive() == 0
    for body in find_all(life):
        life.operator.cluster.remove(ObjectRef.of(body))
        await life.operator.reconcile(Key("Reprocessing", "shop", body["metadata"]["name"]))
    assert find_all(life) == []


async def test_a_log_without_its_start_waits_until_a_person_accepts_what_is_missing() -> None:
    life = await live(write(SPEC))
    log = PartitionLog(40, 100, 100)
    life.operator.brokers["kafka:9092"].logs[Partition("in", 0)] = PartitionFacts(0, log, Record(40, 0), 0)
    write(FIXED)(life)
    await life.settle()
    (body,) = find_all(life)
    assert (body["status"]["phase"], get_conditions(body)["Stalled"]) == (
        "Proving",
        ("True", "LogIncomplete"),
    )
    assert [(gap["first"], gap["end"]) for gap in body["status"]["gaps"]] == [(0, 40)]
    assert describe(life)["runs"] == OLD
    life.operator.cluster.put({**body, "spec": {**body["spec"], "acknowledgeMissing": True}})
    await life.settle()
    assert describe(life)["phases"] == ["Done"]


async def test_the_retention_of_the_sources_is_held_until_the_cutover_and_given_back() -> None:
    life = await live()
    life.operator.cluster.put(build_resource("Topic", "in", retention={"time": "1d"}))
    write(SPEC)(life)
    await life.settle()
    write(BY_HAND)(life)
    await life.settle()
    name = find_all(life)[0]["metadata"]["name"]
    annotation = f"hold-retention.kappa-platform.io/reprocessing.{name}"
    topic = Key("Topic", "shop", "in")
    assert life.operator.get(topic)["metadata"]["annotations"][annotation]  # type: ignore[index]
    request("Abort")(life)
    await life.settle()
    assert life.operator.get(topic)["metadata"]["annotations"][annotation] == ""  # type: ignore[index]


async def test_what_cannot_be_done_for_the_side_run_is_reported_and_the_active_one_is_followed() -> None:
    life = await live(write(SPEC))
    life.operator.cluster.put(build_resource("Topic", "out.r1", topicName="another"))
    write(BY_HAND)(life)
    for _ in range(30):
        await life.step()
    status = life.operator.get(PIPELINE)["status"]  # type: ignore[index]
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    assert (ready["reason"], status["state"]) == ("UpgradeReprocessing", "Running")
    assert "Topic out.r1 exists in namespace shop and belongs to no Kappa resource" in ready["message"]
    assert (describe(life)["alive"], len(life.node.made)) == (1, 1)
    life.operator.cluster.remove(ObjectRef(API_VERSION, "Topic", "shop", "out.r1"))
    request("Abort")(life)
    await life.settle()
    assert describe(life)["runs"] == OLD


async def test_drivers_that_can_never_hold_end_it_as_failed() -> None:
    life = await live(write(SPEC))
    life.operator.drivers.cannot_hold = True
    write(FIXED)(life)
    await life.settle()
    assert (describe(life)["phases"], describe(life)["runs"]) == (["Failed"], OLD)
    assert "this pipeline has no batches" in find_all(life)[0]["status"]["why"]


@pytest.mark.parametrize("phase", ["CatchingUp", "Soaking"])
async def test_no_remediation_changes_the_spec_meanwhile_which_would_end_it(phase: str) -> None:
    life = await live(write(SPEC), both(pause_at(phase), write(FIXED)))
    assert not read_pipeline(life.operator.get(PIPELINE) or {}).steady
    await life.settle()
    assert read_pipeline(life.operator.get(PIPELINE) or {}).steady
