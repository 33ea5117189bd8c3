"""Taking things away: a pipeline ends at a committed batch and leaves its state, a namespace ends by itself."""

import json

import pytest

from e2e.counting import Counting
from e2e.files import list_claim
from lab.kube import kubectl

pytestmark = pytest.mark.timeout(900)

_SECONDS = 120


def test_a_deleted_pipeline_stops_in_order_and_only_its_state_stays(counting: Counting) -> None:
    place = counting.place
    counting.check()
    before = place.pipeline()
    uid = json.loads(place.kubectl("get", "pipeline", "counts", "-o", "json"))["metadata"]["uid"]
    place.kubectl(
        *("delete", "pipeline", "counts", "--wait", f"--timeout={_SECONDS}s"), timeout=_SECONDS + 10
    )
    counting.ledger.read()

    def is_gone() -> bool:
        kinds = "pods,configmaps,services,serviceaccounts,roles,rolebindings,secrets,networkpolicies"
        return place.kubectl("get", kinds, "-l", "kappa-platform.io/pipeline=counts", "-o", "name") == ""

    place.wait(is_gone, "everything that the pipeline owned is gone", 60)
    files = list_claim(counting.place)
    folder = (
        f"{uid}-{before.checkpoint}" if before.checkpoint else uid
    )  # of a savepoint, where it went back to one
    checkpoint = f"/state/{place.name}/counts/{folder}/log"
    commits = [file for file in files if file.startswith(f"{checkpoint}/commits/")]
    assert max(int(file.rsplit("/", 1)[1]) for file in commits if file[-1].isdigit()) >= (before.batch or 0)
    assert any(file.startswith(f"{checkpoint}/state/") for file in files)


@pytest.mark.chaos
def test_a_namespace_is_removed_while_records_arrive(counting: Counting) -> None:
    """The pipeline of the test before is made again: a new one, with a checkpoint of its own, counts from the start."""
    place = counting.place
    place.apply(place.render("counting.yaml"))
    place.await_ready("pipeline/counts")
    counting.check()
    counting.ledger.pause()
    try:
        kubectl("delete", "namespace", place.name, f"--timeout={_SECONDS}s", timeout=_SECONDS + 10)
    except Exception as error:
        place.fail(str(error))
