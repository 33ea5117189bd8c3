"""Builds the gate of a driver from its revision."""

from kappa_crds.batches import TRANSACTION_RECORDS
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.format.offsets import Offsets
from kappa_pipelines.driver.transactions.gate import Cuts, TransactionGate
from kappa_pipelines.driver.transactions.reader import ReaderContext, TransactionReader
from kappa_pipelines.errors import SpecError
from kappa_pipelines.kafka.bounds import LogBounds
from kappa_pipelines.kafka.options import build_librdkafka_config
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.plan.compile import Compiled
from kappa_pipelines.sources.kafka import KafkaSource

_QUEUED_KIBIBYTES = "16384"


def build_gate(revision: Revision, compiled: Compiled) -> TransactionGate:
    """Return the gate, which is false without sources that are read by transactions; SpecError if a topic is of another connector."""
    whole = {name: each for name, each in compiled.sources.items() if each.spec.transactions is not None}
    reads = {
        sink: {name: whole[name].subscription.topics for name in names if name in whole}
        for sink, names in compiled.reads.items()
    }
    topics = _find_topics(revision, tuple(whole.values()))

    def open_reader(offsets: Offsets) -> Cuts:
        return TransactionReader(_build_context(revision, topics, tuple(whole.values())), offsets)

    return TransactionGate({sink: each for sink, each in reads.items() if each}, open_reader)


def _find_topics(revision: Revision, sources: tuple[KafkaSource, ...]) -> dict[str, tuple[str, ...]]:
    """Return the topics with changes by that of their transactions."""
    found: dict[str, tuple[str, ...]] = {}
    for source in sources:
        wanted = source.spec.transactions.topic if source.spec.transactions is not None else ""
        name = revision.topics.get(wanted, wanted)
        prefix = name.rpartition(".")[0]
        for topic in source.subscription.topics:
            if not prefix or not topic.startswith(f"{prefix}."):
                message = (
                    f"source {source.name!r}: topic {topic} does not begin with {prefix}. like {name}, so its changes are not in the"
                    " transactions there; name the topic of transactions of the same connector"
                )
                raise SpecError(Reason.INVALID_SPEC, message)
        found[name] = (*found.get(name, ()), *source.subscription.topics)
    return {name: tuple(dict.fromkeys(each)) for name, each in found.items()}


def _build_context(
    revision: Revision, topics: dict[str, tuple[str, ...]], sources: tuple[KafkaSource, ...]
) -> ReaderContext:
    bounds = LogBounds(revision)
    waits = [parse_duration(each.spec.transactions.max_wait) for each in sources if each.spec.transactions]
    return ReaderContext(
        topics=topics,
        max_wait=max(waits),
        limit=revision.spec.trigger.max_records or TRANSACTION_RECORDS,
        config={
            **build_librdkafka_config(revision.kafka),
            "group.id": revision.consumer_group,
            "queued.max.messages.kbytes": _QUEUED_KIBIBYTES,
        },
        find_ends=bounds.committed_ends,
        find_first=lambda names: bounds.first([Subscription(tuple(names))]),
    )
