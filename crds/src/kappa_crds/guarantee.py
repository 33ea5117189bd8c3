"""The delivery guarantee of a sink, computed from what it is. Pure."""

from kappa_crds.sink import OutputMode, Sink

AT_LEAST_ONCE = "atLeastOnce"


def explain_guarantee(sink: Sink) -> str:
    """Return what a reader of the sink's topic can rely on.

    Spark's sink for Kafka writes a batch again that was not committed before a crash, so records may come twice.
    """
    if sink.mode is OutputMode.APPEND and sink.key is None:
        return "at least once: after a crash the rows of one batch may be there twice"
    if sink.mode is OutputMode.APPEND:
        return "at least once: after a crash the rows of one batch may be there twice, with the same keys"
    return (
        "at least once, and the last record of each key is exact, so a compacted topic has the right result"
    )
