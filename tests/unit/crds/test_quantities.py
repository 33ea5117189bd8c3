"""Durations, sizes and cores as people write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappa_crds.quantities import (
    CPU_PATTERN,
    DURATION_PATTERN,
    SIZE_PATTERN,
    format_count,
    format_duration,
    format_size,
    parse_cpu,
    parse_duration,
    parse_size,
)

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
BINARY = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}

parts = st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(UNITS))), min_size=1, max_size=4)
numbers = st.integers(0, 10**9)


@given(parts)
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert parse_duration(text) == sum(number * UNITS[unit] for number, unit in parts) / 1000


@given(numbers, st.sampled_from(sorted(BINARY | DECIMAL)))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * (BINARY | DECIMAL)[unit]


@given(numbers)
def test_cores_and_thousandths_of_cores_are_the_same_scale(number: int) -> None:
    assert parse_cpu(f"{number}m") == number / 1000
    assert parse_cpu(str(number)) == number


@given(st.integers(0, 10**4), st.integers(0, 9))
def test_fractions_of_sizes_and_cores_are_exact(whole: int, tenth: int) -> None:
    assert parse_size(f"{whole}.{tenth}G") == whole * 10**9 + tenth * 10**8
    assert parse_cpu(f"{whole}.{tenth}") == float(f"{whole}.{tenth}")


@given(st.text(max_size=8) | st.from_regex(r"[0-9.]{0,4}(ms|s|m|h|d|w|y|k|Ki|Gi|G|g)?\n?", fullmatch=True))
def test_parsers_take_just_what_the_api_server_takes(text: str) -> None:
    for pattern, parse in (
        (DURATION_PATTERN, parse_duration),
        (SIZE_PATTERN, parse_size),
        (CPU_PATTERN, parse_cpu),
    ):
        if re.fullmatch(pattern, text):
            assert parse(text) >= 0
        else:
            with pytest.raises(ValueError, match="is not a"):
                parse(text)


@pytest.mark.parametrize("text", ["", "10", "1.5h", "-1s", "1 h", "h", "1H", "7d\n", "P7D", "1y"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="such as 90s, 1h30m or 7d"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gb", "1g", "-1Gi", ".5Gi", "1e9", "1Gi\n"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="such as 512Mi or 10Gi"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "m", "1.5m", "two", "-1", "1k", "500m\n"])
def test_what_is_no_number_of_cores_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"write 500m, 1 or 1\.5"):
        parse_cpu(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.85, "850ms"),
        (1, "1s"),
        (12.34, "12.3s"),
        (59.94, "59.9s"),
        (0.9999, "1s"),
        (59.96, "1m"),
        (60, "1m"),
        (3599.9, "1h"),
        (250, "4m10s"),
        (3600, "1h"),
        (11_100, "3h05m"),
        (86_400, "1d"),
        (187_200, "2d4h"),
    ],
)
def test_a_duration_is_formatted_shortly(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(0, 10**8))
def test_a_formatted_duration_never_rounds_to_the_next_unit(seconds: float) -> None:
    said = format_duration(seconds)
    assert "60s" not in said
    assert "1000ms" not in said


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (950, "950"),
        (999.7, "1k"),
        (999_960, "1M"),
        (999_960_000, "1G"),
        (1000, "1k"),
        (84_200, "84.2k"),
        (1_300_000, "1.3M"),
        (2.5e9, "2.5G"),
        (1.05e6, "1.1M"),
    ],
)
def test_a_count_is_formatted_shortly(count: float, text: str) -> None:
    assert format_count(count) == text


@given(st.floats(0, 10**12))
def test_a_formatted_count_never_rounds_to_the_next_unit(count: float) -> None:
    assert not re.fullmatch(r"1000[kM]?", format_count(count))


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (12 * 2**20, "12 MiB"),
        (2**40, "1 TiB"),
        (2**50, "1024 TiB"),
    ],
)
def test_sizes_are_formatted_shortly(size: int, text: str) -> None:
    assert format_size(size) == text
