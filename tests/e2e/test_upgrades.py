"""The modes of a change on the whole cluster, while records come in. After each, all counts are exact."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from e2e.counting import Counting
from e2e.place import START_SECONDS
from kappa_crds.pipeline_status import PipelineState, PipelineStatus, UpgradePhase
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SavepointStatus

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]


SAVEPOINT = """
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {name: too-old}
spec: {pipelineRef: counts}
"""


def change(counting: Counting, upgrade: dict[str, str], **spec: object) -> PipelineStatus:
    """Change the pipeline, and return its status once the change has come to its end."""
    before = counting.place.pipeline()
    counting.place.patch("kpp/counts", {"upgrade": upgrade, **spec})
    return counting.place.await_pipeline(lambda status: has_ended(status, before), "is changed, or is not")


def has_ended(status: PipelineStatus, before: PipelineStatus) -> bool:
    phases = (UpgradePhase.DONE, UpgradePhase.REFUSED, UpgradePhase.ROLLED_BACK)
    is_new = status.upgrade is not None and (
        before.upgrade is None
        or status.active.generation != before.active.generation
        or status.upgrade.since != before.upgrade.since
    )
    return is_new and status.upgrade is not None and status.upgrade.phase in phases


def view(sql: str) -> list[dict[str, object]]:
    return [{"name": "counted", "sql": sql, "allowUnboundedState": True}]


def read_sql(counting: Counting) -> str:
    sql = counting.place.get("Pipeline", "counts").spec.views[0].sql
    assert isinstance(sql, str)
    return sql


def find_savepoint(counting: Counting, status: PipelineStatus) -> SavepointStatus:
    assert status.upgrade is not None
    assert status.upgrade.savepoint is not None
    found = counting.place.get("Savepoint", status.upgrade.savepoint).status
    assert isinstance(found, SavepointStatus)
    return found


def test_a_change_takes_a_savepoint_before_and_one_that_fails_goes_back_to_it(counting: Counting) -> None:
    counting.check()
    after = change(counting, {"mode": "Savepoint"}, trigger={"maxRecords": 41_000})
    assert after.upgrade is not None
    assert after.upgrade.phase is UpgradePhase.DONE
    assert find_savepoint(counting, after).taken is not None
    counting.check()

    good, revision = read_sql(counting), after.active.revision
    bad = good.replace("max(seq)", "min(seq)")
    after = change(counting, {"mode": "Savepoint", "handover": "Cold"}, views=view(bad))
    assert after.upgrade is not None
    assert (after.upgrade.phase, after.state) == (UpgradePhase.ROLLED_BACK, PipelineState.RUNNING)
    assert after.restoration is not None
    assert after.restoration.savepoint.startswith(after.upgrade.savepoint or "-")
    assert "min(" in (after.upgrade.message or "")
    assert (after.active.revision == revision, after.checkpoint > 0) == (False, True), (
        "in a checkpoint of its own"
    )
    counting.check()
    counting.place.patch("kpp/counts", {"views": view(good)})
    counting.place.await_reason("Pipeline", "counts", "Running", 120)


def test_mode_auto_starts_with_empty_state_over_the_whole_log(counting: Counting) -> None:
    good = read_sql(counting)
    more = good.replace("max(seq) AS last", "max(seq) AS last, min(seq) AS first")
    after = change(counting, {"mode": "Auto", "handover": "Warm"}, views=view(more))
    assert after.upgrade is not None
    assert after.upgrade.phase is UpgradePhase.DONE, after.upgrade.message
    assert after.upgrade.new_checkpoint is not None
    counting.check()
    events = {
        event["reason"] for event in counting.place.find("events.events.k8s.io") if event["type"] == "Warning"
    }
    assert Reason.UPGRADE_NEW_CHECKPOINT in events
    back = change(counting, {"mode": "Auto", "handover": "Warm"}, views=view(good))
    assert back.upgrade is not None
    assert back.upgrade.phase is UpgradePhase.DONE, back.upgrade.message
    counting.check()


@pytest.mark.parametrize("mode", ["Reprocess", "Stateless"])
def test_a_mode_with_empty_state_counts_the_whole_log_again(counting: Counting, mode: str) -> None:
    before, good = counting.place.pipeline(), read_sql(counting)
    more = good.replace("max(seq) AS last", "max(seq) AS last, min(seq) AS first")
    for sql in (more, good):
        after = change(counting, {"mode": mode, "handover": "Warm"}, views=view(sql))
        assert after.upgrade is not None
        assert after.upgrade.phase is UpgradePhase.DONE, after.upgrade.message
        assert after.upgrade.new_checkpoint is not None
        assert (after.upgrade.verdict is None) == (mode == "Stateless"), "which is not rehearsed"
        assert after.checkpoint > before.checkpoint
        counting.check()


def test_another_nonce_is_a_new_driver_and_nothing_else(counting: Counting) -> None:
    before = counting.place.pipeline()
    counting.place.patch("kpp/counts", {"revisionHistoryLimit": 1})
    for nonce in ("again", "and again", "and once more"):
        after = change(counting, {"mode": "LastState", "handover": "Warm"}, restartNonce=nonce)
        assert after.upgrade is not None
        assert after.upgrade.phase is UpgradePhase.DONE
        assert after.checkpoint == before.checkpoint
        counting.check()
    assert len(counting.place.drivers()) <= 2, "the one that runs, and the last one that has ended"
    history = "kappa-platform.io/revision,app.kubernetes.io/instance=counts"
    assert len(counting.place.find("configmaps", history)) == 2


def test_without_a_standby_driver_the_change_is_refused_and_the_active_driver_continues(
    counting: Counting,
) -> None:
    before = counting.place.pipeline()
    sources = counting.place.find("pipelines")[0]["spec"]["sources"]
    nowhere = {"avro": {"registry": {"url": "http://no-registry:8081"}}}
    after = change(
        counting, {"mode": "LastState", "handover": "Warm"}, sources=[{**sources[0], "format": nowhere}]
    )
    assert after.upgrade is not None
    assert (after.upgrade.phase, after.upgrade.attempts) == (UpgradePhase.REFUSED, 3)
    assert "no-registry" in (after.upgrade.message or "")
    assert (after.active.generation, after.restarts.total) == (
        before.active.generation,
        before.restarts.total,
    )
    counting.check()
    counting.place.patch("kpp/counts", {"sources": sources})
    counting.place.await_reason("Pipeline", "counts", "Running", 120)
    assert counting.place.pipeline().active.generation == before.active.generation


def test_a_savepoint_whose_records_are_gone_is_not_gone_back_to(counting: Counting) -> None:
    """The last in this file: the log does not begin at the beginning any more."""
    counting.check()
    counting.place.apply(SAVEPOINT)
    counting.place.await_ready("savepoint/too-old", 60)
    counting.ledger.pause()
    counting.check()
    admin, topic = AdminClient({"bootstrap.servers": counting.ledger.bootstrap}), counting.ledger.source
    ends = [(number, read_end(counting, number)) for number in range(4)]
    cut = [TopicPartition(topic, number, end - 1) for number, end in ends if end > 0]
    for future in admin.delete_records(cut).values():
        future.result(20)
    before = counting.place.pipeline()
    with counting.ledger.writing():
        counting.place.patch("kpp/counts", {"restore": {"savepoint": "too-old"}})
        said = counting.place.await_reason("Pipeline", "counts", "RolledBack", START_SECONDS).message
        assert "the topic no longer has records that the checkpoint needs" in said
        assert "it continues in the previous checkpoint" in said
        after = counting.place.pipeline()
        assert (after.state, after.checkpoint) == (PipelineState.RUNNING, before.checkpoint)
        counting.check()


def read_end(counting: Counting, partition: int) -> int:
    """Return the end of a partition of the source."""
    consumer = Consumer({"bootstrap.servers": counting.ledger.bootstrap, "group.id": "ends"})
    _, end = consumer.get_watermark_offsets(TopicPartition(counting.ledger.source, partition), timeout=20)
    consumer.close()
    return int(end)
