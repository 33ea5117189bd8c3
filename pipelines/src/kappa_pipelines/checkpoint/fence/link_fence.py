"""The fence: which generation of drivers owns a checkpoint.

On a mounted volume each driver has a way of its own into the checkpoint, a symbolic link with its generation in its name, and
gives Spark no other path. Whoever takes over replaces the links of all generations before by files, each in one step of the
file system. From then on no path of an older driver leads anywhere: what it writes fails, whether it slept for a second or for
an hour, and Spark begins no batch that it cannot write down. See ADR 0013.

    CHECKPOINT/_kappa/g7 -> ..      the driver of generation 7
    CHECKPOINT/_kappa/g6            a file: whose driver was taken over from

In a bucket, which has no links, see `bucket_fence`.
"""

import os
import re
import uuid
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Folder, LocalFolder
from kappa_pipelines.errors import FencedError, UnavailableError

FOLDER = "_kappa"
"""What is of one checkpoint alone, and not part of its savepoints."""
_LINK = re.compile(r"g(\d+)")


class Fence(Protocol):
    """Guards one checkpoint for one generation."""

    generation: int
    root: str
    """The URI by which this generation, and no other, reaches the checkpoint."""

    @property
    def files(self) -> Folder:
        """Return the checkpoint as this generation reaches it, once it is taken: what a newer one took over cannot be written."""

    def take(self) -> None:
        """Claim the checkpoint; FencedError if a newer generation has it, UnavailableError if it is unusable."""

    def open(self) -> None:
        """Have what the checkpoint is now be what the next generation goes on from; FencedError as for `take`."""

    def list_settings(self) -> dict[str, str]:
        """Return the settings of Hadoop that `root` needs."""

    def check(self) -> None:
        """Raise FencedError if a newer generation has taken the checkpoint."""


def is_local(checkpoint: str) -> bool:
    """Return whether a checkpoint is on a mounted volume."""
    return urlsplit(checkpoint).scheme in ("", "file")


class LinkFence:
    """A fence on a file system with symbolic links. Needs no JVM."""

    def __init__(self, checkpoint: str, generation: int) -> None:
        self.generation = generation
        self.root = f"{checkpoint.rstrip('/')}/{FOLDER}/g{generation}"
        self.files = LocalFolder(self.root)
        self._checkpoint = checkpoint
        self._folder = Path(urlsplit(checkpoint).path) / FOLDER
        self._own = self._folder / f"g{generation}"

    def take(self) -> None:
        """Claim the checkpoint, and shut out all generations before.

        Two may do this at once: the one that sees a newer one after it has made its link gives up, before it used it.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._refuse_newer()
            for older in self._find_links():
                if older < self.generation:
                    self._shut_out(older, self.generation)
            self._open()
            self._refuse_newer()
        except OSError as error:
            raise self._unavailable("claimed", error) from error

    def open(self) -> None:
        """Do nothing: what is written counts at once."""

    def list_settings(self) -> dict[str, str]:
        """Return none."""
        return {}

    def check(self) -> None:
        """Raise FencedError if a newer generation has taken the checkpoint."""
        try:
            self._refuse_newer()
            if not self._own.is_symlink():
                raise FencedError(self.generation, int(self._own.read_text().split()[-1]))
        except OSError as error:
            raise self._unavailable("read", error) from error

    def _find_links(self) -> list[int]:
        """Return the generations that there are or were."""
        return [int(found[1]) for path in self._folder.iterdir() if (found := _LINK.fullmatch(path.name))]

    def _refuse_newer(self) -> None:
        newest = max(self._find_links(), default=0)
        if newest > self.generation:
            self._shut_out(self.generation, newest)
            raise FencedError(self.generation, newest)

    def _open(self) -> None:
        if not self._own.is_symlink():
            self._own.symlink_to("..")
            _write_through(self._folder)

    def _shut_out(self, generation: int, newer: int) -> None:
        """Put a file in the place of a generation's link, in one step: in between, its driver could make a folder there."""
        path = self._folder / f"g{generation}"
        if path.is_file() and not path.is_symlink():
            return
        part = self._folder / f".{uuid.uuid4().hex}.part"
        part.write_text(f"taken over by generation {newer}\n")
        part.replace(path)
        _write_through(self._folder)

    def _unavailable(self, verb: str, error: OSError) -> UnavailableError:
        return UnavailableError(
            Reason.CHECKPOINT_UNAVAILABLE,
            f"the checkpoint {self._checkpoint} is not usable: it could not be {verb} ({error.strerror})",
        )


def _write_through(folder: Path) -> None:
    """Have a folder's entries on the disk before going on."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
