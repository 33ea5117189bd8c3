"""Two versions of an output, compared on a laptop over the topics of a real Kafka."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from laptop.commands import kappa
from spark.topics import Topics


def _write(topics: Topics, values: dict[str, Any]) -> str:
    topic = topics.make("output")
    for key, value in values.items():
        topics.queue(topic, key, json.dumps(value))
    topics.flush()
    return topic


def test_diff_shows_how_two_topics_differ_and_ends_with_their_verdict(
    spark: SparkSession, topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    old = _write(topics, {"a": {"v": 1, "at": "x"}, "b": {"v": 2}, "[red]": {"v": 3}})
    new = _write(topics, {"a": {"v": 61, "at": "y"}, "b": {"v": 2.0}, "c": {"v": 4}})
    data = ["--data", f"kafka://{topics.bootstrap}"]
    assert kappa("diff", [old, new, *data]) == 1
    shown = capsys.readouterr()
    lines = [line.split() for line in shown.out.splitlines()]
    for line in (["equal", "1"], ["changed", "1"], ["only", "old", "1"], ["only", "new", "1"]):
        assert line in lines
    assert ["v", "1", "0", "0", "+60", "+60", "+60"] in lines
    assert any(line[:2] == ["OnlyOld", "[red]"] for line in lines)
    assert "different: 3 rows" in shown.out
    accepted = ["--ignore", "at", "--expected", "new.v = old.v + 60 OR old IS NULL OR new IS NULL"]
    assert kappa("diff", [old, new, *data, *accepted, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["expected"] == 3


def test_diff_reads_up_to_given_ends(
    spark: SparkSession, topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (_write(topics, {"a": {"v": value}}) for value in (1, 2))
    ends = ["--old-ends", "0=0,1=0", "--new-ends", "0=0,1=0"]
    assert kappa("diff", [old, new, "--data", topics.bootstrap, *ends]) == 0
    assert "equal (" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--expected", "old.v ="], "tolerance.expected"),
        (["--column", "v"], "use NAME=NUMBER"),
        (["--old-ends", "0=99"], "the range ends at offset 99"),
        (["--window-column", "ts"], "needs --stream"),
    ],
)
def test_diff_explains_what_it_cannot_compare(
    topics: Topics, spark: SparkSession, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    topic = _write(topics, {"a": {"v": 1}})
    assert kappa("diff", [topic, topic, "--data", topics.bootstrap, *options]) == 2
    assert message in capsys.readouterr().err


def test_diff_names_a_topic_that_is_missing(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    assert kappa("diff", ["missing", "absent", "--data", topics.bootstrap]) == 2
    assert "topic 'missing' not found" in capsys.readouterr().err
