"""The demo of a reprocessing: what both versions must compute, the table of a reader, and checks that notice what is wrong."""

import json
from collections import Counter
from typing import Any, cast

import pandas as pd
import pytest
from confluent_kafka import Message

from demo.reprocess.expected import (
    compute_expected,
    count_differences,
    count_missing,
    read_flight,
    read_hour,
    read_scheduled,
)
from demo.reprocess.manifests import RIGHT, WRONG, Example
from demo.reprocess.readers import Departures, Hours
from kappa_client import OutputReader

WINTER = ("EWR", "UA", 1, "2013-01-15T15:05")
SUMMER = ("EWR", "UA", 2, "2013-04-15T15:05")


def build_frame() -> Any:
    flights = [("2013-01-15T15:00:00Z", 1, 10.0), ("2013-04-15T15:00:00Z", 2, None)]
    return pd.DataFrame(
        [
            {
                "time_hour": hour,
                "minute": 5,
                "carrier": "UA",
                "flight": flight,
                "origin": "EWR",
                "dep_delay": delay,
            }
            for hour, flight, delay in flights
        ]
    )


def test_both_versions_agree_in_winter_and_are_an_hour_apart_in_summer() -> None:
    wrong, right = (compute_expected(build_frame(), set(), right=right) for right in (False, True))
    assert wrong.local == {WINTER: "2013-01-15 10:05", SUMMER: "2013-04-15 10:05"}
    assert right.local == {WINTER: "2013-01-15 10:05", SUMMER: "2013-04-15 11:05"}
    assert right.hours == {
        ("EWR", "2013-01-15 10:00"): (1, 10.0, 10.0),
        ("EWR", "2013-04-15 11:00"): (1, None, None),
    }
    assert count_differences(wrong.hours, right.hours) == 2
    assert count_differences(right.hours, dict(right.hours)) == 0
    without = compute_expected(build_frame(), {SUMMER}, right=True)
    assert without.local.keys() == {WINTER}


def test_flights_that_are_lost_or_repeated_are_counted() -> None:
    expected = compute_expected(build_frame(), set(), right=True).local
    assert count_missing(expected, Counter([WINTER, SUMMER])) == (0, 0)
    assert count_missing(expected, Counter([WINTER, WINTER])) == (1, 1)


def test_rows_of_the_outputs_are_read_as_the_batch_has_them() -> None:
    row = {
        "origin": "EWR",
        "carrier": "UA",
        "flight": 1,
        "scheduled": "2013-01-15T15:05:00.000000Z",
        "local": "x",
    }
    assert read_flight(row) == (WINTER, "x")
    assert read_scheduled({**row, "scheduled": "2013-01-15T15:05:00Z"}) == WINTER
    hour = {"origin": "EWR", "hour": "h", "departures": 1, "mean_delay": None, "max_delay": 2.0}
    assert read_hour(hour) == (("EWR", "h"), (1, None, 2.0))


class Record:
    def __init__(self, topic: str, **row: Any) -> None:
        self._topic, self._value = topic, json.dumps(row).encode()

    def topic(self) -> str:
        return self._topic

    def value(self) -> bytes:
        return self._value


class Reader:
    is_rebuilding = False


def test_the_served_table_is_replaced_as_a_whole_when_the_next_one_is_complete() -> None:
    hours, reader = Hours(), Reader()

    def take(topic: str, hour: str, count: int, *, rebuilding: bool = False) -> None:
        reader.is_rebuilding = rebuilding
        record = Record(topic, origin="EWR", hour=hour, departures=count, mean_delay=None, max_delay=None)
        hours.take(cast(Message, record), cast(OutputReader, reader))

    take("out", "10", 1)
    take("out", "10", 2)
    take("out.r1", "11", 1, rebuilding=True)
    assert (hours.served_from, hours.served) == ("out", {("EWR", "10"): (2, None, None)})
    take("out.r1", "12", 1)
    assert (hours.served_from, set(hours.served)) == ("out.r1", {("EWR", "11"), ("EWR", "12")})


def test_the_reader_of_the_stream_notes_the_topics_in_their_order() -> None:
    departures = Departures()
    row = {"origin": "EWR", "carrier": "UA", "flight": 1, "scheduled": "2013-01-15T15:05:00Z", "local": "x"}
    for topic in ("out", "out", "out.r1", "out"):
        departures.take(cast(Message, Record(topic, **row)), cast(OutputReader, Reader()))
    assert departures.list_topics() == ["out", "out.r1", "out"]


@pytest.mark.parametrize("zone", [RIGHT, WRONG])
def test_the_pipeline_is_that_of_the_example_but_for_the_time_zone(zone: str) -> None:
    example = Example(prefix="x.")
    text = json.dumps(example.build_pipeline(zone))
    assert text.count(zone) == 2
    names = {each["spec"].get("topicName") for each in example.build_surroundings()} - {None}
    assert names == {"x.flights", "x.hours-local", "x.departures-local"}
    assert "x.hours-local.r1" in example.topics
