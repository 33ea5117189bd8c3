"""A pipeline run twice over the same batches, with the plan of a setting and without it, each with a crash; and batches of odd rows."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kappa_crds import API_VERSION
from kappa_crds.revision import Revision
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import Compiled

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = "k DOUBLE, s STRING, v BIGINT, d DECIMAL(12,2), ts TIMESTAMP"
"""The columns of `make_rows`."""
Batch = dict[str, list[Record]]


@dataclass(frozen=True)
class Outcome:
    """A run: its plan, how often each value was written, and the number of late records."""

    compiled: Compiled
    rows: Counter[str]
    late: int


def build_answer(sql: str, **spec: Any) -> Revision:
    """Return a pipeline over the sources `a` and `b` with the view `answer`, which its sink writes; `spec` has other fields."""
    time = {"column": "ts", "watermark": "20s"}
    return build_local_revision(
        {
            "apiVersion": API_VERSION,
            "kind": "Pipeline",
            "metadata": {"name": "compared", "namespace": "test"},
            "spec": {
                "sources": [
                    {"name": n, "topic": n, "format": {"json": {"schema": COLUMNS}}, "eventTime": time}
                    for n in ("a", "b")
                ],
                "views": [{"name": "answer", "sql": sql, "allowUnboundedState": True}],
                "sinks": [{"name": "answer", "from": "answer", "kafka": {"topic": "answer"}}],
                **spec,
            },
        }
    )


def run_both(
    revision: Revision, setting: str, folder: Path, batches: Sequence[Batch]
) -> tuple[Outcome, Outcome]:
    """Return the outcomes with a setting that is true, and with one that is false."""
    return (
        _run(revision, setting, "true", folder, batches),
        _run(revision, setting, "false", folder, batches),
    )


def _run(revision: Revision, setting: str, value: str, folder: Path, batches: Sequence[Batch]) -> Outcome:
    spark = start_spark(revision)
    spark.conf.set(setting, value)
    run = LocalRun(spark, revision, folder / value)
    for number, batch in enumerate(batches):
        run.feed(batch)
        if number == 2:
            run.crash()
        if number % 2:
            run.process()
    run.end()
    run.process()
    assert run.letters() == []
    return Outcome(run.compiled, Counter(each.value or "" for each in run.outputs("answer")), run.late)


def check_same(own: Outcome, other: Outcome) -> None:
    """Fail unless both wrote the same values, and some."""
    assert (own.rows - other.rows, other.rows - own.rows) == (Counter(), Counter())
    assert own.rows
    assert (own.late > 0) == (other.late > 0)


def make_rows(seed: int) -> list[Batch]:
    """Return six batches of a minute: equal keys of other bytes, equal times, equal rows, and rows that come too late."""
    rng = random.Random(seed)
    batches = []
    for minute in range(6):
        fed = {}
        for name in ("a", "b"):
            rows = []
            for _ in range(rng.choice([0, 1, 25, 40])):
                delay = rng.choice([0, 0, 0, 15, 150])
                moment = START + timedelta(seconds=60 * minute + rng.randrange(0, 60, 4) - delay)
                row = {
                    "k": rng.choice([0.0, -0.0, "NaN", 1.5, None]),
                    "s": rng.choice(["x", "", "größe", None]),
                    "v": rng.choice([None, *range(7)]),
                    "d": f"{rng.randrange(9999)}.25",
                    "ts": None if rng.random() < 0.05 else moment.isoformat(),
                }
                rows += [Record(json.dumps(row).encode())] * rng.choice([1, 1, 1, 2])
            fed[name] = rows
        batches.append(fed)
    return batches
