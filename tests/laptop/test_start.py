"""Which queries may start at a time, without the records before it: those whose results do not depend on them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kappa_crds import API_VERSION
from kappa_crds.reasons import Reason
from kappa_crds.replay import ReplayProfile
from kappa_pipelines.errors import SpecError
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.plan.start import check_start

PROFILE = ReplayProfile(start=datetime(2026, 1, 1, tzinfo=UTC))
ORDERS = {
    "name": "orders",
    "topic": "orders",
    "format": {"json": {"schema": "k BIGINT, v DOUBLE, ts TIMESTAMP"}},
    "eventTime": {"column": "ts", "watermark": "10m"},
}
NAMES = {
    "name": "names",
    "topic": "names",
    "format": {"json": {"schema": "k BIGINT, name STRING"}},
    "recordColumns": {"offset": "position"},
    "tombstones": "gone",
}
LOOKUP = {
    "from": "orders",
    "key": {"k": "k"},
    "table": {"from": "names", "order": "position"},
    "columns": {"name": "name"},
}
WINDOW = {"from": "orders", "tumbling": "1h", "aggregates": {"n": "count(*)"}}
COUNT = {"sql": "SELECT k, count(*) AS n FROM orders GROUP BY k", "allowUnboundedState": True}
ANY_AGE = "may need records of any age; remove reprocessing.from to read the whole log"
EARLIER = "needs earlier records; set reprocessing.warmUp"


def check(profile: ReplayProfile, view: dict[str, Any], mode: str) -> None:
    """Check the query of a view with this profile."""
    sources = [ORDERS, *([NAMES] if "lookup" in view else [])]
    key = {"key": ["window_start" if "window" in view else "k"]} if mode == "update" else {}
    sink = {"name": "out", "from": "seen", "mode": mode, "kafka": {"topic": "out", **key}}
    revision = build_local_revision(
        {
            "apiVersion": API_VERSION,
            "kind": "Pipeline",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"sources": sources, "views": [{"name": "seen", **view}], "sinks": [sink]},
        }
    )
    check_start(revision.spec, compile_revision(start_spark(revision), revision), profile)


@pytest.mark.parametrize(
    ("view", "mode", "without", "with_warm_up"),
    [
        ({"sql": "SELECT k FROM orders WHERE v > 1"}, "append", "", ""),
        ({"window": WINDOW}, "append", f"the aggregation of view 'seen' {EARLIER}", ""),
        ({"sql": "SELECT DISTINCT k, ts FROM orders"}, "append", EARLIER, ""),
        ({"window": WINDOW}, "update", EARLIER, "its rows replace each other"),
        ({"sql": "SELECT k FROM orders LIMIT 5"}, "append", f"the LIMIT of view 'seen' {ANY_AGE}", ANY_AGE),
        (COUNT, "update", ANY_AGE, ANY_AGE),
        ({"lookup": LOOKUP}, "append", f"the rows of names of view 'seen' {ANY_AGE}", ANY_AGE),
    ],
)
def test_a_query_starts_at_a_time_only_where_its_results_do_not_depend_on_records_before_it(
    view: dict[str, Any], mode: str, without: str, with_warm_up: str
) -> None:
    for profile, message in ((PROFILE, without), (PROFILE.replace(warms_up=True), with_warm_up)):
        if not message:
            check(profile, view, mode)
            continue
        with pytest.raises(SpecError) as caught:
            check(profile, view, mode)
        assert message in str(caught.value)
        assert caught.value.reason is Reason.UNSUPPORTED_QUERY
    check(ReplayProfile(), view, mode)
