"""How much an index of stored queries saves: `python tests/bench/search.py [--quick]`, on this machine alone.

Documents of 40 words meet 10,000 queries; the words of both follow Zipf's law, but no query has one of the 100 most
frequent words, as no user stores a search for "the". `search_speedup` is the rate of the index over
the rate of testing each query against each document, in one process, in turns: same documents, same conditions, same function
that tests one; the words of a document are found in both. What they find is compared. One query in 500 has nothing
to be filed under, and is always tested. `with_frequent_words` is the same where queries are made of all words: then a document
matches hundreds of them, and no index can save the work of finding those.

`pipeline_docs_per_s` is a pipeline from files to nowhere with the same queries, one of which changes in every batch: the rate of the
batches after the first three, by Spark's own clock. The last line is one JSON object.
"""

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.operators import NoopEndpoints, measure
from kappa_crds import API_VERSION
from kappa_pipelines.laptop.endpoints import input_folder
from kappa_pipelines.laptop.records import Record, RecordFolder
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.transforms.search.document import Fields, Kind, read_document
from kappa_pipelines.transforms.search.index import Index
from kappa_pipelines.transforms.search.language import QueryError, read_query
from kappa_pipelines.transforms.search.versions import END, Valid

QUERIES = 10_000
VOCABULARY = 20_000
STOP_WORDS = 100
START = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = Fields(("body",), (("body", Kind.WORDS), ("size", Kind.EXACT)))
FORMS = (
    "{0} {1}",
    "{0} AND {1} AND {2}",
    '"{0} {1}"',
    "{0} AND ({1} OR {2})",
    "({0} AND {1}) OR ({2} AND {3})",
    "{0} {1} NOT {2}",
    "{0} size:>{4}",
    "{0} {1}*",
)
Row = dict[str, Any]
Find = Callable[[Row], list[Valid]]


class Language:
    """Words that are as frequent as in a natural language: the nth in proportion to 1 / n."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._words = [
            "".join(self._rng.choices(letters, k=self._rng.randrange(3, 10))) for _ in range(VOCABULARY)
        ]
        self._weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))

    def say(self, count: int, first: int = 0) -> list[str]:
        """Return some words, none of the `first` most frequent."""
        low, high = self._weights[first - 1] if first else 0, self._weights[-1]
        return [self._words[bisect(self._weights, self._rng.uniform(low, high))] for _ in range(count)]

    def write_document(self) -> Row:
        """Return a document."""
        return {"body": " ".join(self.say(40)), "size": self._rng.randrange(1000)}

    def write_query(self, number: int, first: int = STOP_WORDS) -> str:
        """Return the text of a query; one in 500 is a range only."""
        size = self._rng.randrange(1000)
        if number % 500 == 0:
            return f"size:[{size} TO {size + 5}]"
        return self._rng.choice(FORMS).format(*self.say(4, first), size)


def build_naive(queries: Sequence[Valid]) -> Find:
    """Return what tests each query."""
    read = [(query, read_query(FIELDS, query.text)) for query in queries]
    conditions = [(query, condition) for query, condition in read if not isinstance(condition, QueryError)]
    assert len(conditions) == len(queries)

    def find(row: Row) -> list[Valid]:
        document = read_document(FIELDS, row)
        return [query for query, condition in conditions if condition.matches(document)]

    return find


def build_indexed(index: Index) -> Find:
    """Return what asks the index."""
    return lambda row: index.find(read_document(FIELDS, row), 0)


def measure_rate(find: Find, rows: Sequence[Row]) -> float:
    """Return documents a second."""
    begun = time.perf_counter()
    for row in rows:
        find(row)
    return len(rows) / (time.perf_counter() - begun)


def compare(language: Language, documents: int, rounds: int, first: int = STOP_WORDS) -> dict[str, Any]:
    """Return the rates of both, medians of rounds that take turns, and what the index is like."""
    queries = [
        Valid(str(number), 0, END, language.write_query(number, first), "") for number in range(QUERIES)
    ]
    naive, index = build_naive(queries), Index(FIELDS)
    begun = time.perf_counter()
    index.hold(queries)
    built = time.perf_counter() - begun
    indexed = build_indexed(index)
    rows = [language.write_document() for _ in range(documents)]
    few = rows[: documents // 20]
    found = [set(indexed(row)) for row in few]
    assert found == [set(naive(row)) for row in few], "the index finds something else"
    rates = [(measure_rate(indexed, rows), measure_rate(naive, few)) for _ in range(rounds)]
    candidates = [len(index.find_candidates(read_document(FIELDS, row))) for row in few]
    return {
        "search_speedup": round(statistics.median(one / other for one, other in rates), 1),
        "indexed_docs_per_s": round(statistics.median(one for one, _ in rates)),
        "naive_docs_per_s": round(statistics.median(other for _, other in rates), 1),
        "index_build_s": round(built, 2),
        "always_tested": index.always,
        "candidates_per_doc": round(statistics.mean(candidates), 1),
        "matches_per_doc": round(statistics.mean(map(len, found)), 1),
    }


def write_input(language: Language, folder: Path, documents: int, batches: int) -> None:
    """Write documents, and queries of which one changes in each batch."""
    docs, searches = (RecordFolder(input_folder(folder, name), name) for name in ("docs", "searches"))
    for batch in range(batches):
        moment = (START + timedelta(minutes=batch)).isoformat()
        docs.append(_encode({**language.write_document(), "ts": moment}) for _ in range(documents))
        changed = range(QUERIES) if batch == 0 else range(batch, batch + 1)
        searches.append(
            _encode({"id": number, "query": language.write_query(number), "gone": False, "since": moment})
            for number in changed
        )


def _encode(row: Row) -> Record:
    return Record(json.dumps(row).encode())


def run_pipeline(folder: Path, documents: int) -> float:
    """Return the documents a second of a pipeline."""
    spec = {
        "sources": [
            _source("docs", "body STRING, size BIGINT, ts TIMESTAMP", "ts"),
            _source("searches", "id BIGINT, query STRING, gone BOOLEAN, since TIMESTAMP", "since"),
        ],
        "views": [
            {
                "name": "answer",
                "search": {
                    "from": "docs",
                    "text": ["body"],
                    "fields": ["size"],
                    "queries": {"from": "searches", "id": "id", "query": "query", "deleted": "gone"},
                    "columns": {"search": "id"},
                },
            }
        ],
        "sinks": [{"name": "answer", "from": "answer", "kafka": {"topic": "answer"}}],
    }
    metadata = {"name": "bench", "namespace": "bench"}
    revision = build_local_revision(
        {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec}
    )
    revision = revision.replace(
        spark_conf={**revision.spark_conf, "spark.master": "local[2]", "spark.driver.memory": "2g"}
    )
    spark = start_spark(revision)
    return measure(
        compile_revision(spark, revision, NoopEndpoints(spark, folder)).sinks[0].writer, folder, documents
    )


def _source(name: str, schema: str, column: str) -> Row:
    event_time = {"column": column, "watermark": "10s"}
    return {"name": name, "topic": name, "format": {"json": {"schema": schema}}, "eventTime": event_time}


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    documents, rounds, batches = (1_000, 3, 6) if given.quick else (5_000, 5, 9)
    language = Language(seed=1)
    result = compare(language, documents, rounds)
    result["with_frequent_words"] = compare(language, documents // 5, rounds, first=0)
    print(result, flush=True)
    folder = Path(tempfile.mkdtemp(prefix="kappa-search-"))
    try:
        write_input(language, folder, documents, batches)
        result["pipeline_docs_per_s"] = round(run_pipeline(folder, documents))
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
