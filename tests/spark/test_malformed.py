"""Records and rows that could stop a query: each ends in a dead letter with its cause, and the query goes on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from kappa_crds.reasons import Reason
from kappa_pipelines.revision.settings import NATIVE_JSON
from spark.revisions import build_revision, source

_BROKER_LIMIT = 1_048_588  # max.message.bytes of a topic, where nothing is set
_HUGE = _BROKER_LIMIT - 100  # the topic takes a value of this size, and no header more


@pytest.fixture(
    params=["true", pytest.param("false", marks=pytest.mark.chaos)],
    ids=["own-json", "spark-json"],
    autouse=True,
)
def json_reader(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Records are malformed alike whether the runtime's module or Spark's functions read them."""
    spark.conf.set(NATIVE_JSON, request.param)
    yield
    spark.conf.unset(NATIVE_JSON)


def _headers(letter: Any) -> dict[str, str]:
    return {name: value.decode() for name, value in letter.headers()}


def test_huge_values_become_truncated_dead_letters_with_the_position_of_the_record(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out", "dead")}
    truncated = '{"k": 1, "v": "' + "x" * (_HUGE - 15)
    misfit = '{"k": "' + "y" * 1_041_300 + '"}'  # nearly as large, and with a header that is too
    topics.write(names["flights"], [truncated, '{"k": 7}'], key="small")
    topics.write(names["flights"], [misfit], key="k" * 5_000, headers=[("trace", b"t" * 2_000)])
    spec = {
        "sources": [source()],
        "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for("dead letters", lambda p: p.dead_lettered == 2)
    assert driver.stop().graceful
    assert [row["k"] for row in topics.values(names["out"])] == [7]
    letters = {_headers(m)["kappa.size"]: m for m in topics.read(names["dead"])}
    assert set(letters) == {str(len(truncated)), str(len(misfit))}
    for text in (truncated, misfit):
        letter = letters[str(len(text))]
        assert text.startswith((letter.value() or b"").decode())
        assert len(letter.value() or b"") > 1_000_000
        where = [_headers(letter)[f"kappa.{part}"] for part in ("topic", "partition", "offset")]
        assert (letter.key() or b"").decode() == "/".join(where)
    assert _headers(letters[str(len(truncated))])["kappa.error"] == "value is not a JSON object"
    cut = _headers(letters[str(len(misfit))])
    assert (cut["kappa.error"][:15], cut["kappa.key"], "trace" in cut) == (
        "column k: yyyyy",
        "k" * 512,
        False,
    )


def test_one_malformed_record_is_read_again_without_the_rest_of_its_batch(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out", "dead")}
    forged = [("kappa.topic", b"payroll"), ("trace", b"t"), ("kappa.error", b"none")]
    topics.write(names["flights"], ['{"k": 1}'] * 500)
    topics.write(names["flights"], ["nonsense"], headers=forged)
    topics.write(names["flights"], ['{"k": 2}'] * 500)
    spec = {
        "sources": [source()],
        "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }
    with capture_logs() as logs:
        driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
        driver.wait_for("a dead letter", lambda p: p.dead_lettered == 1)
        assert driver.stop().graceful
    assert [each["scanned"] for each in logs if each["event"] == "dead letters written"] == [1]
    (letter,) = topics.read(names["dead"])
    assert letter.value() == b"nonsense"
    found = [(name, value) for name, value in letter.headers() if name in ("trace", "kappa.topic")]
    assert found == [("trace", b"t"), ("kappa.topic", names["flights"].encode())], "none is the producer's"
    assert len(topics.values(names["out"])) == 1000


@pytest.mark.parametrize("delivery", ["AtLeastOnce", pytest.param("ExactlyOnce", marks=pytest.mark.chaos)])
def test_refused_rows_become_dead_letters_and_the_query_continues(
    run: Any, broker: Any, topics: Any, checkpoint: Path, delivery: str
) -> None:
    names = {
        "flights": topics.make("flights"),
        "out": topics.make("out", **{"cleanup.policy": "compact", "max.message.bytes": "100000"}),
        "dead": topics.make("dead", **{"cleanup.policy": "compact"}),
    }
    values: list[dict[str, Any]] = [
        {"k": 1, "v": 1},
        {"v": 2},
        {"k": 3, "v": 90_000},
        {"k": 4, "v": 2_000_000},
        {"k": 5, "v": 5},
    ]
    topics.write(names["flights"], [json.dumps(value) for value in values])
    spec = {
        "sources": [source()],
        "views": [
            {
                "name": "wide",
                "sql": "SELECT k, repeat('n', CAST(v AS INT)) AS note, v = 5 AS gone FROM flights",
            }
        ],
        "sinks": [
            {
                "name": "out",
                "from": "wide",
                "kafka": {"topic": "out", "key": ["k"], "tombstones": "gone", "delivery": delivery},
            }
        ],
        "deadLetter": "dead",
    }
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    progress = driver.wait_for_records(len(values))
    assert progress.queries[0].total_refused_rows == 2
    assert driver.stop().graceful
    written = {(m.key() or b"").decode(): m.value() for m in topics.read(names["out"])}
    assert sorted(written) == ["1", "3", "5"]
    assert [key for key, value in written.items() if value is None] == ["5"]
    letters = {_headers(m).get("kappa.key"): m for m in topics.read(names["dead"])}
    assert {key: _headers(letter)["kappa.error"] for key, letter in letters.items()} == {
        None: f"column k is NULL; topic {names['out']} is compacted and accepts no record without a key",
        "4": f"the record has 2000018 bytes; topic {names['out']} accepts at most 99488",
    }
    assert json.loads(letters[None].value() or b"") == {"k": None, "note": "nn"}
    assert _headers(letters["4"]).items() >= {"kappa.pipeline": "test/delays", "kappa.sink": "out"}.items()
    assert (letters["4"].value() or b"").startswith(b'{"k":4,"note":"nnn')


def test_a_sink_without_key_is_refused_where_its_topic_is_compacted(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {"flights": topics.make("flights"), "out": topics.make("out", **{"cleanup.policy": "compact"})}
    spec = {"sources": [source()], "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}]}
    failure = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names)).failure()
    assert failure.reason is Reason.INVALID_SPEC
    assert f"sink 'out': topic {names['out']} is compacted" in failure.message


# Values on which parsers fail in other ways than on a wrong field.
_ODD_JSON = {
    b'{"k":' + b"[" * 100_000: "value is not a JSON object",
    b'{"other":' + b"[" * 5_000 + b"]" * 5_000 + b"}": "value is not a JSON object",
    b'{"k":' + b"9" * 5_000 + b"}": "value is not a JSON object",
    b'{"' + b"n" * 100_000 + b'":1}': "value is not a JSON object",
    b"\xff\xfe\x00{": "value is not a JSON object",
    '{"k":1}'.encode("utf-16"): "value is not a JSON object",
    b'{"k":1e400}': 'column k: "Infinity" is not a BIGINT',
    b'{"ts":"-999999-01-01T00:00:00Z"}': "column ts: -999999-01-01T00:00:00Z is not a TIMESTAMP",
}
_ODD_CSV = {
    b"," * 30_000: "value does not have the 3 fields that the schema declares",
    b'"' * 99_999: "value does not have the 3 fields that the schema declares",
    b'"abc' + b"x" * 900_000: "value does not have the 3 fields that the schema declares",
    b"9" * 5_000 + b",1,": f"column k: {'9' * 64} is not a BIGINT",
    b"\xff\xfe,1,": "column k: �� is not a BIGINT",
}


def test_no_value_that_a_parser_chokes_on_stops_the_query(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "lines", "out", "dead")}
    topics.write(names["flights"], [*_ODD_JSON, b'{"k": 1}'])
    topics.write(names["lines"], [*_ODD_CSV, b"2,,"])
    lines = {
        "name": "lines",
        "topic": "lines",
        "format": {"csv": {"schema": "k BIGINT, v DOUBLE, ts TIMESTAMP"}},
    }
    spec = {
        "sources": [source(), lines],
        "views": [{"name": "both", "sql": "SELECT k FROM flights UNION ALL SELECT k FROM lines"}],
        "sinks": [{"name": "out", "from": "both", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for("dead letters", lambda p: p.dead_lettered == len(_ODD_JSON) + len(_ODD_CSV))
    assert driver.stop().graceful
    assert sorted(row["k"] for row in topics.values(names["out"])) == [1, 2]
    found = {m.value(): _headers(m)["kappa.error"] for m in topics.read(names["dead"])}
    assert found == _ODD_JSON | _ODD_CSV
