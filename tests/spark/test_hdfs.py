"""A checkpoint in HDFS, on real Spark, Kafka and HDFS: a driver takes over from one that hangs, and what that one does later is nothing."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.progress import DriverState
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.savepoint import Restoration
from kappa_crds.savepoint_work import SavepointTask, VerifyBy, WorkRequest
from kappa_crds.stores import USER_VARIABLE, HdfsConnection
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.checkpoint.location import open_checkpoint
from kappa_pipelines.checkpoint.store.hdfs import HdfsFolder
from kappa_pipelines.savepoint.query import read_points
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.work import do_work
from lab.broker import Broker
from lab.hdfs import Hdfs
from spark.processes import TOKEN
from spark.revisions import build_revision
from spark.test_handover import SPEC, build_records, expect


class Place:
    """A folder in HDFS that belongs to a user who may do nothing else."""

    def __init__(self, server: Hdfs) -> None:
        server.give("/state", "kappa")
        self.server = server
        self.connection = HdfsConnection(web=server.web, user="kappa", replication=1)
        store = f"hdfs://{server.namenode}/state/prod"
        self.checkpoint = f"{store}/test/delays/uid"
        self.savepoints = f"{store}/savepoints/test/delays"

    def read_commits(self) -> dict[int, bytes | None]:
        files = open_checkpoint(self.checkpoint, self.connection).files
        names = [name for name in files.names("out/commits") if name.isdigit()]
        return {int(name): files.read(f"out/commits/{name}") for name in names}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with Hdfs() as server:
        found = Place(server)
        monkeypatch.setenv(USER_VARIABLE, found.connection.user)
        yield found


@pytest.fixture
def build(place: Place, broker: Broker, topics: Any) -> Any:
    names = {name: topics.make(name, partitions=1) for name in ("events", "out")}

    def build_one(spec: dict[str, Any], checkpoint: str = "", **changes: Any) -> Revision:
        where, hdfs = checkpoint or place.checkpoint, place.connection
        return build_revision(spec, where, broker.bootstrap, topics=names, hdfs=hdfs, **changes)

    return build_one


def read_windows(topics: Any, name: str) -> list[tuple[int, datetime, int]]:
    return [(row["k"], datetime.fromisoformat(row["at"]), row["n"]) for row in topics.values(name)]


@pytest.mark.chaos
def test_a_driver_that_hangs_is_taken_over_from_and_what_it_does_later_is_nothing(
    start: Any, build: Any, topics: Any, place: Place
) -> None:
    old = start(build(SPEC), 1)
    names = build(SPEC).topics
    topics.write(names["events"], build_records(0, 600))
    old.wait_for("some batches", lambda p: p.queries and p.queries[0].batch_id >= 3)
    new = start(build({**SPEC, "trigger": {"maxRecords": 120}}), 2, standby=True)
    ready = new.wait_for("it stands by", lambda p: p.state is DriverState.STANDING_BY)
    assert ready.verdict is not None
    assert (ready.verdict.kind, ready.verdict.reasons) == (VerdictKind.RESUME, ())

    topics.write(names["events"], build_records(600, 3000))
    old.wait_for("it is at work", lambda p: p.lag > 500)
    old.pause()
    last = max(place.read_commits())
    assert new.get("/activate", token=TOKEN, method="POST")[0] == 202
    topics.write(names["events"], build_records(3000, 3300))
    new.wait_for(
        "no lag", lambda p: p.state is DriverState.RUNNING and p.lag == 0 and p.queries[0].batch_id >= 0
    )
    written = place.read_commits()
    assert max(written) > last

    old.go_on()
    ended = old.wait()
    assert (ended.reason, ended.retryable) == (Reason.GENERATION_FENCED, False), ended.message
    after = place.read_commits()
    assert {batch: after[batch] for batch in written} == written, "it has not changed a batch"
    new.process.terminate()
    assert new.wait().graceful
    rows = read_windows(topics, names["out"])
    assert set(rows) == expect(3300)
    assert len(rows) - len(set(rows)) <= 3 * 3, "at least once: no more than one batch comes again"


@pytest.mark.chaos
def test_a_savepoint_there_is_taken_read_gone_back_to_and_deleted(
    start: Any, build: Any, topics: Any, place: Place, tmp_path: Path
) -> None:
    revision, location = build(SPEC), place.savepoints
    first = start(revision, 1)
    topics.write(revision.topics["events"], build_records(0, 600))
    first.wait_for("batches", lambda p: p.queries and p.queries[0].batch_id >= 3)
    assert first.get(f"/savepoints/one?location={location}", token=TOKEN, method="POST")[0] == 202
    told = first.wait_for("the savepoint", lambda p: p.savepoints and p.savepoints[0].done).savepoints[0]
    assert told.failure is None, told
    first.wait_for("no lag", lambda p: p.lag == 0)
    first.process.terminate()
    assert first.wait().graceful

    def work(task: SavepointTask, name: str, **more: Any) -> Any:
        request = WorkRequest(task=task, name=name, location=location, hdfs=place.connection, **more)
        # In a process of its own, as in a pod: it ends its session, and there is but one in a process.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            return process.submit(do_work, request, first.revision_file).result()

    taken = work(SavepointTask.TAKE, "two").taken
    assert (taken.batches["out"] > told.batches["out"], taken.copied_bytes < taken.size_bytes) == (True, True)
    verified = work(SavepointTask.VERIFY, "one", verify_by=VerifyBy.STATE_READER).verification
    assert (verified.damage, [rows.sink for rows in verified.state]) == ((), ["out"])
    assert verified.state[0].rows > 0

    made_of, again = Restoration(location=location, savepoint="one"), f"{place.checkpoint}-1"
    second = start(build(SPEC, again, restoration=made_of), 2)
    second.wait_for(
        "batches after that of the savepoint",
        lambda p: p.queries and p.queries[0].batch_id > told.batches["out"] and p.lag == 0,
    )
    second.process.terminate()
    assert second.wait().graceful
    rows = read_windows(topics, revision.topics["out"])
    assert set(rows) == expect(600)
    assert len(rows) > len(set(rows)), "what was done after the savepoint was done again"
    work(SavepointTask.DELETE, "two")
    assert work(SavepointTask.DELETE, "one", needed_by=(again,)).removed.objects > 0
    assert list(SavepointStore(HdfsFolder(location, place.connection)).files.walk("")) == []


@pytest.mark.chaos
def test_a_driver_exits_without_the_servers_and_the_next_continues_when_they_return(
    start: Any, build: Any, topics: Any, place: Place
) -> None:
    revision = build(SPEC)
    first = start(revision, 1)
    topics.write(revision.topics["events"], build_records(0, 600))
    first.wait_for("batches", lambda p: p.queries and p.queries[0].batch_id >= 3)
    place.server.kill()
    ended = first.wait()
    assert (ended.reason, ended.retryable) == (Reason.CHECKPOINT_UNAVAILABLE, True), ended.message
    place.server.start()
    second = start(revision, 2)
    second.wait_for("no lag", lambda p: p.state is DriverState.RUNNING and p.queries and p.lag == 0)
    second.process.terminate()
    assert second.wait().graceful
    assert set(read_windows(topics, revision.topics["out"])) == expect(600)


@pytest.mark.chaos
def test_state_is_repartitioned_there(start: Any, build: Any, topics: Any, place: Place) -> None:
    revision = build(SPEC)
    events = revision.topics["events"]
    for generation, partitions in enumerate((2, 5), start=1):
        tuning = revision.tuning.model_copy(update={"shuffle_partitions": partitions})
        driver = start(build(SPEC, tuning=tuning), generation)
        topics.write(events, build_records(300 * (generation - 1), 300 * generation))
        driver.wait_for("no lag", lambda p: p.state is DriverState.RUNNING and p.queries and p.lag == 0)
        driver.process.terminate()
        assert driver.wait().graceful
        (point,) = read_points(open_checkpoint(place.checkpoint, place.connection).files, ["out"])
        assert point.state_partitions == partitions
    rows = read_windows(topics, revision.topics["out"])
    assert (set(rows), len(rows)) == (expect(600), len(expect(600))), "exact: every driver ended at a batch"


@pytest.mark.chaos  # `make test` does so in a bucket, and has the folder and the fence of HDFS in tests/integration
def test_a_killed_driver_is_replaced_by_one_that_continues(
    start: Any, build: Any, topics: Any, place: Place
) -> None:
    revision = build(SPEC)
    first = start(revision, 1)
    topics.write(revision.topics["events"], build_records(0, 600))
    first.wait_for("batches", lambda p: p.queries and p.queries[0].batch_id >= 3)
    first.kill()
    last = max(place.read_commits())
    second = start(revision, 2)
    second.wait_for(
        "no lag",
        lambda p: (
            p.state is DriverState.RUNNING and p.queries and p.queries[0].batch_id > last and p.lag == 0
        ),
    )
    second.process.terminate()
    assert second.wait().graceful
    assert set(read_windows(topics, revision.topics["out"])) == expect(600)
