"""How many executors a driver requests while it replays, and which it removes afterwards: a scheduler in memory."""

from dataclasses import dataclass, field

import pytest
from py4j.protocol import Py4JError

from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_pipelines.driver.executors import Scaling, build_scaling_settings
from kappa_pipelines.executors import (
    are_enough,
    build_executor_settings,
    count_replay_factor,
    find_replay_executors,
)
from spark.revisions import build_revision


@dataclass
class FakeScheduler:
    """Executors that register at once where the cluster has `room`, and are replaced where they are lost."""

    room: int = 100
    total: int = 2
    requests: list[int] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    has_job: bool = False
    last: int = 0
    fails: bool = False

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start what is missing and has room."""
        while len(self.running) < min(self.total, self.room):
            self.last += 1
            self.running.append(str(self.last))

    def list_executors(self) -> list[str]:
        if self.fails:
            raise Py4JError("the JVM is gone")
        return self.running[::-1]

    def request_total(self, number: int) -> None:
        if self.fails:
            raise Py4JError("the JVM is gone")
        self.requests.append(number)
        self.total = number
        self.start()

    def is_at_rest(self) -> bool:
        return not self.has_job

    def remove_idle(self, executors: list[str]) -> None:
        assert not self.has_job, "a batch that runs would be repeated in part"
        self.running = [each for each in self.running if each not in executors]
        self.start()


def run(scheduler: FakeScheduler, own: int = 2, more: int = 12) -> Scaling:
    """A driver whose replay has just ended."""
    scaling = Scaling(scheduler, own, more)
    for _ in range(3):
        scaling.step(replays=True)
    scaling.step(replays=False)
    return scaling


def test_a_replay_has_more_and_then_there_are_as_many_as_the_spec_has() -> None:
    scheduler = FakeScheduler()
    scaling = Scaling(scheduler, 2, 12)
    scaling.step(replays=False)
    scaling.step(replays=True)
    assert len(scheduler.running) == 12
    scaling.step(replays=False)
    assert scheduler.running == ["1", "2"], "the oldest stay"
    for _ in range(3):
        scaling.step(replays=False)
    assert scheduler.requests == [2, 12, 2], "each change is requested once"
    assert not scaling.is_lowering


def test_nothing_is_removed_before_a_moment_without_a_job() -> None:
    scheduler = FakeScheduler(has_job=True)
    scaling = run(scheduler)
    assert (len(scheduler.running), scheduler.total) == (12, 2)
    assert scaling.is_lowering
    scheduler.has_job = False
    scaling.step(replays=False)
    scaling.step(replays=False)
    assert (scheduler.running, scaling.is_lowering) == (["1", "2"], False)


def test_a_cluster_without_room_replays_with_what_it_has_and_one_that_starts_late_is_removed() -> None:
    scheduler = FakeScheduler(room=2)
    scaling = run(scheduler)
    assert (scheduler.running, scaling.is_lowering) == (["1", "2"], False)
    scheduler.running.append("3")  # its pod got a place at the moment of the last request
    scaling.step(replays=False)
    assert scheduler.running == ["1", "2"]


def test_executors_that_are_lost_meanwhile_leave_as_many_as_the_spec_has() -> None:
    scheduler = FakeScheduler(has_job=True)
    scaling = run(scheduler)
    scheduler.running = scheduler.running[4:]  # a node is lost
    scheduler.start()
    assert len(scheduler.running) == 8, "more than wanted, so Spark replaces none"
    scheduler.has_job = False
    scaling.step(replays=False)
    assert scheduler.running == ["5", "6"]
    scheduler.running = []
    scheduler.start()
    assert scheduler.running == ["13", "14"], "later Spark replaces lost ones"


def test_the_same_driver_may_replay_again_after_an_archive() -> None:
    """A second supervision does not know what the first one requested."""
    scheduler = FakeScheduler()
    Scaling(scheduler, 2, 12).step(replays=True)
    Scaling(scheduler, 2, 12).step(replays=False)
    assert (scheduler.running, scheduler.requests) == (["1", "2"], [12, 2])


def test_without_more_executors_the_scheduler_is_not_asked() -> None:
    scheduler = FakeScheduler(fails=True)
    assert not run(scheduler, more=0).is_lowering
    assert scheduler.requests == []


EXECUTORS = {"spark.master": "k8s://x", "spark.executor.instances": "2"}
SPEC = {
    "sources": [{"name": "in", "topic": "in", "format": {"raw": {}}}],
    "sinks": [{"name": "out", "from": "in", "kafka": {"topic": "out"}}],
}
UNLIMITED = {"spark.executor.maxNumFailures": "2147483647"}


def build_configured(conf: dict[str, str]) -> Revision:
    """A pipeline with settings of Spark."""
    return build_revision(SPEC, "/ck", "kafka:9092", spark_conf=conf)


@pytest.mark.parametrize(
    ("conf", "wanted", "more", "factor", "settings"),
    [
        (EXECUTORS, 12, 12, 6, UNLIMITED),
        (EXECUTORS, 3, 3, 2, UNLIMITED),
        (EXECUTORS, 2, 0, 1, {}),
        (EXECUTORS, None, 0, 1, {}),
        ({"spark.master": "local[2]"}, 12, 0, 1, {}),
        ({**EXECUTORS, "spark.dynamicAllocation.enabled": "True"}, 12, 0, 1, {}),
        ({**EXECUTORS, "spark.executor.maxNumFailures": "9"}, 12, 12, 6, {}),
    ],
)
def test_pods_that_a_quota_refuses_do_not_end_a_driver_that_may_have_more(
    conf: dict[str, str], wanted: int | None, more: int, factor: int, settings: dict[str, str]
) -> None:
    revision, replay = build_configured(conf), ReplayProfile(executors=wanted)
    assert find_replay_executors(revision, replay) == more
    assert count_replay_factor(revision, replay) == factor, "its tasks and splits are for as many"
    assert build_scaling_settings(revision, replay) == settings
    assert find_replay_executors(revision, None) == 0


def test_a_jvm_that_is_gone_is_no_failure_of_its_own_and_the_next_step_requests_again() -> None:
    scheduler = FakeScheduler(fails=True)
    scaling = Scaling(scheduler, 2, 12)
    scaling.step(replays=True)
    scheduler.fails = False
    scaling.step(replays=True)
    assert scheduler.requests == [12]


RATIO, SECONDS = (
    "spark.scheduler.minRegisteredResourcesRatio",
    "spark.scheduler.maxRegisteredResourcesWaitingTime",
)
ALLOCATOR = {"spark.kubernetes.allocation.pods.allocator": "kappa.start.ExecutorPods"}
POD = {"spark.kubernetes.driver.pod.name": "p", "spark.driver.host": "10.0.0.1"}


@pytest.mark.parametrize(
    ("conf", "settings"),
    [
        (EXECUTORS, {**ALLOCATOR, RATIO: "0", **POD}),
        ({**EXECUTORS, RATIO: "1"}, {**ALLOCATOR, **POD}),
        ({**EXECUTORS, SECONDS: "5s"}, {**ALLOCATOR, **POD}),
        ({"spark.master": "local[2]"}, {}),
        ({"spark.master": "k8s://x", "spark.executor.instances": "0"}, {}),
    ],
)
def test_a_session_does_not_wait_for_executors_unless_its_author_sets_how_long(
    conf: dict[str, str], settings: dict[str, str]
) -> None:
    assert build_executor_settings(build_configured(conf), "p", "10.0.0.1") == settings
    outside = {key: value for key, value in settings.items() if key not in POD}
    assert build_executor_settings(build_configured(conf), None, None) == outside


@pytest.mark.parametrize(
    ("count", "own", "found", "seconds", "enough"),
    [
        (1, {}, 0, 3600, False),
        (1, {}, 1, 0, True),
        (2, {}, 1, 0, False),
        (2, {}, 1, 30, True),
        (2, {}, 2, 0, True),
        (5, {}, 3, 29, False),
        (5, {}, 4, 0, True),
        (5, {RATIO: "0.2"}, 1, 0, True),
        (5, {SECONDS: "5s"}, 1, 0, True),
        (5, {RATIO: "0"}, 0, 3600, False),
    ],
)
def test_a_driver_starts_with_most_of_its_executors_or_after_a_while_with_any(
    count: int, own: dict[str, str], found: int, seconds: float, *, enough: bool
) -> None:
    conf = {**EXECUTORS, "spark.executor.instances": str(count), **own}
    assert are_enough(build_configured(conf), found, seconds) == enough
