"""What Prometheus gets about a Reprocessing, in its phases."""

from typing import Any

from unit.control.test_resource_metrics import Cluster, find_seconds, say_ready

NAME = {"namespace": "shop", "reprocessing": "orders-1"}
START = "2026-01-01T12:00:00Z"
CATCHING_UP: dict[str, Any] = {
    "phase": "CatchingUp",
    "since": START,
    "started": START,
    "conditions": say_ready("False", "CatchingUp"),
    "unheld": ["in: not permitted"],
    "gaps": [{"topic": "in", "partition": 0, "first": 0, "end": 40}],
    "catchUp": {
        "lag": 70,
        "activeLag": 3,
        "recordsPerSecond": 12.5,
        "partitions": [
            {"topic": "in", "partition": 0, "offset": 40, "end": 100, "etaSeconds": 5},
            {"topic": "in", "partition": 1, "offset": 90, "end": 100},
        ],
    },
}


def read(status: dict[str, Any]) -> dict[str, list[tuple[dict[str, str], float]]]:
    cluster = Cluster()
    cluster.show("Reprocessing", "orders-1", status, pipelineRef="orders", deadline="1h")
    return {name.removeprefix("kappa_reprocessing_"): found for name, found in cluster.read().items()}


def test_the_replay_has_its_rate_and_the_lag_and_time_left_of_each_partition() -> None:
    found = read(CATCHING_UP)
    ((labels, one),) = found["info"]
    assert (labels, one) == (
        NAME | {"pipeline": "orders", "phase": "CatchingUp", "reason": "CatchingUp"},
        1.0,
    )
    single = {
        name: found[name][0][1]
        for name in (
            "lag_records",
            "active_lag_records",
            "records_per_second",
            "waiting",
            "missing_records",
            "unheld_topics",
        )
    }
    assert single == {
        "lag_records": 70,
        "active_lag_records": 3,
        "records_per_second": 12.5,
        "waiting": 0,
        "missing_records": 40,
        "unheld_topics": 1,
    }
    assert found["deadline_timestamp_seconds"] == [(NAME, find_seconds(START) + 3600)]
    partitions = {labels["partition"]: value for labels, value in found["partition_lag_records"]}
    assert partitions == {"0": 60, "1": 10}
    assert [(labels["partition"], value) for labels, value in found["partition_eta_seconds"]] == [("0", 5)]
    assert found["unexpected_rows"] == []


def test_a_comparison_that_differs_waits_for_a_person_with_its_rows_by_sink() -> None:
    cut = {"inputs": [], "taken": START}
    summary = {"equal": 7, "changed": 2, "onlyNew": 1}
    comparison = {"number": 1, "cut": cut, "unexpected": 3, "sinks": [{"sink": "log", "summary": summary}]}
    ready = say_ready("False", "OutputsDiffer")
    found = read({**CATCHING_UP, "phase": "ReadyToCut", "conditions": ready, "comparison": comparison})
    assert found["waiting"] == [(NAME, 1.0)]
    assert found["unexpected_rows"] == [(NAME, 3.0)]
    rows = {labels["result"]: value for labels, value in found["rows"]}
    assert rows == {"Equal": 7, "Changed": 2, "OnlyOld": 0, "OnlyNew": 1, "Expected": 0, "Undecided": 0}


def test_one_that_has_ended_has_no_replay_and_no_deadline() -> None:
    found = read({**CATCHING_UP, "phase": "Failed", "conditions": say_ready("False", "ReprocessingFailed")})
    gone = ("lag_records", "partition_lag_records", "partition_eta_seconds", "deadline_timestamp_seconds")
    assert [found[name] for name in gone] == [[]] * 4
    assert found["waiting"] == [(NAME, 0.0)]
