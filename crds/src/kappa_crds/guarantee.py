"""The delivery guarantee of a sink, computed from what it is. Pure."""

from kappa_crds.sink import OutputMode, Sink
from kappa_crds.trigger import Trigger

AT_LEAST_ONCE = "atLeastOnce"


def explain_guarantee(sink: Sink, trigger: Trigger) -> str:
    """Return what a reader of the sink's topic can rely on.

    Spark's sink for Kafka writes a batch again that was not committed before a crash, so records may come twice.
    """
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
