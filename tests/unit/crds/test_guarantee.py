"""The guarantee in the status says what is true of each sink."""

import pytest

from kappa_crds.guarantee import compute_guarantee, explain_guarantee
from kappa_crds.sink import Sink
from kappa_crds.trigger import Trigger


def build(name: str, delivery: str) -> Sink:
    return Sink.model_validate({"name": name, "from": "rows", "topic": "out", "delivery": delivery})


@pytest.mark.parametrize(
    ("deliveries", "said"),
    [
        (["AtLeastOnce", "AtLeastOnce"], "atLeastOnce"),
        (["ExactlyOnce", "ExactlyOnce"], "exactlyOnce"),
        (["ExactlyOnce", "AtLeastOnce"], "exactlyOnce: s0; atLeastOnce: s1"),
    ],
)
def test_the_guarantee_names_the_sinks_where_they_differ(deliveries: list[str], said: str) -> None:
    assert compute_guarantee([build(f"s{n}", each) for n, each in enumerate(deliveries)]) == said


def test_the_explanation_says_for_whom_it_is_exactly_once_and_when_not() -> None:
    said = explain_guarantee(build("out", "ExactlyOnce"), Trigger())
    assert "isolation.level=read_committed" in said
    assert "savepoint" in said
