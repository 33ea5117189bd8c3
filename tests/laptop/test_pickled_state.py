"""State that an earlier release stored as pickles is read, and continues in the present form.

`pickled.zip` has the checkpoints of `MANIFEST` after `FIRST`, made by a LocalRun of the last release that wrote pickles.
"""

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kappa_crds import API_VERSION
from kappa_pipelines.checkpoint.format.schemas import rewrite_all_schema_paths
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.revision.settings import NATIVE_PATTERNS, NATIVE_TABLES
from kappa_pipelines.transforms.stored import decode
from laptop.equivalence import build_table, build_versions

RECORDED = Path(__file__).with_name("pickled.zip")
SYMBOLS = tuple("abcdefgh")
MANIFEST: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": "Pipeline",
    "metadata": {"name": "recorded", "namespace": "test"},
    "spec": {
        "sources": [
            build_table("ticker", "symbol STRING, ts TIMESTAMP, price DECIMAL(10,2)", "ts", "1h"),
            build_versions("names", "symbol STRING, version BIGINT, name STRING"),
        ],
        "views": [
            {
                "name": "rises",
                "pattern": {
                    "from": "ticker",
                    "key": ["symbol"],
                    "steps": "A B",
                    "define": {"B": "B.price > LAST(A.price)"},
                    "measures": {"low": "A.price", "high": "B.price"},
                    "within": "5d",
                },
            },
            {
                "name": "named",
                "lookup": {
                    "from": "ticker",
                    "table": {"from": "names", "order": "version"},
                    "key": {"symbol": "symbol"},
                    "columns": {"name": "name"},
                },
            },
        ],
        "sinks": [
            {"name": name, "from": name, "kafka": {"topic": name}, "mode": "append"}
            for name in ("rises", "named")
        ],
        # A driver finds by the fingerprint in a checkpoint what state is in Python; a local run has no fingerprint.
        "sparkConf": {NATIVE_TABLES: "false", NATIVE_PATTERNS: "false"},
    },
}


def quotes(day: int, price: str, symbols: Iterable[str] = SYMBOLS) -> list[Record]:
    rows = ({"symbol": each, "ts": f"2026-01-0{day}T00:00:00Z", "price": price} for each in symbols)
    return [Record(json.dumps(row).encode()) for row in rows]


NAMES = [
    Record(json.dumps({"symbol": each, "version": 1, "name": each.upper()}).encode()) for each in SYMBOLS
]
FIRST = ({"ticker": quotes(1, "10.50"), "names": NAMES}, {"ticker": quotes(2, "1.00", ["other"])})


def start_run(folder: Path) -> LocalRun:
    revision = build_local_revision(MANIFEST)
    return LocalRun(start_spark(revision), revision, folder)


def test_pickled_state_continues(spark: SparkSession, tmp_path: Path) -> None:
    with zipfile.ZipFile(RECORDED) as recorded:
        recorded.extractall(tmp_path)
    checkpoint = LocalFolder(str(tmp_path / "checkpoint"))
    rewrite_all_schema_paths(checkpoint, checkpoint.root)  # they are those of the machine that recorded it
    run = start_run(tmp_path)
    run.feed({"ticker": quotes(3, "11.25")})
    run.feed({"ticker": quotes(4, "1.00", ["other"])})
    run.process()
    rises, named = (
        [json.loads(output.value or "") for output in run.outputs(name)] for name in ("rises", "named")
    )
    assert sorted(row["symbol"] for row in rises) == list(SYMBOLS)
    assert {(row["low"], row["high"]) for row in rises} == {(10.5, 11.25)}
    names = {row["symbol"]: row["name"] for row in named}
    assert names == {**{each: each.upper() for each in SYMBOLS}, "other": None}
    reader = spark.read.format("statestore").option("stateVarName", "groups")
    groups = reader.load(str(tmp_path / "checkpoint" / "named")).collect()
    stored = [content for row in groups for content in decode(row["user_map_value"]["kept"]).values()]
    assert sorted(json.loads(body)["name"] for _, body in stored) == sorted(names[each] for each in SYMBOLS)
