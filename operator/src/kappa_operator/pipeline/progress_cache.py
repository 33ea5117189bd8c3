"""What drivers last said of themselves, while this replica acts; it is lost with it, and soon said again."""

from datetime import datetime

from kappa_crds.progress import Progress
from kappa_operator.engine.keys import Key


class LastSaid:
    """The last progress of each pipeline's driver, and when it was told."""

    def __init__(self) -> None:
        self._said: dict[Key, tuple[datetime, Progress]] = {}

    def keep(self, pipeline: Key, at: datetime, progress: Progress) -> None:
        """Remember what a driver said."""
        self._said[pipeline] = at, progress

    def get(self, pipeline: Key) -> tuple[datetime, Progress] | None:
        """Return what was said last, and when; None where nothing was."""
        return self._said.get(pipeline)

    def forget(self, pipeline: Key) -> None:
        """Forget a pipeline that is gone, or whose driver has stopped."""
        self._said.pop(pipeline, None)
