"""The fence: one generation of drivers owns a checkpoint. Each kind of store has its own fence."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import FencedError

INTERNAL_FOLDER = "_kappa"
"""Folder with files of one checkpoint that savepoints do not contain."""
RESTORED = f"{INTERNAL_FOLDER}/restored"
"""Names the savepoint that the checkpoint was restored from."""
BATCHES = f"{INTERNAL_FOLDER}/batches"
"""The bounds of batches that a driver has measured."""


class Fence(ABC):
    """Guards one checkpoint for one generation, which is the fencing token."""

    generation: int
    root: str
    """The URI by which only this generation reaches the checkpoint."""
    files: Folder
    """The checkpoint as this generation reaches it after `acquire`. Writes fail after a newer generation has acquired it."""

    @abstractmethod
    def acquire(self) -> None:
        """Acquire the fencing token, fence off the previous generation and copy its metadata. Not durable until `publish`.

        FencedError if a newer generation has the token, UnavailableError if the store fails.
        """

    def publish(self) -> None:
        """Make the checkpoint the one that the next generation copies. FencedError as for `acquire`."""
        return  # most stores need no second step

    def list_settings(self) -> dict[str, str]:
        """Return the settings of Hadoop that `root` needs."""
        return {}

    @abstractmethod
    def check(self) -> None:
        """Raise FencedError if a newer generation has acquired the checkpoint."""

    def refuse_newer(self, generations: Iterable[int]) -> None:
        """Raise FencedError if one of these generations is newer."""
        newest = max(generations, default=0)
        if newest > self.generation:
            raise FencedError(self.generation, newest)
