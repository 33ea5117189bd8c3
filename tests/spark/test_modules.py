"""Modules that a revision brings along, in a driver on real Kafka: the code of an event-sourced view."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from spark.conftest import DriverThread
from spark.revisions import build_revision, source
from spark.topics import Topics

TALLY = """
from kappa_test_tally_rules import is_too_much
from kappa_pipelines.decider import Rejected


def decide(state, command):
    if is_too_much(command["v"]):
        return Rejected("too much")
    return [{"type": "added", "v": command["v"]}] * 2


def evolve(state, event):
    return (state or 0) + event["v"]
"""
RULES = "def is_too_much(value):\n    return value > 2\n"


@pytest.mark.chaos  # on the cluster `make test` has modules of a revision on executors, and on a laptop event sourcing
def test_an_event_sourced_view_runs_code_of_its_revision_and_keeps_order_in_the_topic(
    topics: Topics, run: Callable[..., DriverThread], checkpoint: Path
) -> None:
    commands, events = topics.make("commands"), topics.make("events")
    view = {
        "from": "commands", "key": ["k"], "order": ["p", "o"], "snapshotEvery": 50,
        "decide": "kappa_test_tally:decide", "evolve": "kappa_test_tally:evolve",
    }  # fmt: skip
    spec = {
        "sources": [
            source("commands", "k STRING, v BIGINT", recordColumns={"partition": "p", "offset": "o"})
        ],
        "views": [{"name": "decided", "eventSourced": view}],
        "sinks": [{"name": "events", "from": "decided", "kafka": {"topic": "events", "key": ["k"]}}],
    }
    revision = build_revision(
        spec,
        checkpoint,
        topics.bootstrap,
        topics={"commands": commands, "events": events},
        modules={"kappa_test_tally.py": TALLY, "kappa_test_tally_rules.py": RULES},
    )
    for key in "abc":
        topics.write(commands, [json.dumps({"k": key, "v": at % 4}) for at in range(40)], key=key)
    driver = run(revision)
    driver.wait_for_records(120)
    driver.stop()
    rows = [json.loads(record.value() or b"") for record in topics.read(events)]
    for key in "abc":
        mine = [row for row in rows if row["k"] == key]
        assert [row["sequence"] for row in mine if row["kind"] == "event"] == list(range(1, 61))
        assert [row["data"] for row in mine if row["kind"] == "snapshot"] == ["48"]
        assert {row["reason"] for row in mine if row["kind"] == "rejection"} == {"too much"}
        assert [row["o"] for row in mine] == sorted(row["o"] for row in mine)
