"""Pipelines whose state is in a bucket or in HDFS, on the whole cluster: drivers are lost, savepoints gone back to, results stay exact.

What they write comes there exactly once, their state is kept by settings of their own, and their stores are measured.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from e2e.counting import Counting
from e2e.driver_watch import DriverWatch
from e2e.ledger import Ledger
from e2e.place import Place
from kappa_crds.pipeline_status import PipelineState, PipelineStatus
from kappa_crds.savepoint import SavepointStatus
from kappa_crds.statestore import Measurement, StateStoreStatus
from kappa_crds.stores import HdfsConnection
from kappa_pipelines.checkpoint.store.hdfs import HdfsFolder
from lab import kafka, network
from lab.hdfs import Hdfs
from lab.s3 import FOR_PODS, REGION, ObjectStore

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]

BUCKET = """
apiVersion: v1
kind: Secret
metadata:
  name: keys
  annotations: {{secrets.kappa-platform.io/s3: "*"}}
data: {{accessKeyId: {access}, secretAccessKey: {secret}}}
---
apiVersion: kappa-platform.io/v1alpha1
kind: StateStore
metadata: {{name: default}}
spec:
  measureInterval: 30s
  s3: {{bucket: state, prefix: prod, endpoint: "{endpoint}", region: {region}, credentialsSecretRef: {{name: keys}}}}
"""
HDFS = """
apiVersion: kappa-platform.io/v1alpha1
kind: StateStore
metadata: {{name: default}}
spec:
  measureInterval: 30s
  hdfs: {{namenode: "{namenode}", webUrl: "{web}", path: /state/prod, user: kappa, replication: 1}}
"""
SAVEPOINT = """
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {{name: {name}}}
spec: {{pipelineRef: counts, verify: {{by: StateReader}}}}
"""
PLAIN = ("{count: 0,", "key: [k]}", "trigger:")
WANTED = (
    "{count: 1,",
    "key: [k], delivery: ExactlyOnce}",
    "state: {snapshotEvery: 4, compression: zstd, retainBatches: 200}\n  trigger:",
)
"""With an executor, that has the state; a sink that writes exactly once; and state that is kept in another way than by default."""


@dataclass(frozen=True)
class Remote:
    """A store that pods reach: its manifest, and how to list what it keeps of savepoints."""

    kind: str
    manifest: str
    scheme: str
    list_savepoints: Callable[[], list[str]]


@contextmanager
def keep_in_a_bucket() -> Iterator[Remote]:
    with ObjectStore(address=FOR_PODS) as server:
        server.create_bucket("state")
        keys = {"access": server.access_key, "secret": server.secret_key}
        encoded = {name: b64encode(value.encode()).decode() for name, value in keys.items()}

        def list_savepoints() -> list[str]:
            folder = server.folder / "state/prod/savepoints"
            return [str(path) for path in folder.rglob("*") if path.is_file()]

        manifest = BUCKET.format(endpoint=server.endpoint, region=REGION, **encoded)
        yield Remote("bucket", manifest, "s3a://state/", list_savepoints)


@contextmanager
def keep_in_hdfs() -> Iterator[Remote]:
    with Hdfs(address=network.NODE_IP) as server:
        server.give("/state/prod", "kappa")

        connection = HdfsConnection(web=server.web, user="kappa", replication=1)

        def list_savepoints() -> list[str]:
            return list(HdfsFolder(f"hdfs://{server.namenode}/state/prod/savepoints", connection).walk(""))

        manifest = HDFS.format(namenode=server.namenode, web=server.web)
        yield Remote("hdfs", manifest, f"hdfs://{server.namenode}/state/", list_savepoints)


@pytest.fixture(params=[keep_in_a_bucket, keep_in_hdfs], ids=["a bucket", "HDFS"])
def remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    with request.param() as remote:
        yield remote


@pytest.fixture
def counting(platform: None, remote: Remote) -> Iterator[Counting]:
    """The counting pipeline of the other tests, but for its StateStore and what is WANTED."""
    place = Place.create(remote.kind)
    manifests = place.render("counting.yaml")
    for plain, wanted in zip(PLAIN, WANTED, strict=True):
        assert plain in manifests
        manifests = manifests.replace(plain, wanted)
    parts = (part for part in manifests.split("\n---\n") if "kind: StateStore" not in part)
    if remote.kind == "hdfs":
        place.admit_egress()  # the datanode of the test has none of the usual ports
    with DriverWatch(place.name) as drivers:
        place.apply("\n---\n".join([remote.manifest, *parts]))
        place.await_ready("topics.kappa-platform.io/events", 60)
        place.await_ready("topics.kappa-platform.io/counted", 60)
        source, result = f"{place.name}-events", f"{place.name}-counted"
        with Ledger(kafka.host_bootstrap(), source, result) as ledger:
            place.await_ready("pipeline/counts")
            yield Counting(place, ledger, drivers)
    place.empty()


def take(place: Place, name: str) -> SavepointStatus:
    place.apply(SAVEPOINT.format(name=name))
    place.wait(lambda: read_savepoint(place, name).last_verified is not None, f"{name} is verified", 240)
    return read_savepoint(place, name)


def read_savepoint(place: Place, name: str) -> SavepointStatus:
    status = place.get("Savepoint", name).status
    assert isinstance(status, SavepointStatus)
    return status


def measure(place: Place, is_wanted: Callable[[Measurement], bool]) -> None:
    def is_measured() -> bool:
        status = place.get("StateStore", "default").status
        assert isinstance(status, StateStoreStatus)
        return status.measurement is not None and is_wanted(status.measurement)

    place.wait(is_measured, "the store is measured", 120)


def holds(measurement: Measurement, savepoints: int) -> bool:
    """Return whether so many savepoints were counted, none of them without files, and one checkpoint at least."""
    held = measurement.contents
    if held is None or held.savepoints != savepoints:
        return False
    return (
        held.checkpoints > 0 and held.checkpoint_bytes > 0 and (held.savepoint_bytes > 0) == (savepoints > 0)
    )


def test_a_pipeline_in_a_remote_store_outlives_its_driver_and_goes_back_to_its_savepoints(
    counting: Counting, remote: Remote
) -> None:
    place = counting.place
    counting.check()
    first = take(place, "first")
    assert (first.location or "").startswith(f"{remote.scheme}prod/savepoints/")
    assert first.store_name == "default"
    assert [rows.rows for rows in first.state_rows] == [12]
    measure(place, lambda measurement: holds(measurement, 1))

    (driver,) = place.drivers()
    generation = place.pipeline().active.generation
    place.kubectl("delete", "pod", driver, "--force", "--grace-period=0")

    def runs_again(status: PipelineStatus) -> bool:
        if status.active.generation > generation + 1:
            place.fail("the driver after the one that was lost has ended, too")
        return status.active.generation > generation and status.state == PipelineState.RUNNING

    place.await_pipeline(runs_again, "runs again")
    counting.check()
    assert counting.ledger.repeated == 0, "a sink that writes exactly once writes no result again"

    place.patch("kpp/counts", {"suspend": True})
    place.await_pipeline(lambda status: status.state == PipelineState.SUSPENDED, "is suspended", 90)
    second = take(place, "second")
    assert second.queries[0].batch > first.queries[0].batch
    assert second.copied_bytes is not None
    place.patch("kpp/counts", {"suspend": False, "restore": {"savepoint": "first"}})
    place.await_pipeline(
        lambda status: status.state == PipelineState.RUNNING and status.checkpoint == 1, "has gone back"
    )
    counting.check()
    place.kubectl("delete", "savepoint", "--all", "--timeout=120s", timeout=130)
    assert remote.list_savepoints() == [], "no savepoint is left, so nothing is"
    measure(place, lambda measurement: holds(measurement, 0))
