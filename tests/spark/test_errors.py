"""What is wrong with a revision, its Kafka or its checkpoint is said with a reason, a place and a remedy."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.checkpoint.fence.link_fence import LinkFence
from spark.revisions import build_revision, source

GOOD_VIEW = {"name": "agg", "sql": "SELECT k, v FROM flights"}
GROUPED = "SELECT k, count(*) AS n FROM flights GROUP BY k"


def _sliding(**fields: Any) -> dict[str, Any]:
    window = {"from": "flights", "key": ["k"], "length": "5m", "aggregates": {"n": "count(*)"}, **fields}
    return {
        "sources": [source(eventTime={"column": "ts", "watermark": "1m"})],
        "views": [{"name": "agg", "sliding": window}],
    }


def _window(**fields: Any) -> dict[str, Any]:
    window = {"from": "flights", "tumbling": "1h", "aggregates": {"n": "count(*)"}, **fields}
    time = {"column": "window_start", "watermark": "1m"}
    return {
        "sources": [source(schema="k BIGINT, v DOUBLE, window_start TIMESTAMP", eventTime=time)],
        "views": [{"name": "agg", "window": window}],
    }


def _table_join(**fields: Any) -> dict[str, Any]:
    table = {"from": "flights", "order": "k"}
    join = {
        "left": table,
        "right": {**table, "from": "other"},
        "key": ["k"],
        "foreignKey": {"k": "k"},
        "columns": {"w": "v"},
        **fields,
    }
    other = {"name": "other", "sql": "SELECT * FROM flights"}
    return {"views": [{"name": "agg", "tableJoin": join, "allowUnboundedState": True}, other]}


def _search(*, queries: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A search whose queries would come from the topic of the documents."""
    time = {"column": "ts", "watermark": "1m"}
    stored = {"from": "wanted", "id": "k", "query": "q", "deleted": "gone", **(queries or {})}
    search = {"from": "flights", "text": ["t"], "queries": stored, "columns": {"id": "k"}, **fields}
    return {
        "sources": [
            source(schema="k BIGINT, t STRING, v DOUBLE, ts TIMESTAMP", eventTime=time),
            {
                **source("wanted", "k BIGINT, q STRING, gone BOOLEAN, ts TIMESTAMP", eventTime=time),
                "topic": "flights",
            },
        ],
        "views": [{"name": "agg", "search": search}],
    }


# What is changed in a good spec, the reason, and words that the message must have.
WRONG: dict[str, tuple[dict[str, Any], Reason, tuple[str, ...]]] = {
    "a schema that is no DDL": (
        {"sources": [source(schema="k BIGINTT")]},
        Reason.INVALID_SCHEMA,
        ("'flights'", "BIGINTT"),
    ),
    "a schema with a column twice": (
        {"sources": [source(schema="k BIGINT, K STRING")]},
        Reason.INVALID_SCHEMA,
        ("only in case",),
    ),
    "SQL with a typing error": (
        {"views": [{"name": "agg", "sql": "SELECT k,\n  v FRM flights"}]},
        Reason.INVALID_SQL,
        ("view 'agg'", "line 2, column 9", "'flights'"),
    ),
    "a command instead of a query": (
        {"views": [{"name": "agg", "sql": "DROP VIEW flights"}]},
        Reason.SQL_REFUSED,
        ("view 'agg'", "DropView is a command"),
    ),
    "a file instead of a source": (
        {"views": [{"name": "agg", "sql": "SELECT *\nFROM text.`/etc/passwd`"}]},
        Reason.SQL_REFUSED,
        ("view 'agg', line 2, column 6", "text./etc/passwd cannot be read"),
    ),
    "a call of Java": (
        {"views": [{"name": "agg", "sql": "SELECT reflect('java.lang.System', 'getenv') FROM flights"}]},
        Reason.SQL_REFUSED,
        ("view 'agg', line 1, column 8", "the function reflect is refused"),
    ),
    "an unknown column": (
        {"views": [{"name": "agg", "sql": "SELECT k,\n vv FROM flights"}]},
        Reason.UNKNOWN_COLUMN,
        ("view 'agg', line 2, column 2", "'vv'", "did you mean", "v"),
    ),
    "an unknown view": (
        {"views": [{"name": "agg", "sql": "SELECT * FROM flihgts"}]},
        Reason.UNKNOWN_VIEW,
        ("'flihgts'", "did you mean 'flights'"),
    ),
    "views that read each other": (
        {
            "views": [
                {"name": "agg", "sql": "SELECT * FROM later"},
                {"name": "later", "sql": "SELECT a.* FROM agg a JOIN flights f ON a.k = f.k"},
                {"name": "aside", "sql": "SELECT * FROM flights"},
            ]
        },
        Reason.VIEW_CYCLE,
        ("'agg' reads 'later', 'later' reads 'agg'",),
    ),
    "a view that reads itself": (
        {"views": [{"name": "agg", "sql": "SELECT * FROM flights UNION ALL SELECT * FROM agg"}]},
        Reason.VIEW_CYCLE,
        ("'agg' reads itself",),
    ),
    "an event time that is not in the schema": (
        {"sources": [source(eventTime={"column": "when", "watermark": "1m"})]},
        Reason.UNKNOWN_COLUMN,
        ("'when'", "k, v, ts"),
    ),
    "an event time that is not a timestamp": (
        {"sources": [source(eventTime={"column": "v", "watermark": "1m"})]},
        Reason.INVALID_SCHEMA,
        ("'v' is DOUBLE", "TIMESTAMP"),
    ),
    "a corrected clock without the time of sending": (
        {
            "sources": [
                source(
                    eventTime={
                        "column": "happened",
                        "watermark": "1m",
                        "clockCorrection": {"occurred": "ts", "sent": "left", "received": "ts"},
                    }
                )
            ]
        },
        Reason.UNKNOWN_COLUMN,
        ("eventTime.clockCorrection.sent 'left'", "k, v, ts"),
    ),
    "a corrected event time in a column that is there already": (
        {
            "sources": [
                source(
                    eventTime={
                        "column": "TS",
                        "watermark": "1m",
                        "clockCorrection": {"occurred": "ts", "sent": "ts", "received": "ts"},
                    }
                )
            ]
        },
        Reason.INVALID_SCHEMA,
        ("'TS'", "use another name"),
    ),
    "an aggregate in append mode without watermark": (
        {"views": [{"name": "agg", "sql": GROUPED}]},
        Reason.UNSUPPORTED_QUERY,
        ("view 'agg' for sink 'out'", "watermark", "mode update"),
    ),
    "an aggregate that nothing ever ends": (
        {
            "views": [{"name": "agg", "sql": GROUPED}],
            "sinks": [
                {"name": "out", "from": "agg", "kafka": {"topic": "out", "key": ["k"]}, "mode": "update"}
            ],
        },
        Reason.UNBOUNDED_STATE,
        ("view 'agg'", "aggregation by k", "window(time", "allowUnboundedState"),
    ),
    "a join that nothing ever ends": (
        {
            "sources": [source(eventTime={"column": "ts", "watermark": "1m"})],
            "views": [
                {"name": "other", "sql": "SELECT k, ts AS seen FROM flights"},
                {"name": "agg", "sql": "SELECT f.k FROM flights f JOIN other o ON f.k = o.k AND seen > ts"},
            ],
        },
        Reason.UNBOUNDED_STATE,
        ("view 'agg'", "left side of a join by k", "BETWEEN", "allowUnboundedState"),
    ),
    "distinct rows without event time": (
        {
            "views": [{"name": "agg", "sql": "SELECT DISTINCT k FROM flights"}],
            "sinks": [
                {"name": "out", "from": "agg", "kafka": {"topic": "out", "key": ["k"]}, "mode": "update"}
            ],
        },
        Reason.UNBOUNDED_STATE,
        ("view 'agg'", "distinct rows by k"),
    ),
    "a sliding window with an aggregate that is no SQL": (
        _sliding(aggregates={"n": "count(*"}),
        Reason.INVALID_SQL,
        ("view 'agg', sliding.aggregates.n",),
    ),
    "a sliding window over an unknown column": (
        _sliding(aggregates={"n": "avg(w)"}),
        Reason.UNKNOWN_COLUMN,
        ("view 'agg'", "no column 'w'"),
    ),
    "a sliding window with a key that is not there": (
        _sliding(key=["kk"]),
        Reason.UNKNOWN_COLUMN,
        ("view 'agg'", "sliding.key names column 'kk'", "k, v, ts"),
    ),
    "a sliding window whose result has the name of a column": (
        _sliding(aggregates={"V": "count(*)"}),
        Reason.INVALID_SPEC,
        ("view 'agg'", "sliding.aggregates has 'V'", "another name"),
    ),
    "a sliding window without event time": (
        {**_sliding(), "sources": [source()]},
        Reason.UNSUPPORTED_QUERY,
        ("view 'agg'", "'flights' must have one column with a watermark", "eventTime"),
    ),
    "a window whose key has the name of a column of its rows": (
        _window(key=["window_start"]),
        Reason.INVALID_SPEC,
        ("view 'agg'", "window.key has 'window_start'", "another name"),
    ),
    "a window whose filter does not say how many values it is for": (
        _window(aggregates={"seen": "bloom_filter(v)"}),
        Reason.INVALID_SQL,
        ("view 'agg', window.aggregates.seen", "it is bloom_filter(value, expected values, share of false"),
    ),
    "a filter of a column that is not there": (
        {
            "views": [
                {
                    "name": "agg",
                    "sql": "SELECT bloom_filter(v, 9, 0.1) AS f,\n bloom_filter(w, 9, 0.1) AS g FROM flights",
                }
            ]
        },
        Reason.UNKNOWN_COLUMN,
        ("view 'agg', line 2: there is no column 'w'",),
    ),
    "a join of tables that marks deletions in a column that it takes": (
        _table_join(deleted="W"),
        Reason.INVALID_SPEC,
        ("view 'agg'", "tableJoin.deleted has 'W'", "another name"),
    ),
    "a join of tables that marks deletions in a column of the left one": (
        _table_join(deleted="ts"),
        Reason.INVALID_SPEC,
        ("view 'agg'", "tableJoin.deleted has 'ts'", "another name"),
    ),
    "an as-of join that keeps all versions for ever": (
        {
            "sources": [source(eventTime={"column": "ts", "watermark": "1m"})],
            "views": [
                {
                    "name": "agg",
                    "asOf": {"from": "flights", "table": "old", "key": {"k": "k"}, "columns": {"w": "v"}},
                },
                {"name": "old", "sql": "SELECT * FROM flights WHERE v > 5"},
            ],
        },
        Reason.UNBOUNDED_STATE,
        ("view 'agg'", "versions of an as-of join", "maxAge"),
    ),
    "a search in a column that is not there": (
        _search(text=["tt"]),
        Reason.UNKNOWN_COLUMN,
        ("view 'agg'", "search.text names column 'tt'", "k, t, v, ts"),
    ),
    "a search in the text of a number": (
        _search(text=["v"]),
        Reason.INVALID_SPEC,
        ("view 'agg'", "search.text must be STRING, and column 'v'", "is DOUBLE"),
    ),
    "a search in a field that is no text and no number": (
        _search(fields=["ts"]),
        Reason.UNSUPPORTED_QUERY,
        ("view 'agg'", "search.fields names column 'ts', which is TIMESTAMP", "cast it"),
    ),
    "a search with queries that are no text": (
        _search(queries={"query": "k"}),
        Reason.INVALID_SPEC,
        ("view 'agg'", "search.queries.query must be STRING, and column 'k'", "is BIGINT"),
    ),
    "a search with a mark of deletions that is none": (
        _search(queries={"deleted": "q"}),
        Reason.INVALID_SPEC,
        ("view 'agg'", "search.queries.deleted must be BOOLEAN, and column 'q'", "is STRING"),
    ),
    "a search that takes a column that its queries do not have": (
        _search(columns={"owner": "owner"}),
        Reason.UNKNOWN_COLUMN,
        ("view 'agg'", "search.columns names column 'owner'", "'wanted'"),
    ),
    "a search whose result has the name of a column": (
        _search(columns={"T": "k"}),
        Reason.INVALID_SPEC,
        ("view 'agg'", "search.columns has 'T'", "another name"),
    ),
    "a search that tells errors in a column that it takes": (
        _search(error="ID"),
        Reason.INVALID_SPEC,
        ("view 'agg'", "search.error has 'ID'", "another name"),
    ),
    "a search that keeps every query for ever": (
        _search(queries={"deleted": None}),
        Reason.UNBOUNDED_STATE,
        ("view 'agg'", "stored queries by k", "search.queries.deleted", "allowUnboundedState"),
    ),
    "a sink's key that its view does not have": (
        {"sinks": [{"name": "out", "from": "agg", "kafka": {"topic": "out", "key": ["kk"]}}]},
        Reason.UNKNOWN_COLUMN,
        ("sink 'out'", "key names column 'kk'", "did you mean k?"),
    ),
}


def _spec(**changes: Any) -> dict[str, Any]:
    sinks = [{"name": "out", "from": "agg", "kafka": {"topic": "out"}}]
    return {"sources": [source()], "views": [GOOD_VIEW], "sinks": sinks, **changes}


@pytest.fixture
def names(topics: Any) -> dict[str, str]:
    return {"flights": topics.make("flights"), "out": topics.make("out")}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_spec_is_explained(case: str, run: Any, broker: Any, names: Any, checkpoint: Path) -> None:
    changes, reason, words = WRONG[case]
    revision = build_revision(_spec(**changes), checkpoint, broker.bootstrap, topics=names)
    error = run(revision).failure()
    assert (error.reason, error.retryable) == (reason, False), error.message
    for word in words:
        assert word in error.message, error.message
    assert len(error.message) < 1000
    assert "JVM stacktrace" not in error.message


def test_a_missing_topic_is_named(run: Any, broker: Any, topics: Any, checkpoint: Path) -> None:
    names = {"flights": topics.make("flights"), "out": "there-is-none"}
    error = run(build_revision(_spec(), checkpoint, broker.bootstrap, topics=names)).failure()
    assert (error.reason, error.retryable) == (Reason.TOPIC_NOT_FOUND, True)
    assert "sink 'out'" in error.message and "'there-is-none'" in error.message


def test_a_broker_that_does_not_answer_is_given_up(
    run: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kappa_pipelines.kafka.preflight.TIMEOUT_SECONDS", 3.0)
    error = run(build_revision(_spec(), checkpoint, "127.0.0.1:1")).failure()
    assert (error.reason, error.retryable) == (Reason.KAFKA_UNAVAILABLE, True)
    assert "127.0.0.1:1" in error.message


def test_an_unwritable_checkpoint_is_reported(run: Any, broker: Any, names: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    error = run(build_revision(_spec(), tmp_path / "file" / "ck", broker.bootstrap, topics=names)).failure()
    assert (error.reason, error.retryable) == (Reason.CHECKPOINT_UNAVAILABLE, True)
    assert "file/ck" in error.message


def test_an_older_generation_is_refused(run: Any, broker: Any, names: Any, checkpoint: Path) -> None:
    revision = build_revision(_spec(), checkpoint, broker.bootstrap, topics=names)
    newer = run(revision, generation=3)
    newer.wait_until_running()
    error = run(revision, generation=2).failure()
    assert (error.reason, error.retryable) == (Reason.GENERATION_FENCED, False)
    assert newer.stop().graceful


def test_a_running_driver_stops_at_once_when_a_newer_generation_starts(
    run: Any, broker: Any, names: Any, checkpoint: Path
) -> None:
    driver = run(build_revision(_spec(), checkpoint, broker.bootstrap, topics=names), generation=1)
    driver.wait_until_running()
    LinkFence(str(checkpoint), 2).acquire()
    error = driver.failure()
    assert (error.reason, error.retryable) == (Reason.GENERATION_FENCED, False)


@pytest.mark.chaos  # Kafka's client looks for a minute; `tests/e2e/test_faults.py` deletes one too
def test_a_topic_deleted_while_running_is_named(
    run: Any, broker: Any, topics: Any, names: Any, checkpoint: Path
) -> None:
    topics.write(names["flights"], ['{"k":1}'] * 10)
    driver = run(build_revision(_spec(), checkpoint, broker.bootstrap, topics=names))
    driver.wait_for_records(10)
    topics.admin.delete_topics([names["flights"]])[names["flights"]].result(30)
    error = driver.failure()
    assert error.reason is Reason.SOURCE_TOPIC_DELETED, error.message
    assert names["flights"] in error.message


def test_records_that_retention_removed_before_they_were_read_are_reported(
    run: Any, broker: Any, topics: Any, names: Any, checkpoint: Path
) -> None:
    revision = build_revision(_spec(), checkpoint, broker.bootstrap, topics=names)
    topics.write(names["flights"], ['{"k":1}'] * 10)
    first = run(revision)
    first.wait_for_records(10)
    assert first.stop().graceful
    topics.write(names["flights"], ['{"k":2}'] * 50)
    ends = topics.ends(names["flights"])
    _delete_records(topics, names["flights"], ends)
    error = run(revision).failure()
    assert (error.reason, error.retryable) == (Reason.OFFSETS_LOST, False), error.message


def _delete_records(topics: Any, topic: str, ends: dict[int, int]) -> None:
    for future in topics.admin.delete_records(
        [TopicPartition(topic, p, o) for p, o in ends.items()]
    ).values():
        future.result(30)


def test_state_of_another_type_is_refused(
    run: Any, broker: Any, topics: Any, names: Any, checkpoint: Path
) -> None:
    def revision(type_: str) -> Any:
        sql = "SELECT k, max(v) AS top FROM flights GROUP BY k"
        view = {"name": "agg", "sql": sql, "allowUnboundedState": True}
        sinks = [{"name": "out", "from": "agg", "kafka": {"topic": "out", "key": ["k"]}, "mode": "update"}]
        sources = [source(schema=f"k BIGINT, v {type_}")]
        spec = _spec(sources=sources, views=[view], sinks=sinks)
        return build_revision(spec, checkpoint, broker.bootstrap, topics=names)

    topics.write(names["flights"], ['{"k":1,"v":2.0}'] * 10)
    first = run(revision("DOUBLE"))
    first.wait_for_records(10)
    assert first.stop().graceful
    topics.write(names["flights"], ['{"k":1,"v":2.0}'] * 10)
    error = run(revision("STRING")).failure()
    assert (error.reason, error.retryable) == (Reason.STATE_INCOMPATIBLE, False), error.message
    assert "sink 'out'" in error.message


def test_an_expression_that_fails_on_the_data_is_not_tried_again(
    run: Any, broker: Any, topics: Any, names: Any, checkpoint: Path
) -> None:
    view = {"name": "agg", "sql": "SELECT k, 1 / k AS x FROM flights"}
    topics.write(names["flights"], ['{"k":0}'])
    error = run(build_revision(_spec(views=[view]), checkpoint, broker.bootstrap, topics=names)).failure()
    assert (error.reason, error.retryable) == (Reason.QUERY_FAILED, False), error.message
    assert "try_divide" in error.message


def test_credentials_with_a_quote_are_refused_before_they_confuse_the_login(
    run: Any, broker: Any, names: Any, checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "username").write_text("reader")
    (tmp_path / "password").write_text('se"cret')
    kafka = KafkaConnection(
        bootstrap_servers=(broker.bootstrap,),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        credentials_dir=str(tmp_path),
    )
    error = run(build_revision(_spec(), checkpoint, kafka, topics=names)).failure()
    assert error.reason is Reason.SECRET_INCOMPLETE
    assert "se" + '"' not in error.message
