"""The delivery guarantee of a sink, computed from what it is and from what it reads. Pure."""

from collections.abc import Sequence

from kappa_crds.pipeline import Trigger
from kappa_crds.sink import Delivery, OutputMode, Sink
from kappa_crds.source import Source


def compute_guarantee(sources: Sequence[Source], sinks: Sequence[Sink]) -> str:
    """Return the guarantee of all sinks in a word; where they differ, with their names.

    Records of aborted transactions are written again by their producer, so a pipeline that reads them counts some twice.
    """
    is_exact = all(source.is_committed for source in sources)
    exact = [sink.name for sink in sinks if is_exact and sink.target.delivery is Delivery.EXACTLY_ONCE]
    others = [sink.name for sink in sinks if sink.name not in exact]
    if not exact:
        return Delivery.AT_LEAST_ONCE.value
    if not others:
        return Delivery.EXACTLY_ONCE.value
    return f"{Delivery.EXACTLY_ONCE}: {', '.join(exact)}; {Delivery.AT_LEAST_ONCE}: {', '.join(others)}"


def explain_guarantee(sources: Sequence[Source], sink: Sink, trigger: Trigger) -> str:
    """Return what a reader of the sink's topic can rely on.

    Spark's sink for Kafka writes a batch again that was not committed before a crash, so records may come twice. The sink
    that writes exactly once keeps in Kafka what it has written, with the rows themselves.
    """
    uncommitted = [source.name for source in sources if not source.is_committed]
    if uncommitted and sink.target.delivery is Delivery.EXACTLY_ONCE:
        names = ", ".join(uncommitted)
        return (
            f"at least once: each row is written once, but records of aborted transactions are read from {names}; set"
            " isolationLevel: ReadCommitted there"
        )
    if sink.target.delivery is Delivery.EXACTLY_ONCE:
        return (
            "exactly once for readers of committed records (isolation.level=read_committed), also after a crash; restoring a"
            " savepoint writes the rows after it again"
        )
    if trigger.real_time is not None:
        keys = "" if sink.target.key is None else ", with the same keys"
        return f"at least once: after a crash the rows of up to {trigger.real_time.checkpoint_interval} may be there twice{keys}"
    if sink.mode is OutputMode.APPEND and sink.target.key is None:
        return "at least once: after a crash the rows of one batch may be there twice"
    if sink.mode is OutputMode.APPEND:
        return "at least once: after a crash the rows of one batch may be there twice, with the same keys"
    return (
        "at least once, and the last record of each key is exact, so a compacted topic has the right result"
    )
