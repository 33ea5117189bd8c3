"""How a pipeline uses its sources, and where it starts: what decides whether a compacted topic is enough."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from kappa_crds.pipeline import PipelineSpec
from kappa_operator.log.facts import Edge, Question, Use
from kappa_operator.log.uses import build_questions, find_use
from lab.paths import REPOSITORY

EXAMPLES = REPOSITORY / "pipelines" / "examples"


def read_spec(name: str) -> PipelineSpec:
    documents = yaml.load_all((EXAMPLES / name / "pipeline.yaml").read_text(), yaml.CSafeLoader)
    return PipelineSpec.model_validate(next(each["spec"] for each in documents if each["kind"] == "Pipeline"))


@pytest.mark.parametrize(
    ("example", "uses"),
    [
        ("shop", dict.fromkeys(("customers", "products", "stock", "orders", "items"), Use.TABLE)),
        ("timelines", {"follows": Use.TABLE, "posts": Use.TABLE}),
        ("flights", {"flights": Use.STREAM}),
        ("weather", {"flights": Use.STREAM, "reports": Use.STREAM}),
        ("auction-alerts", {"lots": Use.STREAM, "searches": Use.STREAM}),
        ("auction-standings", {"events": Use.STREAM}),
        ("auction-commands", {"commands": Use.STREAM}),
        ("worsening", {"flights": Use.STREAM}),
        ("congestion", {"flights": Use.STREAM}),
    ],
)
def test_only_tables_of_joins_are_tables(example: str, uses: dict[str, Use]) -> None:
    spec = read_spec(example)
    assert {source.name: find_use(spec, source.name) for source in spec.sources} == uses


def build_spec(view: dict[str, Any], sink: str = "out", **source: Any) -> PipelineSpec:
    table = {"name": "planes", "topic": "planes", "format": {"json": {"schema": "id INT, seats INT"}}}
    events = {"name": "flights", "topic": "flights", "format": {"json": {"schema": "plane INT"}}, **source}
    join = {
        "from": "flights",
        "table": {"from": "planes", "order": "version"},
        "key": {"plane": "id"},
        "columns": {"seats": "seats"},
    }
    views = [{"name": "joined", "lookup": join}, {"name": "out", **view}]
    return PipelineSpec.model_validate(
        {
            "sources": [table, events],
            "views": views,
            "sinks": [{"name": "out", "from": sink, "kafka": {"topic": "out"}}],
        }
    )


def test_the_table_of_a_lookup_is_a_table_and_its_events_are_a_stream() -> None:
    spec = build_spec({"sql": "SELECT * FROM joined"})
    assert (find_use(spec, "planes"), find_use(spec, "flights")) == (Use.TABLE, Use.STREAM)


@pytest.mark.parametrize(
    "view",
    [
        {"sql": "SELECT seats, count(*) FROM Planes GROUP BY seats"},
        {"python": {"function": "a:b", "reads": ["planes"]}},
    ],
    ids=["sql", "python"],
)
def test_a_table_that_another_view_reads_is_a_stream(view: dict[str, Any]) -> None:
    assert find_use(build_spec(view), "planes") is Use.STREAM


def test_a_source_that_a_sink_writes_is_a_stream() -> None:
    assert find_use(build_spec({"sql": "SELECT * FROM joined"}, sink="planes"), "planes") is Use.STREAM


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Edge.EARLIEST),
        ("latest", Edge.LATEST),
        ("2013-01-07T03:00:00Z", datetime(2013, 1, 7, 3, tzinfo=UTC)),
    ],
)
def test_a_source_starts_where_its_spec_has_it(text: str, start: object) -> None:
    questions = build_questions(
        build_spec({"sql": "SELECT 1"}, startingOffsets=text), {"flights": "shop-flights"}
    )
    assert questions[1] == Question("flights", ("shop-flights",), start=start)  # type: ignore[arg-type]


def test_a_reprocessing_has_one_start_for_all_sources() -> None:
    start = datetime(2013, 1, 7, tzinfo=UTC)
    questions = build_questions(build_spec({"sql": "SELECT 1"}), {}, start)
    assert [each.start for each in questions] == [start, start]
