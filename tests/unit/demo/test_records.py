"""The log of records: complete, always the same, late within bounds, malformed in known ways."""

import json
from dataclasses import replace

import pytest

from demo.errors import DemoError
from demo.flights import Frame, read_flights
from demo.manifests import Example
from demo.records import (
    BARRIER,
    LOOKAHEAD,
    Fault,
    Log,
    Record,
    build_log,
    check_order,
    measure_displacement,
)

HOUR = 3600


@pytest.fixture(scope="module")
def january() -> Frame:
    return read_flights(months=1)


@pytest.fixture(scope="module")
def log(january: Frame) -> Log:
    return build_log(january)


@pytest.fixture(scope="module")
def year() -> Log:
    return build_log(read_flights())


def goods(log: Log) -> list[Record]:
    return [record for record in log.records if record.fault is None]


def at(*hours: float | None) -> Log:
    """A log of good records at these hours; None is a malformed one."""
    records = tuple(
        Record(b"", fault=Fault.EMPTY) if hour is None else Record(b"{}", int(hour * HOUR)) for hour in hours
    )
    return Log(records, 4, 0)


def test_the_same_flights_give_the_same_bytes_in_the_same_order(january: Frame, log: Log) -> None:
    assert build_log(january).records == log.records


def test_every_flight_is_there_once_in_a_good_record(january: Frame, log: Log) -> None:
    found = [json.loads(record.value or b"") for record in goods(log)]
    assert len(found) == len(january) == 27_004
    names = ["carrier", "flight", "origin", "dest"]
    assert sorted(tuple(f[n] for n in names) for f in found) == sorted(
        january[names].itertuples(index=False, name=None)
    )


def test_cancelled_flights_are_kept_without_a_delay(january: Frame, log: Log) -> None:
    cancelled = [r for r in goods(log) if json.loads(r.value or b"")["dep_delay"] is None]
    assert len(cancelled) == january["dep_delay"].isna().sum() > 0


def test_the_time_in_the_value_is_the_scheduled_departure_in_utc(log: Log) -> None:
    first = json.loads(goods(log)[0].value or b"")
    assert (first["scheduled"], first["carrier"], first["flight"]) == ("2013-01-01T10:15:00Z", "UA", 1545)


def test_values_have_exactly_the_columns_of_the_manifest(log: Log) -> None:
    schema = Example().spec["sources"][0]["format"]["json"]["schema"]
    declared = {column.split()[0] for column in schema.split(",")}
    assert set(json.loads(log.records[0].value or b"")) == declared


def test_two_per_cent_are_late_and_out_of_order(january: Frame, log: Log) -> None:
    times = [record.scheduled or 0 for record in goods(log)]
    behind = sum(time < newest for time, newest in zip(times[1:], running_max(times), strict=False))
    assert log.late == round(len(january) * 0.02)
    assert log.late * 0.95 <= behind <= log.late


def running_max(times: list[int]) -> list[int]:
    newest, found = 0, []
    for time in times:
        newest = max(newest, time)
        found.append(newest)
    return found


def test_no_record_is_more_than_six_hours_behind_in_the_log(log: Log) -> None:
    assert 5 * HOUR < measure_displacement(log, 0) <= 6 * HOUR


def test_malformed_records_are_of_every_kind_and_in_known_number(log: Log) -> None:
    assert log.malformed == 27
    assert set(log.faults) == set(Fault)


def test_malformed_records_are_what_their_names_say(log: Log) -> None:
    for record in log.records:
        match record.fault:
            case Fault.TRUNCATED | Fault.NOT_JSON:
                with pytest.raises(json.JSONDecodeError):
                    json.loads(record.value or b"")
            case Fault.WRONG_NUMBER:
                assert isinstance(json.loads(record.value or b"")["dep_delay"], str)
            case Fault.WRONG_TIME:
                assert "T" not in json.loads(record.value or b"")["scheduled"]
            case Fault.EMPTY:
                assert record.value == b""
            case Fault.NULL:
                assert record.value is None


def test_a_small_slice_has_every_kind_too(january: Frame) -> None:
    assert set(build_log(january.head(100)).faults) == set(Fault)


def test_partitions_are_cycled(log: Log) -> None:
    assert [partition for partition, _ in log][:6] == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize(
    ("log", "lookahead", "hours"),
    [
        (at(1, 2, 3), 0, 0),
        (at(1, 4, 2), 0, 2),
        (at(1, 2, 3, 4), 2, 2),
        (at(1, None, 3), 1, 0),
        (at(1, None, 3), 2, 2),
        (at(None, 5, 5), 9, 0),
        (at(None), 1, 0),
        (at(), 1, 0),
    ],
)
def test_displacement_is_how_far_the_newest_within_reach_is_ahead(
    log: Log, lookahead: int, hours: int
) -> None:
    assert measure_displacement(log, lookahead) == hours * HOUR


def test_a_log_beyond_the_watermark_is_refused(log: Log) -> None:
    with pytest.raises(DemoError, match=r"watermark allows 1\.0 h"):
        check_order(log, HOUR)


def test_the_year_stays_within_the_watermark_of_the_manifest(year: Log) -> None:
    assert len(year) == 336_776 + year.malformed
    assert year.malformed == 337
    assert check_order(year, Example().watermark_seconds) < Example().watermark_seconds


def test_no_batches_whatever_drop_a_record(year: Log) -> None:
    """Spark's own division of what is there among partitions, with ends as uneven as the loader allows."""
    for limit in (1_000, 7_919, 40_000):
        assert drop_late(year, limit, uneven=BARRIER // 4) == 0


def test_the_check_notices_partitions_that_are_read_one_after_the_other(log: Log) -> None:
    stride = -(-len(log) // 4)
    apart = replace(
        log, records=tuple(log.records[i % 4 * stride + i // 4] for i in range(len(log) // 4 * 4 - 4))
    )
    assert drop_late(apart, 1_000, uneven=0) > 0
    assert measure_displacement(apart, LOOKAHEAD) > Example().watermark_seconds


def drop_late(log: Log, limit: int, uneven: int) -> int:
    """Play Spark's batches: count records whose window ended before the watermark of the batches before.

    Each second batch sees partitions 1 to 3 `uneven` records short of partition 0.
    """
    delay, window = Example().watermark_seconds, HOUR
    parts = [[r.scheduled for r in log.records[p::4]] for p in range(4)]
    begins, newest, dropped, batch = [0] * 4, 0, 0, 0
    while begins != [len(part) for part in parts]:
        batch += 1
        ends = [len(part) for part in parts]
        if batch % 2 and max(begins) + limit < min(ends):
            ends = [max(begins) + limit, *[max(b, max(begins) + limit - uneven) for b in begins[1:]]]
        total = sum(ends) - sum(begins)
        cuts = [
            min(e, b + max(1, int(limit * (e - b) / total))) if e > b else b
            for b, e in zip(begins, ends, strict=True)
        ]
        taken = [
            t for part, b, c in zip(parts, begins, cuts, strict=True) for t in part[b:c] if t is not None
        ]
        dropped += sum(t // window * window + window <= newest - delay for t in taken)
        newest, begins = max([newest, *taken]), cuts
    return dropped
