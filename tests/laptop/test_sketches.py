"""Filters and sketches as Spark computes them, against what they mean."""

import random
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from kappa_crds.view import View
from kappa_pipelines.transforms.sketches import bloom, frequency
from kappa_pipelines.transforms.sketches.functions import expand_calls
from reference import bloom as bloom_reference
from reference import frequency as frequency_reference
from reference.bloom import Hash

VALUES = [None if number % 50 == 0 else f"v{random.Random(number).randrange(400)}" for number in range(3000)]
OTHERS = [f"other {number}" for number in range(400)]


def ask(spark: SparkSession, sql: str) -> DataFrame:
    written = expand_calls(View.model_validate({"name": "asked", "sql": sql})).sql
    assert written is not None
    return spark.sql(written)


@pytest.fixture(scope="module")
def digest(spark: SparkSession) -> Hash:
    """Spark's hash."""
    texts = sorted({*OTHERS, *(value for value in VALUES if value is not None)})
    rows = spark.createDataFrame([(text,) for text in texts], "t STRING").selectExpr(
        "t", *(f"xxhash64(t, {number})" for number in range(8))
    )
    known = {row[0]: row[1:] for row in rows.collect()}
    return lambda text, number: int(known[text][number])


@pytest.fixture
def hours(spark: SparkSession) -> Iterator[None]:
    """Each hour's filter and sketch, of values that came in seven hours."""
    rows = [(number % 7, value) for number, value in enumerate(VALUES)]
    spark.createDataFrame(rows, "hour INT, v STRING").createOrReplaceTempView("values")
    spark.createDataFrame([(text,) for text in OTHERS], "v STRING").createOrReplaceTempView("others")
    built = "bloom_filter(v, 20000, 0.01) AS f, frequency_sketch(v, 0.02, 0.95) AS s"
    ask(spark, f"SELECT hour, {built} FROM values GROUP BY hour").createOrReplaceTempView("hours")  # noqa: S608 - our own
    merged = "bloom_filter_merge(f, 20000, 0.01) AS f, frequency_sketch_merge(s, 0.02, 0.95) AS s"
    ask(spark, f"SELECT {merged} FROM hours").cache().createOrReplaceTempView("day")  # noqa: S608 - our own
    yield
    spark.catalog.clearCache()


def test_sketches_in_spark_match_the_reference(spark: SparkSession, digest: Hash, hours: None) -> None:
    kept = bloom_reference.build(VALUES, bloom.count_slices(20_000, 0.01), digest)
    counts = frequency_reference.build(VALUES, *frequency.find_size(0.02, 0.95), digest)
    assert bytes(ask(spark, "SELECT f FROM day").collect()[0].f) == kept
    found = ask(
        spark,
        "SELECT v, bloom_might_contain(f, v) AS b, frequency_estimate(s, v) AS n"
        " FROM day, (SELECT v FROM values UNION SELECT v FROM others)",
    ).collect()
    assert len(found) > 700
    for value, is_seen, count in found:
        if value is None:
            assert (is_seen, count) == (None, None)
        else:
            assert is_seen == bloom_reference.might_contain(kept, value, digest), value
            assert count == frequency_reference.estimate(counts, value, digest), value


def test_numbers_are_found_whatever_their_type_and_nothing_is_found_in_what_is_empty(
    spark: SparkSession,
) -> None:
    row = ask(
        spark,
        "SELECT bloom_might_contain(bloom_filter(n, 10, 0.01), 5L) AS seen, frequency_estimate(frequency_sketch(n, 0.1, 0.9),"
        " '5') AS often, bloom_might_contain(bloom_filter(IF(n > 9, n, NULL), 10, 0.01), 5) AS none,"
        " frequency_estimate(frequency_sketch(IF(n > 9, n, NULL), 0.1, 0.9), 5) AS never,"
        " bloom_might_contain(CAST(NULL AS BINARY), 5) AS unknown FROM (SELECT explode(array(5, 5, 6)) AS n)",
    ).collect()[0]
    assert tuple(row) == (True, 2, False, 0, None)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT bloom_filter_merge(f, 20000, 0.1) FROM hours", "not a filter of 12288 bytes"),
        ("SELECT frequency_sketch_merge(s, 0.01, 0.95) FROM hours", "not a sketch of 3 rows of 272 counters"),
        ("SELECT bloom_might_contain(CAST('x' AS BINARY), v) FROM values", "is not a Bloom filter"),
    ],
)
def test_a_filter_or_sketch_of_another_size_is_an_error(
    spark: SparkSession, hours: None, sql: str, words: str
) -> None:
    with pytest.raises(Exception, match=words):
        ask(spark, sql).collect()
