"""A change that reaches many pipelines, on the whole cluster: other Java options in the chart's values."""

import threading
import time
from collections.abc import Iterator

import pytest

from e2e.installation import JAVA_OPTIONS, change_values
from e2e.place import START_SECONDS, Place
from e2e.traffic import Traffic
from kappa_crds.pipeline_status import PipelineStatus, UpgradePhase
from kappa_crds.reasons import Reason
from lab import kafka

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]

NAMES = ("one", "two", "three")
PIPELINE = """
---
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {{name: {name}}}
spec:
  sources:
    - {{name: events, topic: events, format: {{json: {{schema: "seq BIGINT"}}}}}}
  sinks:
    - {{name: log, from: events, kafka: {{topic: passed}}}}
  trigger: {{interval: 1s}}
  resources:
    driver: {{cpu: 100m, memory: 1200Mi}}
    executors: {{count: 0, cpu: 100m, memory: 1200Mi}}
"""
UNDER_WAY = (
    UpgradePhase.DRY_RUN, UpgradePhase.SAVING, UpgradePhase.HANDING_OVER, UpgradePhase.WATCHING,
)  # fmt: skip


class Watch(threading.Thread):
    """Looks four times a second how many pipelines are being changed, and what the others say."""

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        self.most, self.reasons = 0, set[str]()
        self._place = place
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.is_set():
            found = read(self._place)
            self.most = max(self.most, sum(is_changing(each) for each in found.values()))
            self.reasons |= {each.conditions[0].reason for each in found.values() if each.conditions}
            time.sleep(0.25)

    def end(self) -> None:
        self._ending.set()
        self.join(30)


def read(place: Place) -> dict[str, PipelineStatus]:
    bodies = place.find("pipelines")
    return {body["metadata"]["name"]: PipelineStatus.model_validate(body["status"]) for body in bodies}


def is_changing(status: PipelineStatus) -> bool:
    return status.upgrade is not None and status.upgrade.phase in UNDER_WAY


@pytest.fixture
def fleet(platform: None) -> Iterator[Place]:
    """Three pipelines that run, with records coming in."""
    place = Place.create("fleet")
    place.apply(place.render("fleet.yaml") + "".join(PIPELINE.format(name=name) for name in NAMES))
    for name in NAMES:
        place.await_ready(f"pipeline/{name}", START_SECONDS)
    with Traffic(kafka.host_bootstrap(), f"{place.name}-events", 2, rate=20):
        yield place
    place.empty()
    change_values({})


def test_other_java_options_reach_all_pipelines_one_after_another(fleet: Place) -> None:
    before = read(fleet)
    watch = Watch(fleet)
    watch.start()
    try:
        changed = {
            "pipelines.javaOptions": f"{JAVA_OPTIONS} -Dkappa.fleet=next",
            "operator.concurrentChanges": 1,
        }
        change_values(changed)
        fleet.wait(
            lambda: all(
                status.upgrade is not None
                and status.upgrade.phase is UpgradePhase.DONE
                and status.active.revision != before[name].active.revision
                for name, status in read(fleet).items()
            ),
            "all pipelines are changed",
            START_SECONDS,
        )
    finally:
        watch.end()
    assert watch.most == 1
    assert Reason.UPGRADE_WAITING in watch.reasons
    for status in read(fleet).values():
        assert status.restarts.total == 0
