"""Sources with ways of their own, on executor pods: one that falls silent, one whose registry wants a log-in, one that is read in real time.

What their rows are is tested with drivers alone (`tests/spark`); here it is what pods add: Secrets, workers of Python, tasks elsewhere.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from e2e.counting import PASSWORD, USER
from e2e.place import START_SECONDS, Place
from kappa_crds.pipeline_status import PipelineState
from lab import kafka, network
from lab.registry import RegistryDouble
from spark.avro_values import record, write_framed
from spark.topics import Topics

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

START = datetime(2026, 1, 1, tzinfo=UTC)
WRONG = "battery-staple"
RATE = record(
    {"name": "v", "type": "long"},
    {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
)
PARTITIONS = {"bids": 1, "rates": 1, "hours": 1, "events": 4, "copies": 2}


@dataclass(frozen=True)
class Sources:
    """Both pipelines, and what they read and write."""

    place: Place
    topics: Topics
    names: dict[str, str]
    schema_id: int

    def let_in(self) -> None:
        """Put the right password into the Secret, if it is not there yet."""
        secret = {"stringData": {"password": PASSWORD}}
        self.place.kubectl("patch", "secret", "registry-user", "-p", json.dumps(secret))
        self.await_running("hours")

    def await_running(self, pipeline: str) -> None:
        self.place.await_pipeline(
            lambda status: status.state == PipelineState.RUNNING, "runs", START_SECONDS, name=pipeline
        )

    def count_executors(self, pipeline: str) -> int:
        labels = f"kappa-platform.io/pipeline={pipeline},kappa-platform.io/role=executor"
        return sum(pod["status"]["phase"] == "Running" for pod in self.place.find("pods", labels))

    def write_bids(self, *hours: float) -> None:
        rows = [json.dumps({"v": 1, "ts": at(each).isoformat()}) for each in hours]
        self.topics.write(self.names["bids"], rows)

    def read_hours(self) -> list[tuple[int, int]]:
        """Return how many rows each hour had, and their sum, in the order of time."""
        rows = sorted(self.topics.values(self.names["hours"]), key=lambda row: row["window_start"])
        return [(row["counted"], row["total"]) for row in rows]

    def write_numbers(self, start: int, end: int) -> None:
        self.topics.write(self.names["events"], [json.dumps({"n": n}) for n in range(start, end)])

    def read_numbers(self) -> list[int]:
        return sorted(row["n"] for row in self.topics.values(self.names["copies"]))


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


@pytest.fixture(scope="module")
def sources(platform: None) -> Iterator[Sources]:
    """The one with a registry is given a password that is not the registry's."""
    place, topics = Place.create("sources"), Topics(kafka.host_bootstrap())
    names = {name: topics.make(name, count) for name, count in PARTITIONS.items()}
    with RegistryDouble(login=(USER, PASSWORD), address=network.NODE_IP) as registry:
        schema_id = registry.register(f"{names['rates']}-value", RATE)
        place.apply(place.render("sources.yaml", registry=registry.url, password=WRONG, **names))
        yield Sources(place, topics, names, schema_id)
        place.empty()
    for future in topics.admin.delete_topics(list(names.values())).values():
        future.result(30)


def test_a_registry_that_refuses_a_password_is_reported_and_the_correct_one_is_used(
    sources: Sources,
) -> None:
    place = sources.place
    said = place.await_reason("Pipeline", "hours", "RegistryUnavailable", START_SECONDS).message
    assert "HTTP 401" in said
    assert WRONG not in said
    place.kubectl(
        "patch", "secret", "registry-user", "-p", json.dumps({"stringData": {"password": PASSWORD}})
    )
    sources.await_running("hours")
    assert PASSWORD not in place.kubectl("get", "kappa,pods,configmaps,events", "-o", "json")
    assert PASSWORD not in place.kubectl("logs", place.pipeline("hours").active.driver or "")


def test_a_source_that_falls_silent_holds_no_window_on_an_executor(sources: Sources) -> None:
    sources.let_in()
    rate = write_framed(sources.schema_id, RATE, {"v": 10, "ts": at(0)})
    sources.topics.write(sources.names["rates"], [rate])
    sources.write_bids(0.1, 0.2, 2.5)
    place = sources.place
    place.wait(lambda: sources.read_hours() == [(3, 12)], "the first hour is done", 120)
    assert sources.count_executors("hours") == 1
    sources.write_bids(4.5)
    place.wait(lambda: sources.read_hours() == [(3, 12), (1, 1)], "the third hour is done", 120)


def test_in_real_time_on_an_executor_a_stop_neither_loses_nor_repeats_a_row(sources: Sources) -> None:
    place = sources.place
    sources.await_running("copies")
    assert sources.count_executors("copies") == 1
    sources.write_numbers(0, 40)
    place.wait(lambda: sources.read_numbers() == list(range(0, 40, 2)), "the rows are there", 60)
    sources.write_numbers(40, 60)
    place.patch("kpp/copies", {"suspend": True})
    place.await_reason("Pipeline", "copies", "Suspended", 90)
    sources.write_numbers(60, 80)
    place.patch("kpp/copies", {"suspend": False})
    place.wait(lambda: len(sources.read_numbers()) >= 40, "the rows of both are there", START_SECONDS)
    assert sources.read_numbers() == list(range(0, 80, 2))
    assert place.pipeline("copies").restarts.total == 0
