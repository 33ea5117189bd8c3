"""How long topics keep their records: read from time to time, and what was known stays where it cannot be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kappa_operator.errors import AuthorizationFailed, KafkaFailure
from kappa_operator.kafka.configs import TopicConfigs
from kappa_operator.lag.forecast import UNKNOWN, Retention
from kappa_operator.lag.retentions import Retentions

HOUR = TopicConfigs({"cleanup.policy": "delete", "retention.ms": "3600000"}, frozenset())


@dataclass
class Stage:
    seconds: float = 0.0
    found: dict[str, TopicConfigs | KafkaFailure | None] = field(default_factory=dict)
    trouble: KafkaFailure | None = None
    calls: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.retentions = Retentions(self, lambda: self.seconds)  # type: ignore[arg-type]

    async def read(
        self, wanted: Mapping[str, frozenset[str]]
    ) -> dict[str, TopicConfigs | KafkaFailure | None]:
        self.calls.append(list(wanted))
        if self.trouble is not None:
            raise self.trouble
        return {topic: self.found.get(topic) for topic in wanted}


async def test_a_topic_is_requested_every_two_minutes_and_a_new_one_at_once() -> None:
    stage = Stage(found={"a": HOUR, "b": HOUR})
    assert await stage.retentions.read(["a"]) == {"a": Retention(known=True, time=3600.0)}
    stage.seconds = 60.0
    await stage.retentions.read(["a", "b"])
    stage.seconds = 125.0
    await stage.retentions.read(["a", "b"])
    assert stage.calls == [["a"], ["b"], ["a"]]


async def test_topics_are_described_in_calls_of_five_hundred() -> None:
    stage = Stage()
    await stage.retentions.read([f"t{number}" for number in range(1200)])
    assert [len(call) for call in stage.calls] == [500, 500, 200]


async def test_what_may_not_be_read_or_is_gone_is_unknown() -> None:
    stage = Stage(found={"secret": AuthorizationFailed("no"), "a": HOUR})
    found = await stage.retentions.read(["secret", "gone", "a"])
    assert (found["secret"], found["gone"], found["a"].known) == (UNKNOWN, UNKNOWN, True)


async def test_what_was_known_stays_while_a_cluster_does_not_answer() -> None:
    stage = Stage(found={"a": HOUR})
    before = await stage.retentions.read(["a"])
    stage.seconds, stage.trouble = 200.0, KafkaFailure("away")
    assert await stage.retentions.read(["a", "b"]) == {**before, "b": UNKNOWN}


async def test_an_unread_topic_is_dropped() -> None:
    stage = Stage(found={"a": HOUR, "b": HOUR})
    await stage.retentions.read(["a", "b"])
    assert set(await stage.retentions.read(["b"])) == {"b"}
    await stage.retentions.read(["a"])
    assert stage.calls == [["a", "b"], ["a"]]
