"""The profile that the driver of a new version gets, and what its report of a replay means."""

import json
from typing import Any

import pytest

from fakes.kubelet import SINCE
from kappa_crds.progress import DriverState, Progress
from kappa_crds.replay import REPLAY_VARIABLE
from kappa_operator.reprocessing.catch_up import is_near
from unit.control.lives import both, write
from unit.control.reprocessings import FIXED, SPEC, live, pause_at, report_queries


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
