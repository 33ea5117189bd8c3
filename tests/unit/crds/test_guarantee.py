"""The guarantee in the status says what is true of each sink."""

import pytest

from kappa_crds.guarantee import compute_guarantee, explain_guarantee
from kappa_crds.pipeline import Trigger
from kappa_crds.sink import Sink
from kappa_crds.source import Source

SOURCE = Source.model_validate({"name": "in", "topic": "in", "format": {"json": {"schema": "k STRING"}}})
UNCOMMITTED = Source.model_validate(SOURCE.to_manifest() | {"isolationLevel": "ReadUncommitted"})


def build(name: str, delivery: str) -> Sink:
    return Sink.model_validate(
        {"name": name, "from": "rows", "kafka": {"topic": "out", "delivery": delivery}}
    )


@pytest.mark.parametrize(
    ("deliveries", "said"),
    [
        (["AtLeastOnce", "AtLeastOnce"], "AtLeastOnce"),
        (["ExactlyOnce", "ExactlyOnce"], "ExactlyOnce"),
        (["ExactlyOnce", "AtLeastOnce"], "ExactlyOnce: s0; AtLeastOnce: s1"),
    ],
)
def test_the_guarantee_names_the_sinks_where_they_differ(deliveries: list[str], said: str) -> None:
    assert compute_guarantee([SOURCE], [build(f"s{n}", each) for n, each in enumerate(deliveries)]) == said


def test_the_explanation_shows_when_a_sink_is_exactly_once() -> None:
    said = explain_guarantee([SOURCE], build("out", "ExactlyOnce"), Trigger())
    assert "isolation.level=read_committed" in said
    assert "savepoint" in said


def test_a_source_that_reads_uncommitted_records_makes_every_sink_at_least_once() -> None:
    sinks = [build("exact", "ExactlyOnce"), build("other", "AtLeastOnce")]
    assert compute_guarantee([SOURCE, UNCOMMITTED], sinks) == "AtLeastOnce"
    explained = explain_guarantee([SOURCE, UNCOMMITTED], sinks[0], Trigger())
    assert explained.startswith("at least once")
    assert "isolationLevel: ReadCommitted" in explained
