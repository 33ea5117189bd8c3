"""The flights example on the whole cluster: January through the demo's own code, under topic names of its own.

The year itself is `make demo`. With `KAPPA_E2E_INSTALLED=1` the test takes an operator that is there already and that
watches the namespace `flights-e2e`.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from rich.console import Console

from demo import platform, run
from demo.compare import compare_rows
from demo.loader import Loaded
from demo.manifests import Example
from demo.show import show_failure
from demo.watch import NotProcessedError
from lab import cluster, kafka
from lab.errors import LabError
from lab.kube import kubectl

BOOTSTRAP = kafka.host_bootstrap()
EXAMPLE = Example(namespace="flights-e2e", prefix="e2e-")

pytestmark = [
    pytest.mark.skipif(
        not cluster.is_docker_there() and (os.geteuid() != 0 or shutil.which("apt-get") is None),
        reason="the local cluster needs a Docker engine, or root on Debian",
    ),
    pytest.mark.timeout(900),
]


@dataclass(frozen=True)
class Demo:
    """January, loaded and processed."""

    data: run.Data
    loaded: Loaded
    outcome: run.Outcome


@pytest.fixture(scope="module")
def demo(request: pytest.FixtureRequest) -> Iterator[Demo]:
    if not os.environ.get("KAPPA_E2E_INSTALLED"):
        if os.environ.get("KAPPA_E2E_ALONE"):
            pytest.skip("with KAPPA_E2E_ALONE=1 the operator does not watch this test's namespace")
        request.getfixturevalue("platform")
    run.clean(EXAMPLE, BOOTSTRAP)
    yield process_january()
    run.clean(EXAMPLE, BOOTSTRAP)


def process_january() -> Demo:
    data = run.prepare(EXAMPLE, months=1)
    try:
        run.set_up(EXAMPLE)
        loaded = run.load_data(EXAMPLE, data, BOOTSTRAP)
        status = run.process(EXAMPLE, data, loaded, BOOTSTRAP, print)
        return Demo(data, loaded, run.compare(EXAMPLE, data, loaded, status, BOOTSTRAP))
    except (NotProcessedError, LabError) as error:
        show_failure(
            Console(width=200), str(error), platform.describe_failure(EXAMPLE.namespace, EXAMPLE.pipeline)
        )
        raise


def test_the_result_equals_duckdbs_in_every_key(demo: Demo) -> None:
    assert demo.outcome.differences == ()
    assert sum(row.departures for row in demo.outcome.result.rows.values()) == 27_004


def test_every_malformed_record_is_a_dead_letter_with_its_error(demo: Demo) -> None:
    assert len(demo.outcome.letters) == demo.data.log.malformed == len(demo.loaded.malformed) > 0
    assert all(letter.error for letter in demo.outcome.letters.values())


def test_no_record_was_dropped_as_late(demo: Demo) -> None:
    assert demo.data.log.late > 0
    assert demo.outcome.status.late == 0


def test_the_status_shows_the_result(demo: Demo) -> None:
    status = demo.outcome.status
    assert (status.records, status.lag_records) == (len(demo.data.log), 0)
    assert status.restarts.total == 0


def test_the_comparison_notices_one_wrong_row(demo: Demo) -> None:
    spoiled = run.spoil_expected(demo.data)
    (difference,) = compare_rows(spoiled.expected, demo.outcome.result.rows)
    assert difference.what == "departures"


def test_a_user_sees_all_resources_with_one_word(demo: Demo) -> None:
    listed = platform.get_kappa(EXAMPLE.namespace)
    for name in ("main", "flights", "delays-hourly", "flights-dead", "default", "delays"):
        assert f"/{name} " in listed


def test_a_namespace_with_a_running_pipeline_is_removed_and_leaves_no_topic(demo: Demo) -> None:
    """Last in this file but for those of `make chaos`: it takes the resources of the run away."""
    kubectl("delete", "namespace", EXAMPLE.namespace, "--timeout=120s", timeout=130)
    assert run.clean(EXAMPLE, BOOTSTRAP) == [], (
        "the platform deletes topics with deletionPolicy Delete itself"
    )


@pytest.mark.chaos
def test_a_second_run_starts_clean(demo: Demo) -> None:
    run.clean(EXAMPLE, BOOTSTRAP)
    again = process_january()
    assert again.outcome.differences == ()
    assert again.outcome.result.rows == demo.outcome.result.rows


@pytest.mark.chaos
def test_resources_that_are_removed_one_by_one_leave_nothing(demo: Demo) -> None:
    assert run.clean(EXAMPLE, BOOTSTRAP) == []
