"""What a driver leaves behind when it ends: nothing that runs, and no record that is not accounted for."""

import threading
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.reasons import Reason
from kappa_pipelines.driver import supervision
from kappa_pipelines.reporting.record import DriverRecord
from spark.conftest import wait_for
from spark.revisions import build_revision, source

BESIDE = {"consumer-group", "dead letters", "stragglers"}


def _divide(names: dict[str, str], checkpoint: Path, bootstrap: str) -> Any:
    """A pipeline that fails where k is 0."""
    spec = {
        "sources": [source()],
        "views": [{"name": "divided", "sql": "SELECT 1 / k AS x FROM flights"}],
        "sinks": [{"name": "out", "from": "divided", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }
    return build_revision(spec, checkpoint, bootstrap, topics=names)


def _count_listeners(spark: Any) -> int:
    return len(spark.streams._jsqm.listListeners())


def _is_beside(thread: threading.Thread) -> bool:
    return thread.name in BESIDE and thread.is_alive()


@pytest.mark.parametrize("record", ['{"k":0}', '{"k":1}'], ids=["failed", "stopped"])
def test_a_driver_that_ends_leaves_no_thread_and_no_listener(
    record: str, spark: Any, run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out", "dead")}
    listeners, threads = _count_listeners(spark), set(threading.enumerate())
    topics.write(names["flights"], [record])
    driver = run(_divide(names, checkpoint, broker.bootstrap))
    if record == '{"k":0}':
        assert driver.failure().reason is Reason.QUERY_FAILED
    else:
        driver.wait_for_records(1)
        assert {t.name for t in set(threading.enumerate()) - threads if _is_beside(t)} == BESIDE - {
            "stragglers"
        }
        assert driver.stop().graceful
    assert _count_listeners(spark) == listeners
    wait_for("the threads' end", lambda: not any(_is_beside(t) for t in set(threading.enumerate()) - threads))


def test_a_stop_does_not_fail_when_events_are_late_and_their_dead_letters_are_found(
    run: Any, broker: Any, topics: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out", "dead")}
    taken, held = DriverRecord.add_event, threading.Event()

    def hold(*arguments: Any) -> Any:
        held.wait(60)
        return taken(*arguments)

    monkeypatch.setattr(DriverRecord, "add_event", hold)
    monkeypatch.setattr(supervision, "_EVENTS_MILLISECONDS", 100)
    topics.write(names["flights"], ['{"k":1}', "{", '{"k":2}'])
    driver = run(_divide(names, checkpoint, broker.bootstrap))
    try:
        wait_for("the records", lambda: len(topics.read(names["out"])) == 2)
        assert driver.stop().graceful
        assert [m.value() for m in topics.read(names["dead"])] == [b"{"]
    finally:
        held.set()
