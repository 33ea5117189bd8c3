"""Which archives a new version of a pipeline reads: those of its sources in its own store, where its driver can read them."""

import json
from typing import Any

import pytest

from kappa_crds import API_VERSION
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.replay import REPLAY_VARIABLE, ArchivedSource
from kappa_operator.archive.sources import can_read_archives, find_archived, find_archives
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.lag.model import Partition, PartitionLog
from kappa_operator.log.facts import PartitionFacts, Record
from unit.control.lives import SPEC, STORE, Life, both, write
from unit.control.reprocessings import FIXED, list_phases, live, pause_at

IN = ObjectRef(API_VERSION, "Topic", "shop", "in")
WINDOW: dict[str, Any] = {
    "name": "w",
    "window": {"from": "events", "tumbling": "1h", "aggregates": {"n": "count(*)"}},
}


def put_archive(life: Life, store: str = "default", topic_id: str | None = None, end: int = 60) -> None:
    body = life.operator.cluster.read(IN)
    assert body is not None
    archive = {
        "number": 1, "state": "Done", "at": "2026-01-01T00:00:00Z", "since": "2026-01-01T00:00:00Z", "store": store,
        "topicId": topic_id or body["status"]["topicId"], "partitions": [{"partition": 0, "first": 0, "end": end}],
    }  # fmt: skip
    life.operator.cluster.patch(IN, status={**body["status"], "archive": archive})


def find(life: Life, spec: dict[str, Any]) -> tuple[ArchivedSource, ...]:
    return find_archives(life.operator.cache, "shop", PipelineSpec.model_validate(spec))


async def begin(**archive: Any) -> Life:
    life = Life()
    await life.prepare()
    put_archive(life, **archive)
    return life


async def test_the_archive_of_a_source_is_read_where_the_state_of_the_pipeline_is() -> None:
    life = await begin()
    (found,) = find(life, SPEC)
    assert (found.source, found.topic) == ("events", "in")
    assert found.location == "file:///var/lib/kappa/state/_kappa/archive/shop"
    spec = PipelineSpec.model_validate(SPEC)
    assert find_archived(life.operator.cache, "shop", spec) == {Partition("in", 0): (0, 60)}


@pytest.mark.parametrize("archive", [{"store": "other"}, {"topic_id": "former"}])
async def test_an_archive_in_another_store_or_of_a_former_topic_is_not(archive: dict[str, str]) -> None:
    assert find(await begin(**archive), SPEC) == ()


async def test_without_a_store_there_is_none() -> None:
    life = await begin()
    life.operator.cluster.remove(STORE)
    assert find(life, SPEC) == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"deadLetter": "bad"},
        {"trigger": {"realTime": {}}},
        {
            "views": [
                {**WINDOW, "window": {**WINDOW["window"], "lateRecords": {"sideOutput": {"topic": "late"}}}}
            ]
        },
    ],
)
def test_what_reads_records_again_from_the_log_does_not_read_archives(changed: dict[str, Any]) -> None:
    assert can_read_archives(PipelineSpec.model_validate(SPEC))
    assert not can_read_archives(PipelineSpec.model_validate({**SPEC, **changed}))


@pytest.mark.parametrize(
    "source", [{"isolationLevel": "ReadUncommitted"}, {"topic": None, "topics": ["in", "out"]}]
)
async def test_a_source_that_an_archive_does_not_stand_for_is_read_from_the_log(
    source: dict[str, Any],
) -> None:
    sources = [{key: value for key, value in {**SPEC["sources"][0], **source}.items() if value is not None}]
    assert find(await begin(), {**SPEC, "sources": sources}) == ()


def cut_log(life: Life) -> None:
    log = PartitionFacts(0, PartitionLog(40, 90, 90), Record(40, 0), 0)
    life.operator.brokers["kafka:9092"].logs[Partition("in", 0)] = log


async def test_a_reprocessing_of_a_log_without_its_head_reads_the_archive_and_is_refused_without_one() -> (
    None
):
    whole = await live(write(SPEC), both(put_archive, cut_log, pause_at("CatchingUp"), write(FIXED)))
    assert list_phases(whole) == ["CatchingUp"]
    for _ in range(2):
        await whole.step()
    profiles = [
        json.loads(each["value"])
        for pod in whole.node.find_pods()
        for each in pod["spec"]["containers"][0].get("env", [])
        if each["name"] == REPLAY_VARIABLE
    ]
    assert [each["archives"][0]["topic"] for each in profiles] == ["in"]
    short = await live(
        write(SPEC),
        both(lambda life: put_archive(life, end=30), cut_log, pause_at("CatchingUp"), write(FIXED)),
    )
    assert list_phases(short) == ["Proving"]
