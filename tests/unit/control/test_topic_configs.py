"""What a spec means in Kafka's words, and which values are the same."""

import pytest

from kappa_crds.topic import TopicSpec
from kappa_operator.kafka.model import TopicView
from kappa_operator.topic.configs import build_configs, describe_topic, is_same_cleanup, is_same_value


@pytest.mark.parametrize(
    ("spec", "configs"),
    [
        ({}, {"cleanup.policy": "delete"}),
        ({"retention": {"time": "30d"}}, {"cleanup.policy": "delete", "retention.ms": "2592000000"}),
        ({"retention": {"size": "10Gi"}}, {"cleanup.policy": "delete", "retention.bytes": "10737418240"}),
        ({"cleanup": "compact,delete"}, {"cleanup.policy": "compact,delete"}),
        ({"config": {"segment.ms": "1"}}, {"cleanup.policy": "delete", "segment.ms": "1"}),
    ],
)
def test_a_spec_declares_just_these_configs(spec: dict[str, object], configs: dict[str, str]) -> None:
    assert build_configs(TopicSpec.model_validate(spec)) == configs


@pytest.mark.parametrize(
    ("shown", "wanted", "same"),
    [
        ("0.5", "0.50", True),
        ("false", "FALSE", True),
        ("100", "0100", True),
        ("100", " 100 ", True),
        ("a,b", "a, b", True),
        ("100", "101", False),
        ("a,b", "b,a", False),
        ("producer", "gzip", False),
        (None, "1", False),
        ("", "", True),
    ],
)
def test_values_are_compared_by_what_they_mean(shown: str | None, wanted: str, same: bool) -> None:
    assert is_same_value(shown, wanted) is same


def test_the_order_of_cleanup_policies_does_not_matter() -> None:
    assert is_same_cleanup("delete,compact", "compact,delete")
    assert not is_same_cleanup("delete", "compact,delete")


@pytest.mark.parametrize(
    ("partitions", "configs", "text"),
    [
        (4, {"cleanup.policy": "delete", "retention.ms": "2592000000"}, "4 partitions · 30d"),
        (1, {"cleanup.policy": "delete", "retention.ms": "-1"}, "1 partition · retention unlimited"),
        (2, {"cleanup.policy": "compact", "retention.ms": "2592000000"}, "2 partitions · compacted"),
        (
            2,
            {"cleanup.policy": "compact,delete", "retention.ms": "86400000"},
            "2 partitions · compacted · 1d",
        ),
        (
            8,
            {"cleanup.policy": "delete", "retention.ms": "3600000", "retention.bytes": "1073741824"},
            "8 partitions · 1h · 1 GiB per partition",
        ),
    ],
)
def test_a_topic_is_described_in_a_few_words(partitions: int, configs: dict[str, str], text: str) -> None:
    assert describe_topic(TopicView("t", "id", partitions, 1, configs)) == text
