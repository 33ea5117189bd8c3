"""When a source is idle, and how far it then follows the others."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.progress import QueryProgress, SourceProgress
from kappa_pipelines.sources.idle import IdleWatermarks, find_watermark_file, read_watermark, write_watermark
from kappa_pipelines.sources.idleness import IdleWatch, SourceActivity, decide_idle_watermarks, find_idle

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MILLIS = int(NOON.timestamp() * 1000)


class Clock:
    """A clock that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def build_spec() -> PipelineSpec:
    def timed(name: str, **fields: Any) -> dict[str, Any]:
        schema = {"json": {"schema": "ts TIMESTAMP"}}
        return {
            "name": name,
            "topic": name,
            "format": schema,
            "eventTime": {"column": "ts", "watermark": "1m", **fields},
        }

    return PipelineSpec.model_validate(
        {
            "sources": [timed("live"), timed("silent", idleAfter="10s")],
            "sinks": [{"name": "out", "from": "live", "kafka": {"topic": "out"}}],
        }
    )


def build_progress(*, rows: int = 0, latest: datetime | None = None, lag: int = 0) -> QueryProgress:
    """A batch with rows of the live source, and none of the silent one, of which so much is not read yet."""
    live = SourceProgress(name="live", topic="live", input_rows=rows, latest=latest)
    ends: dict[str, Any] = {"end_offsets": {"silent": {0: 5}}, "latest_offsets": {"silent": {0: 5 + lag}}}
    silent = SourceProgress(name="silent", topic="silent", **ends)
    return QueryProgress(
        sink="out", query_id="q", run_id="r", batch_id=1, timestamp=NOON, sources=(live, silent)
    )


@pytest.fixture
def watch(tmp_path: Path) -> tuple[IdleWatch, Clock, Path]:
    clock = Clock()
    watch = IdleWatch(build_spec(), {"out": ("live", "silent")}, tmp_path, clock)
    return watch, clock, find_watermark_file(tmp_path, "silent")


def test_a_source_that_is_silent_and_at_its_end_follows_the_one_that_it_is_read_with(
    watch: tuple[IdleWatch, Clock, Path],
) -> None:
    idleness, clock, mark = watch
    clock.now = 9.0
    idleness.note(build_progress(rows=1, latest=NOON))
    idleness.update([build_progress()])
    assert read_watermark(mark) == 0, "not silent for long enough"
    clock.now = 10.0
    idleness.update([build_progress()])
    assert read_watermark(mark) == MILLIS - 60_000
    idleness.note(build_progress(rows=1, latest=NOON - timedelta(hours=1)))
    idleness.update([build_progress()])
    assert read_watermark(mark) == MILLIS - 60_000, "a mark never goes back"


def test_a_source_that_lags_is_never_idle(watch: tuple[IdleWatch, Clock, Path]) -> None:
    idleness, clock, mark = watch
    idleness.note(build_progress(rows=1, latest=NOON))
    clock.now = 1000.0
    idleness.update([build_progress(lag=1)])
    assert read_watermark(mark) == 0


def test_there_is_no_mark_while_nothing_is_known_of_a_source_that_is_not_idle(
    watch: tuple[IdleWatch, Clock, Path],
) -> None:
    idleness, clock, mark = watch
    clock.now = 1000.0
    idleness.update([build_progress()])
    assert read_watermark(mark) == 0


def test_a_source_is_idle_only_if_it_is_for_every_query_that_reads_it() -> None:
    quiet, busy = SourceActivity(0.0, 5, is_at_end=True), SourceActivity(50.0, 5, is_at_end=True)
    behind = SourceActivity(0.0, 5, is_at_end=False)
    for other, idle in ((quiet, {"a"}), (busy, set()), (behind, set())):
        assert find_idle({"one": {"a": quiet}, "two": {"a": other}}, {"a": 10}, 55.0) == idle
    assert find_idle({"one": {"b": quiet}}, {"a": 10}, 55.0) == set()


def test_idle_sources_follow_the_slowest_of_the_others_in_the_query_that_is_furthest() -> None:
    reports = {
        "one": {"a": SourceActivity(0), "b": SourceActivity(0, 7), "c": SourceActivity(0, 9)},
        "two": {"a": SourceActivity(0), "c": SourceActivity(0, 8), "idle": SourceActivity(0)},
        "three": {"a": SourceActivity(0), "d": SourceActivity(0)},
    }
    assert decide_idle_watermarks(reports, frozenset({"a", "idle"})) == {"a": 8, "idle": 8}
    assert decide_idle_watermarks({"one": {"a": SourceActivity(0, 3)}}, frozenset({"a"})) == {}


def test_after_a_restart_a_mark_stays_where_it_was(tmp_path: Path) -> None:
    reader = IdleWatermarks({"path": str(find_watermark_file(tmp_path, "silent"))}).streamReader(StructType())
    assert reader.latestOffset({"time": 7}, ReadAllAvailable()) == {"time": 7}
    assert reader.partitions({"time": 7}, {"time": 7}) == []
    write_watermark(find_watermark_file(tmp_path, "silent"), 9)
    assert reader.latestOffset({"time": 7}, ReadAllAvailable()) == {"time": 9}
    assert [part.value for part in reader.partitions({"time": 7}, {"time": 9})] == [9]
