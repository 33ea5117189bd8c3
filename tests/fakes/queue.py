"""What a work queue holds."""

import time

from kappa_operator.engine.queue import WorkQueue


def count_due(queue: WorkQueue, seconds: float) -> int:
    """Return how many keys of a queue with the real clock are due within so many seconds."""
    limit = time.monotonic() + seconds
    return sum(due <= limit for due in queue._due.values())
