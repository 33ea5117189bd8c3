"""`kappa reprocess start`: the change that it makes, what the operator does of it, and the forecast of a dry run."""

from datetime import UTC, datetime
from typing import Any

import pytest

from fakes.context import build_resource
from kappa_crds import API_VERSION
from kappa_operator.cli.errors import CommandError
from kappa_operator.cli.reprocess_forecast import Forecast, describe_forecast
from kappa_operator.cli.reprocess_plan import RequestedPolicy, Start, build_patch, plan_start
from kappa_operator.log.proof import LogProof, Verdict
from unit.control.lives import PIPELINE, both, write
from unit.control.lives import SPEC as BASE
from unit.control.reprocessings import FIXED, SPEC, ShadowLife, describe, find_all, live, pause_at, request

AUTOMATIC = {"gates": {"cut": "Automatic"}, "soak": "1m"}
LAST_STATE = {**BASE, "upgrade": {"mode": "LastState", "reprocessing": AUTOMATIC}}


async def plan(life: ShadowLife, changed: dict[str, Any] | None = None, *, what_if: bool = False) -> Start:
    policy = RequestedPolicy(what_if=what_if)
    return await plan_start(life.operator.cluster, "shop", "delays", changed, "noon", policy=policy)


async def start(life: ShadowLife, changed: dict[str, Any] | None = None, *, what_if: bool = False) -> None:
    planned = await plan(life, changed, what_if=what_if)
    await life.operator.cluster.merge(planned.ref, planned.patch)
    await life.settle()


async def test_the_present_version_is_computed_again_over_the_whole_log() -> None:
    life = await live(write(LAST_STATE))
    assert not (await plan(life)).is_changed
    await start(life)
    found = describe(life)
    assert (found["phases"], found["outputs"], found["runs"]) == (["Done"], ["out.r1"], {"active": (2, 1, 1)})
    await start(life, what_if=True)
    assert describe(life)["outputs"] == ["out.r1"], "another nonce would start another one"


async def test_a_changed_manifest_replaces_the_spec_and_is_reprocessed_once() -> None:
    life = await live(write({**LAST_STATE, "stopTimeout": "1m"}))
    await start(life, {**FIXED, "upgrade": {"reprocessing": AUTOMATIC}})
    spec = (life.operator.get(PIPELINE) or {})["spec"]
    assert spec["upgrade"]["mode"] == "Shadow"
    assert "stopTimeout" not in spec
    assert "reprocessNonce" not in spec
    assert describe(life)["phases"] == ["Done"]


async def test_a_manifest_that_only_adds_a_sink_is_reprocessed_as_a_whole_when_a_person_starts_it() -> None:
    life = await live(write(LAST_STATE))
    life.operator.cluster.put(build_resource("Topic", "more"))
    more = {"name": "more", "from": "events", "kafka": {"topic": "more"}}
    await start(life, {**LAST_STATE, "sinks": [*LAST_STATE["sinks"], more]})
    assert (describe(life)["phases"], describe(life)["outputs"]) == (["Done"], ["more.r1", "out.r1"])


async def test_a_run_that_never_cuts_over_is_compared_and_refuses_a_cut_until_it_is_aborted() -> None:
    life = await live(write(SPEC))
    await start(life, FIXED, what_if=True)
    (body,) = find_all(life)
    ready = body["status"]["conditions"][0]
    assert (body["status"]["phase"], ready["reason"]) == ("ReadyToCut", "NeverCutsOver")
    assert "kappa reprocess abort" in ready["message"]
    request("Cut")(life)
    await life.settle()
    assert describe(life)["phases"] == ["ReadyToCut"]
    assert find_all(life)[0]["status"]["request"]["action"] == "Cut", "it was refused"
    request("Abort")(life)
    await life.settle()
    assert (describe(life)["phases"], describe(life)["outputs"]) == (["Aborted"], ["out"])


@pytest.mark.parametrize("mode", ["Shadow", "ShadowIfNeeded"])
async def test_a_nonce_is_reprocessed_in_each_mode_of_shadow(mode: str) -> None:
    spec = {**SPEC, "upgrade": {**SPEC["upgrade"], "mode": mode}}
    life = await live(write(spec), write({**spec, "reprocessNonce": "again"}))
    assert describe(life)["phases"] == ["Done"]


async def test_what_fits_the_state_is_no_reprocessing_in_mode_shadow_if_needed() -> None:
    spec = {**SPEC, "upgrade": {**SPEC["upgrade"], "mode": "ShadowIfNeeded"}}
    life = await live(write(spec), write({**FIXED, "upgrade": spec["upgrade"]}))
    assert (describe(life)["phases"], describe(life)["outputs"]) == ([], ["out"])


async def test_nothing_is_started_beside_a_reprocessing_or_for_a_pipeline_that_does_not_run() -> None:
    life = await live(write(SPEC), both(pause_at("CatchingUp"), write(FIXED)))
    with pytest.raises(CommandError, match="is being reprocessed"):
        await plan(life)
    suspended = await live(write(SPEC), write({**SPEC, "suspend": True}))
    with pytest.raises(CommandError, match="suspended"):
        await plan(suspended)
    with pytest.raises(CommandError, match="the manifest is not valid: sinks"):
        await plan(await live(write(SPEC)), {**FIXED, "sinks": 5})
    with pytest.raises(CommandError, match='"other" not found'):
        await plan_start(life.operator.cluster, "shop", "other", None, "noon")


async def test_a_dry_run_shows_log_outputs_room_and_time_and_changes_nothing() -> None:
    life = await live(write(SPEC))
    before = life.operator.cluster.find(API_VERSION, "Pipeline")
    planned = await plan(life, FIXED, what_if=True)
    proof = LogProof.model_validate(
        {
            "at": datetime.now(UTC),
            "sources": [
                {
                    "source": "events",
                    "verdict": "Whole",
                    "partitions": 1,
                    "records": 12_000,
                    "use": "Log",
                    "topics": ["in"],
                }
            ],
        }
    )
    found = Forecast(planned, proof, rate=100.0)
    text = "\n".join(describe_forecast(found))
    for part in (
        "the changed version",
        "the log is whole",
        "about 2m",
        "out.r1 beside out",
        "cut Never",
        "Nothing was changed",
    ):
        assert part in text
    assert (found.verdict, found.to_data()["outputs"]) == (Verdict.WHOLE, {"out": "out.r1"})
    unknown = Forecast(planned, problem="the operator does not answer")
    assert unknown.verdict is Verdict.UNKNOWN
    assert "the operator does not answer" in "\n".join(describe_forecast(unknown))
    assert life.operator.cluster.find(API_VERSION, "Pipeline") == before


@pytest.mark.parametrize(
    ("executors", "room"), [(None, "1 more executors"), (4, "1 more executors, 4 while it reads the log")]
)
async def test_a_dry_run_shows_how_many_executors_a_replay_has(executors: int | None, room: str) -> None:
    replay = {} if executors is None else {"executors": executors}
    upgrade = {**SPEC["upgrade"], "reprocessing": {"replay": replay}}
    found = Forecast(await plan(await live(write(SPEC)), {**FIXED, "upgrade": upgrade}))
    (line,) = (each for each in describe_forecast(found) if "room" in each)
    assert line.endswith(f"), {room}")


def test_a_patch_takes_away_what_the_other_map_lacks() -> None:
    present = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1]}
    wanted = {"b": {"c": 1, "f": {"g": 1}}, "e": [2]}
    assert build_patch(present, wanted) == {"a": None, "b": {"d": None, "f": {"g": 1}}, "e": [2]}
    assert build_patch(present, present) == {}
