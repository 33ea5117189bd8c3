"""Pipelines that have run, each with a checkpoint that Spark made: what changes are tried on."""

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kappa_crds.revision import Revision
from spark.revisions import build_revision, source

Spec = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
TIMED: Spec = {"eventTime": {"column": "ts", "watermark": "30s"}}
CLICKS = source("clicks", "k BIGINT, v INT, w INT, ts TIMESTAMP", **TIMED)
TAPS = source("taps", "k BIGINT, v INT, w INT, ts TIMESTAMP", **TIMED)


def build_spec(view: Spec, *sources: Spec, mode: str = "append") -> Spec:
    return {
        "sources": copy.deepcopy(list(sources or (CLICKS,))),
        "views": [{"name": "result", **view}],
        "sinks": [{"name": "out", "from": "result", "kafka": {"topic": "out", "key": ["k"]}, "mode": mode}],
    }


COUNT = "SELECT k, count(*) AS n, sum(v) AS total FROM clicks GROUP BY k, window(ts, '1 minute')"
JOIN = (
    "SELECT c.k, c.v AS a, t.v AS b FROM clicks c JOIN taps t ON c.k = t.k"
    " AND t.ts BETWEEN c.ts - INTERVAL 20 SECONDS AND c.ts"
)
BASES: dict[str, Spec] = {
    "plain": build_spec({"sql": "SELECT k, v FROM clicks WHERE v > 1"}),
    "count": build_spec({"sql": COUNT}),
    "join": build_spec({"sql": JOIN}, CLICKS, TAPS),
    "pattern": build_spec(
        {
            "pattern": {
                "from": "clicks",
                "key": ["k"],
                "steps": "A B+",
                "define": {"B": "v > PREV(v)"},
                "measures": {"last": "LAST(B.v)"},
                "within": "40s",
            }
        }
    ),
    "sliding": build_spec(
        {"sliding": {"from": "clicks", "key": ["k"], "length": "40s", "aggregates": {"total": "sum(v)"}}}
    ),
    "as of": build_spec(
        {
            "asOf": {
                "from": "clicks",
                "table": "taps",
                "key": {"k": "k"},
                "columns": {"t": "v"},
                "maxAge": "1m",
            }
        },
        CLICKS,
        TAPS,
    ),
    "lookup": build_spec(
        {
            "lookup": {
                "from": "clicks",
                "table": {"from": "taps", "order": "v"},
                "key": {"k": "k"},
                "columns": {"t": "w"},
            },
            "allowUnboundedState": True,
        },
        CLICKS,
        TAPS,
    ),
    "distinct": build_spec({"sql": "SELECT DISTINCT k, ts FROM clicks"}),
}


class Bases:
    """Checkpoints of pipelines that ran, each made when it is first asked for."""

    def __init__(self, spark: Any, broker: Any, topics: Any, folder: Path) -> None:
        self._broker = broker
        self._topics = topics
        self._folder = folder
        self._made: dict[str, Revision] = {}
        self.names = {name: topics.make(name) for name in ("clicks", "taps", "out", "more")}
        self._written = 0
        self.write(40)

    def write(self, count: int) -> None:
        """Write so many rows to both topics that are read, a second of event time after one another."""
        numbers = range(self._written, self._written + count)
        for name in ("clicks", "taps"):
            self._topics.write(self.names[name], [json.dumps(_row(number)) for number in numbers])
        self._written += count

    def get(self, name: str, run: Any) -> Revision:
        """Return the revision whose driver ran until it had read all."""
        if name not in self._made:
            revision = self.build(BASES[name], self._folder / name)
            driver = run(revision)
            driver.wait_for("no lag", lambda p: p.queries and p.lag == 0 and p.queries[0].batch_id >= 0)
            assert driver.stop().graceful
            self._made[name] = revision
        return self._made[name]

    def build(self, spec: Spec, checkpoint: Path | str) -> Revision:
        return build_revision(spec, checkpoint, self._broker.bootstrap, topics=self.names)


def _row(number: int) -> dict[str, Any]:
    ts = START + timedelta(seconds=number)
    return {"k": number % 3, "v": number % 7, "w": number % 5, "ts": ts.isoformat()}
