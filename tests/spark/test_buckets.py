"""A checkpoint in a bucket, on real Spark, Kafka and S3: a driver takes over from one that hangs, and what that one does later is nothing."""

from collections import Counter
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
from kappa_crds.savepoint_work import OtherPlace, SavepointTask, VerifyBy, WorkRequest
from kappa_crds.stores import BucketConnection
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.checkpoint.location import open_checkpoint
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.jars import CORE, S3, fetch_jars
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.work import do_work
from kappa_pipelines.side_outputs.dead_letters.position import read_position
from lab.broker import Broker
from lab.s3 import REGION, ObjectStore
from spark.conftest import wait_for
from spark.processes import TOKEN
from spark.revisions import build_revision, spark_conf
from spark.test_handover import SPEC, build_records, expect

CHECKPOINT = "s3a://state/prod/test/delays/uid"
SAVEPOINTS = "s3a://state/prod/savepoints/test/delays"


@pytest.fixture
def server() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.create_bucket("state")
        yield running


@pytest.fixture
def bucket(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> BucketConnection:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    return BucketConnection(endpoint=server.endpoint, region=REGION)


@pytest.fixture
def build(bucket: BucketConnection, broker: Broker, topics: Any) -> Any:
    names = {name: topics.make(name, partitions=1) for name in ("events", "out")}
    jars = ",".join(map(str, fetch_jars(locks=(CORE, S3))))

    def build_one(spec: dict[str, Any], checkpoint: str = CHECKPOINT, **changes: Any) -> Revision:
        conf = {**spark_conf(), "spark.jars": jars}
        return build_revision(
            spec, checkpoint, broker.bootstrap, topics=names, bucket=bucket, spark_conf=conf, **changes
        )

    return build_one


def read_commits(bucket: BucketConnection) -> dict[int, bytes | None]:
    files = open_checkpoint(CHECKPOINT, bucket).files
    names = [name for name in files.names("out/commits") if name.isdigit()]
    return {int(name): files.read(f"out/commits/{name}") for name in names}


def read_windows(topics: Any, name: str) -> list[tuple[int, datetime, int]]:
    return [(row["k"], datetime.fromisoformat(row["at"]), row["n"]) for row in topics.values(name)]


@pytest.mark.chaos  # 40 s of processor time; `make test` has it on a volume
def test_a_driver_that_hangs_is_taken_over_from_and_what_it_does_later_is_nothing(
    start: Any, build: Any, topics: Any, bucket: BucketConnection, tmp_path: Path
) -> None:
    old = start(build(SPEC), 1)
    names = build(SPEC).topics
    topics.write(names["events"], build_records(0, 600))
    old.wait_for("some batches", lambda p: p.queries and p.queries[0].batch_id >= 3)
    new = start(build({**SPEC, "trigger": {"maxRecords": 600}}), 2, standby=True)
    ready = new.wait_for("it stands by", lambda p: p.state is DriverState.STANDING_BY)
    assert ready.verdict is not None
    assert (ready.verdict.kind, ready.verdict.reasons) == (VerdictKind.RESUME, ())

    topics.write(names["events"], build_records(600, 3000))
    old.wait_for("it is at work", lambda p: p.lag > 500)
    old.pause()
    last = max(read_commits(bucket))
    assert new.get("/activate", token=TOKEN, method="POST")[0] == 202
    topics.write(names["events"], build_records(3000, 3300))
    new.wait_for(
        "no lag", lambda p: p.state is DriverState.RUNNING and p.lag == 0 and p.queries[0].batch_id >= 0
    )
    written = read_commits(bucket)
    assert max(written) > last

    old.go_on()
    ended = old.wait()
    assert (ended.reason, ended.retryable) == (Reason.GENERATION_FENCED, False), ended.message
    after = read_commits(bucket)
    assert {batch: after[batch] for batch in written} == written, "it has not changed a batch"
    new.process.terminate()
    assert new.wait().graceful
    rows = read_windows(topics, names["out"])
    assert set(rows) == expect(3300)
    assert len(rows) - len(set(rows)) <= 3 * 3, "at least once: no more than one batch comes again"


def test_the_files_beside_a_checkpoint_there_are_replaced(
    start: Any, build: Any, topics: Any, bucket: BucketConnection, server: ObjectStore
) -> None:
    """And each file of Spark is written by one request, under its own name."""
    letters = topics.make("letters", partitions=1)
    revision = build({**SPEC, "deadLetter": "letters"})
    revision = revision.replace(topics={**revision.topics, "letters": letters})
    driver, events = start(revision, 1), revision.topics["events"]
    driver.wait_for("it runs", lambda p: p.state is DriverState.RUNNING)

    def read_end() -> int | None:
        """Return the offset up to which dead letters are written."""
        position = read_position(open_checkpoint(CHECKPOINT, bucket).files, "events")
        return None if position is None else position.offsets.get((events, 0))

    for count in (1, 2, 3):
        topics.write(events, ["no JSON"])
        wait_for("the position is replaced", lambda count=count: read_end() == count)  # type: ignore[misc]
        assert len(topics.read(letters)) == count
    driver.process.terminate()
    assert driver.wait().graceful
    files = open_checkpoint(CHECKPOINT, bucket).files
    assert [path for path in files.walk("") if path.endswith(".tmp")] == []
    written = [each for each in server.list_requests() if each.of_jvm and each.operation != "GetObject"]
    assert "CopyObject" not in {each.operation for each in written}
    state = Counter(each.key for each in written if "/state/0/" in each.key and "changelog" in each.key)
    assert state
    assert set(state.values()) == {1}, "nothing else is requested for a file of a batch"


@pytest.mark.chaos
def test_a_savepoint_there_is_taken_read_gone_back_to_and_deleted(
    start: Any, build: Any, topics: Any, bucket: BucketConnection, tmp_path: Path
) -> None:
    revision = build(SPEC)
    first = start(revision, 1)
    topics.write(revision.topics["events"], build_records(0, 600))
    first.wait_for("batches", lambda p: p.queries and p.queries[0].batch_id >= 3)
    path = f"/savepoints/one?location={SAVEPOINTS}"
    assert first.get(path, token=TOKEN, method="POST")[0] == 202
    told = first.wait_for("the savepoint", lambda p: p.savepoints and p.savepoints[0].done).savepoints[0]
    assert told.failure is None, told
    first.wait_for("no lag", lambda p: p.lag == 0)
    first.process.terminate()
    assert first.wait().graceful

    def work(task: SavepointTask, name: str, **more: Any) -> Any:
        request = WorkRequest(task=task, name=name, location=SAVEPOINTS, bucket=bucket, **more)
        # In a process of its own, as in a pod: it ends its session, and there is but one in a process.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            return process.submit(do_work, request, first.revision_file).result()

    taken = work(SavepointTask.TAKE, "two").taken
    assert (taken.batches["out"] > told.batches["out"], taken.copied_bytes < taken.size_bytes) == (True, True)
    verified = work(SavepointTask.VERIFY, "one", verify_by=VerifyBy.STATE_READER).verification
    assert (verified.damage, [rows.sink for rows in verified.state]) == ((), ["out"])
    assert verified.state[0].rows > 0

    made_of = Restoration(location=SAVEPOINTS, savepoint="one")
    second = start(build(SPEC, f"{CHECKPOINT}-1", restoration=made_of), 2)
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
    assert work(SavepointTask.DELETE, "one", needed_by=(f"{CHECKPOINT}-1",)).removed.objects > 0
    assert list(SavepointStore(BucketFolder(SAVEPOINTS, bucket)).files.walk("")) == []


@pytest.mark.chaos
@pytest.mark.parametrize("to_bucket", [True, False], ids=["to the bucket", "to the claim"])
def test_a_pipeline_moves_between_a_pvc_and_a_bucket_with_its_savepoint(
    start: Any, build: Any, topics: Any, bucket: BucketConnection, tmp_path: Path, *, to_bucket: bool
) -> None:
    roots = [f"file://{tmp_path}/claim", "s3a://state/prod"]
    here, there = roots if to_bucket else reversed(roots)
    revision = build(SPEC, f"{here}/test/delays/uid")
    first = start(revision, 1)
    topics.write(revision.topics["events"], build_records(0, 300))
    first.wait_for("no lag", lambda p: p.queries and p.queries[0].batch_id >= 2 and p.lag == 0)
    first.process.terminate()
    assert first.wait().graceful

    def work(task: SavepointTask, name: str, root: str, **more: Any) -> Any:
        location = f"{root}/savepoints/test/delays"
        request = WorkRequest(task=task, name=name, location=location, bucket=bucket, **more)
        return do_work(request, first.revision_file)

    taken = work(SavepointTask.TAKE, "one", here).taken
    other = OtherPlace(location=taken.location, bucket=bucket)
    moved = work(SavepointTask.IMPORT, "moved", there, source="one", other=other).taken
    assert (moved.batches, moved.copied_bytes > 0) == (taken.batches, True)
    assert work(SavepointTask.DELETE, "one", here).removed.objects > 0

    topics.write(revision.topics["events"], build_records(300, 600))
    made_of = Restoration(location=moved.location, savepoint="moved")
    second = start(build(SPEC, f"{there}/test/delays/another", restoration=made_of), 2)
    second.wait_for(
        "batches after that of the savepoint",
        lambda p: p.queries and p.queries[0].batch_id > moved.batches["out"] and p.lag == 0,
    )
    second.process.terminate()
    assert second.wait().graceful
    rows = read_windows(topics, revision.topics["out"])
    assert set(rows) == expect(600)
    assert len(rows) == len(set(rows)), "what was done before the savepoint is not done again"


@pytest.mark.chaos
def test_a_killed_driver_is_replaced_by_one_that_continues(
    start: Any, build: Any, topics: Any, bucket: BucketConnection
) -> None:
    revision = build(SPEC)
    first = start(revision, 1)
    topics.write(revision.topics["events"], build_records(0, 600))
    first.wait_for("batches", lambda p: p.queries and p.queries[0].batch_id >= 3)
    first.kill()
    last = max(read_commits(bucket))
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
