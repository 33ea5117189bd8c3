"""The delivery guarantee of a sink, computed from what it is. Pure."""

from collections.abc import Sequence

from kappa_crds.sink import Delivery, OutputMode, Sink
from kappa_crds.trigger import Trigger

AT_LEAST_ONCE = "atLeastOnce"
EXACTLY_ONCE = "exactlyOnce"


def compute_guarantee(sinks: Sequence[Sink]) -> str:
    """Return the guarantee of all sinks in a word; where they differ, with their names."""
    exact = [sink.name for sink in sinks if sink.delivery is Delivery.EXACTLY_ONCE]
    others = [sink.name for sink in sinks if sink.delivery is not Delivery.EXACTLY_ONCE]
    if not exact:
        return AT_LEAST_ONCE
    if not others:
        return EXACTLY_ONCE
    return f"{EXACTLY_ONCE}: {', '.join(exact)}; {AT_LEAST_ONCE}: {', '.join(others)}"


def explain_guarantee(sink: Sink, trigger: Trigger) -> str:
    """Return what a reader of the sink's topic can rely on.

    Spark's sink for Kafka writes a batch again that was not committed before a crash, so records may come twice. The sink
    that writes exactly once keeps in Kafka what it has written, with the rows themselves.
    """
    if sink.delivery is Delivery.EXACTLY_ONCE:
        return (
            "exactly once for readers of committed records (isolation.level=read_committed), also after a crash; going back to a"
            " savepoint writes the rows after it again"
        )
    if trigger.real_time is not None:
        keys = "" if sink.key is None else ", with the same keys"
        return f"at least once: after a crash the rows of up to {trigger.real_time.checkpoint_every} may be there twice{keys}"
    if sink.mode is OutputMode.APPEND and sink.key is None:
        return "at least once: after a crash the rows of one batch may be there twice"
    if sink.mode is OutputMode.APPEND:
        return "at least once: after a crash the rows of one batch may be there twice, with the same keys"
    return (
        "at least once, and the last record of each key is exact, so a compacted topic has the right result"
    )
