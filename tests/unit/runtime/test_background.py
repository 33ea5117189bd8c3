"""The background thread of a side output: a failed write never keeps the driver from stopping."""

from pathlib import Path

from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.side_outputs.background import BackgroundOutput, OutputContext


class Failing(BackgroundOutput):
    """An output whose topic accepts no records."""

    def start(self) -> None:
        self._thread.start()

    def finish(self, timeout: float) -> bool:
        return self._end(timeout)

    def _is_pending(self) -> bool:
        return self._ending

    def _work(self, ending: bool) -> None:
        if ending:
            raise OSError("the topic accepts no records")


def build(tmp_path: Path) -> Failing:
    return Failing("failing", OutputContext(LocalFolder(str(tmp_path)), lambda: None, lambda _source: {}))


def test_a_stop_does_not_wait_for_a_topic_that_cannot_be_written(tmp_path: Path) -> None:
    output = build(tmp_path)
    output.start()
    assert output.finish(3600)
    assert output.totals.errors == 1


def test_an_output_that_never_started_ends_at_once(tmp_path: Path) -> None:
    output = build(tmp_path)
    assert output.finish(3600)
    output.abandon()
