"""What happens to a running pipeline when what it stands on gives way: it says so, and loses nothing."""

import pytest
from confluent_kafka.admin import AdminClient

from e2e.counting import Guarded
from e2e.place import Place
from kappa_crds.pipeline_status import PipelineState

pytestmark = pytest.mark.timeout(900)


def says_that_the_store_is_full(place: Place) -> bool:
    """Between two tries of its driver the pipeline says Starting, so this is waited for."""
    said = place.ready("Pipeline", "counts")
    return said.reason in ("CheckpointUnavailable", "StateStoreNotReady") and "space" in said.message


@pytest.mark.chaos  # two minutes, with a pod for each check
def test_a_full_state_store_stops_the_pipeline_until_there_is_space_and_nothing_is_lost(
    guarded: Guarded,
) -> None:
    place, before = guarded.place, guarded.place.pipeline()
    # Each check is a pod, so only this test has one every few seconds.
    place.patch("statestore/small", {"checkInterval": "5s"})
    guarded.volume.fill()
    try:
        full = place.await_reason("StateStore", "small", "StoreFull")
        assert "free space" in full.message
        place.wait(
            lambda: says_that_the_store_is_full(place), "the pipeline says that the store is full", 120
        )
    finally:
        guarded.volume.free()
    place.await_pipeline(lambda status: status.state == PipelineState.RUNNING, "runs again")
    after = place.pipeline()
    assert after.restarts.last_reason == "CheckpointUnavailable"
    assert after.active.generation > before.active.generation
    guarded.check()
    place.patch("statestore/small", {"checkInterval": None})


@pytest.mark.chaos
def test_a_broker_that_dies_and_comes_back_costs_time_and_no_record(guarded: Guarded) -> None:
    guarded.check()
    guarded.broker.kill()
    try:
        gone = guarded.place.await_reason("KafkaCluster", "guarded", "BrokerUnreachable", 90)
        assert guarded.broker.sasl_bootstrap in gone.message
    finally:
        guarded.broker.start()
    guarded.place.await_reason("KafkaCluster", "guarded", "Connected", 90)
    guarded.place.await_pipeline(lambda status: status.state == PipelineState.RUNNING, "runs again")
    guarded.check()


def test_a_topic_that_is_deleted_under_a_pipeline_is_named(running_guarded: Guarded) -> None:
    """The last in this file: what the pipeline has counted means nothing for a new topic of that name."""
    place = running_guarded.place
    running_guarded.check()
    admin = AdminClient({"bootstrap.servers": running_guarded.broker.bootstrap})
    admin.delete_topics(["events"])["events"].result()
    said = place.await_reason("Pipeline", "counts", "SourceTopicDeleted", 120)
    assert "the topic 'events' was deleted" in said.message
