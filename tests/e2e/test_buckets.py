"""A pipeline whose state is in a bucket, on the whole cluster: its driver is lost, it is saved, gone back to, and stays exact."""

from base64 import b64encode
from collections.abc import Iterator

import pytest

from e2e.counting import Counting
from e2e.driver_watch import DriverWatch
from e2e.ledger import Ledger
from e2e.place import Place
from kappa_crds.pipeline import PipelineState
from kappa_crds.savepoint import SavepointStatus
from lab import kafka
from lab.s3 import FOR_PODS, REGION, ObjectStore

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]

STORE = """
apiVersion: v1
kind: Secret
metadata: {{name: keys}}
data: {{accessKeyId: {access}, secretAccessKey: {secret}}}
---
apiVersion: kappa-platform.io/v1alpha1
kind: StateStore
metadata: {{name: default}}
spec: {{s3: {{bucket: state, prefix: prod, endpoint: "{endpoint}", region: {region}, credentialsSecretRef: {{name: keys}}}}}}
"""
SAVEPOINT = """
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {{name: {name}}}
spec: {{pipelineRef: counts, verify: {{by: StateReader}}}}
"""


@pytest.fixture
def server() -> Iterator[ObjectStore]:
    with ObjectStore(address=FOR_PODS) as running:
        running.create_bucket("state")
        yield running


@pytest.fixture
def counting(platform: None, server: ObjectStore) -> Iterator[Counting]:
    """The counting pipeline of the other tests, but for its StateStore, and with an executor: that has the state."""
    place = Place.create("bucket")
    keys = {"access": server.access_key, "secret": server.secret_key}
    encoded = {name: b64encode(value.encode()).decode() for name, value in keys.items()}
    store = STORE.format(endpoint=server.endpoint, region=REGION, **encoded)
    parts = place.render("counting.yaml").replace("{count: 0,", "{count: 1,").split("\n---\n")
    with DriverWatch(place.name) as drivers:
        place.apply("\n---\n".join([store, *(part for part in parts if "kind: StateStore" not in part)]))
        place.await_ready("topics.kappa-platform.io/events", 60)
        place.await_ready("topics.kappa-platform.io/counted", 60)
        source, result = f"{place.name}-events", f"{place.name}-counted"
        with Ledger(kafka.host_bootstrap(), source, result) as ledger:
            place.await_ready("pipeline/counts")
            yield Counting(place, ledger, drivers)
    place.empty()


def take(place: Place, name: str) -> SavepointStatus:
    place.apply(SAVEPOINT.format(name=name))
    place.kubectl("wait", "--for=condition=Verified", f"savepoint/{name}", "--timeout=120s", timeout=130)
    status = place.get("Savepoint", name).status
    assert isinstance(status, SavepointStatus)
    return status


def test_a_pipeline_in_a_bucket_outlives_its_driver_and_goes_back_to_its_savepoints(
    counting: Counting, server: ObjectStore
) -> None:
    place = counting.place
    counting.check()
    first = take(place, "first")
    assert (first.location or "").startswith("s3a://state/prod/savepoints/")
    assert first.store_name == "default"
    assert [rows.rows for rows in first.state_rows] == [12]

    (driver,) = place.drivers()
    generation = place.pipeline().generation
    place.kubectl("delete", "pod", driver, "--force", "--grace-period=0")
    place.await_pipeline(
        lambda status: status.generation > generation and status.state == PipelineState.RUNNING, "runs again"
    )
    counting.check()

    place.patch("kp/counts", {"suspend": True})
    place.await_pipeline(lambda status: status.state == PipelineState.SUSPENDED, "is suspended", 90)
    second = take(place, "second")
    assert second.queries[0].batch > first.queries[0].batch
    assert second.copied_bytes is not None
    place.patch("kp/counts", {"suspend": False, "restore": {"savepoint": "first"}})
    place.await_pipeline(
        lambda status: status.state == PipelineState.RUNNING and status.checkpoint == 1, "has gone back"
    )
    counting.check()
    place.kubectl("delete", "savepoint", "--all", "--timeout=120s", timeout=130)
    kept = [path for path in (server.folder / "state/prod/savepoints").rglob("*") if path.is_file()]
    assert kept == [], "no savepoint is left, so nothing is"
