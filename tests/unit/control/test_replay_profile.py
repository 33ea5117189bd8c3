"""The profile that the driver of a new version gets, and what its report of a replay means."""

import json
from typing import Any

import pytest

from fakes.kafka import FakeBroker
from fakes.kubelet import SINCE
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.progress import DriverState, Progress
from kappa_crds.replay import REPLAY_VARIABLE
from kappa_operator.errors import AuthorizationFailed
from kappa_operator.kafka.model import Producer
from kappa_operator.reprocessing.catch_up import is_near
from kappa_operator.reprocessing.objects import build_profile, find_replay_executors
from unit.control.lives import Life, both, write
from unit.control.reprocessings import (
    FIXED,
    SPEC,
    find_all,
    live,
    pause_at,
    report_queries,
    request,
)


def demand(**replay: Any) -> dict[str, Any]:
    return {**FIXED, "upgrade": {"mode": "Shadow", "reprocessing": {"replay": replay}}}


async def read_profiles(**replay: Any) -> list[Any]:
    """The profile of each driver, in the order of their start."""
    life = await live(write(SPEC), both(pause_at("CatchingUp"), write(demand(**replay))))
    await life.step()
    await life.step()
    found = []
    for pod in life.node.find_pods():
        variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0].get("env", [])}
        text = variables.get(REPLAY_VARIABLE)
        found.append(None if text is None else json.loads(text))
    return found


@pytest.mark.parametrize(
    ("replay", "profile"),
    [
        ({}, {"maxRecords": 4_000_000, "clientId": None}),
        (
            {"maxRecords": 500, "maxBytesPerSecond": 5000},
            {"maxRecords": 500, "clientId": "kappa-replay.shop.delays"},
        ),
    ],
)
async def test_the_driver_of_the_new_version_gets_a_profile_and_the_active_one_none(
    replay: dict[str, Any], profile: dict[str, Any]
) -> None:
    assert await read_profiles(**replay) == [None, profile]


@pytest.mark.parametrize(("own", "wanted", "found"), [(2, 5, 5), (2, 2, None), (8, 5, None), (0, 5, None)])
def test_more_executors_than_the_spec_has_are_in_the_profile(
    own: int, wanted: int, found: int | None
) -> None:
    resources = {"executors": {"count": own}}
    upgrade = {"reprocessing": {"replay": {"executors": wanted}}}
    spec = PipelineSpec.model_validate({**SPEC, "resources": resources, "upgrade": upgrade})
    assert find_replay_executors(spec) == found


async def test_a_replay_with_more_executors_changes_no_driver_but_that_of_the_new_version() -> None:
    life = await live(write(SPEC))
    names = [pod["metadata"]["name"] for pod in life.node.find_pods()]
    few = {**SPEC, "upgrade": {**SPEC["upgrade"], "reprocessing": {"replay": {"executors": 3}}}}
    write(few)(life)
    await life.settle()
    assert [pod["metadata"]["name"] for pod in life.node.find_pods()] == names, "the number is of no revision"
    active, new = await read_profiles(executors=3)
    assert (active, new["executors"]) == (None, 3)


async def test_the_executors_of_a_replay_are_of_each_pipeline_and_not_of_the_reprocessing() -> None:
    life = await live(write(SPEC), both(pause_at("CatchingUp"), write(demand(executors=3, maxRecords=500))))
    assert find_all(life)[0]["spec"]["replay"] == {"maxRecords": 500}


@pytest.mark.parametrize(("delivery", "most"), [("ExactlyOnce", 700), ("AtLeastOnce", 4_000_000)])
def test_the_batches_of_a_sink_that_writes_exactly_once_stay_as_large_as_the_spec_has_them(
    delivery: str, most: int
) -> None:
    sink = {"name": "log", "from": "events", "kafka": {"topic": "out", "delivery": delivery}}
    spec = PipelineSpec.model_validate({**SPEC, "trigger": {"maxRecords": 700}, "sinks": [sink]})
    assert build_profile(None, spec).max_records == most


def test_a_driver_that_replays_has_not_caught_up_whatever_its_lag_is() -> None:
    progress = Progress(
        namespace="shop",
        pipeline="delays",
        revision="r",
        generation=2,
        state=DriverState.RUNNING,
        started_at=SINCE,
        queries=report_queries({}),
    )
    assert is_near(progress, 0)
    assert not is_near(progress.model_copy(update={"replaying": True}), 0)


CLIENT = Producer("kappa-replay.shop.delays")


def has_quota(life: Life) -> bool:
    return "replayQuota" in find_all(life)[0].get("status", {})


def get_broker(life: Life) -> FakeBroker:
    return life.operator.kafka.brokers["kafka:9092"]


async def test_the_quota_is_recorded_set_while_it_catches_up_and_removed_after_it() -> None:
    life = await live(write(SPEC), both(pause_at("CatchingUp"), write(demand(maxBytesPerSecond=5000))))
    await life.step()
    assert get_broker(life).quotas == {CLIENT: 5000}
    assert find_all(life)[0]["status"]["replayQuota"] == 5000
    await life.settle()
    assert find_all(life)[0]["status"]["phase"] == "ReadyToCut"
    assert get_broker(life).quotas == {}
    assert "replayQuota" not in find_all(life)[0]["status"]


async def test_the_operator_may_end_after_any_write_and_no_quota_stays() -> None:
    life = await live(write(SPEC))
    deaths: list[Life] = []
    life.operator.cluster.fuse.on_write = lambda: deaths.append(life.fork())
    write(demand(maxBytesPerSecond=5000))(life)
    await life.settle()
    quotas = [number for number, died in enumerate(deaths) if find_all(died) and has_quota(died)]
    assert quotas, "it was recorded"
    for number in (quotas[0], quotas[-1]):
        await deaths[number].settle()
        assert find_all(deaths[number])[0]["status"]["phase"] == "ReadyToCut"
        assert get_broker(deaths[number]).quotas == {}


async def test_a_quota_that_someone_removes_is_set_again_and_an_abort_removes_it() -> None:
    life = await live(write(SPEC), both(pause_at("CatchingUp"), write(demand(maxBytesPerSecond=5000))))
    await life.step()
    get_broker(life).quotas.clear()
    life.operator.clock.advance(120)
    await life.step()
    assert get_broker(life).quotas == {CLIENT: 5000}
    request("Abort")(life)
    await life.settle()
    assert find_all(life)[0]["status"]["phase"] == "Aborted"
    assert get_broker(life).quotas == {}


async def test_an_operator_that_may_not_set_quotas_reports_it_and_reads_without() -> None:
    life = await live(write(SPEC))
    get_broker(life).quota_trouble = AuthorizationFailed("ClusterAuthorizationFailed", retryable=False)
    both(pause_at("CatchingUp"), write(demand(maxBytesPerSecond=5000)))(life)
    await life.settle()
    await life.settle()
    assert find_all(life)[0]["status"]["phase"] == "ReadyToCut"
