"""The thread beside the queries: what it cannot write never keeps the driver from stopping."""

import threading

from kappa_pipelines.side_outputs.background import Background, Totals


def test_a_stop_does_not_wait_for_a_topic_that_cannot_be_written() -> None:
    totals, ended = Totals(), threading.Event()

    def fail(ending: bool) -> None:
        if ending:
            ended.set()
            raise OSError("the topic takes no records")

    background = Background("dead letters", ended.is_set, fail, totals)
    background.start()
    assert background.finish(3600)
    assert totals.errors == 1
