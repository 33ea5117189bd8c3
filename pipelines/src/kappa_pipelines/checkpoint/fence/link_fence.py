"""The fence of a checkpoint on a mounted volume.

Each driver reaches the checkpoint by a symbolic link with its generation in the name, and gives Spark no other path. A newer
driver replaces the links of all older generations by files, each in one step of the file system. Then no path of an older driver
leads to the checkpoint: its writes fail, however long it was paused, and Spark starts no batch that it cannot log. See ADR 0013.

    CHECKPOINT/_kappa/g7 -> ..      the driver of generation 7
    CHECKPOINT/_kappa/g6            a file: a newer driver fenced generation 6 off
"""

import re
import uuid
from pathlib import Path
from urllib.parse import urlsplit

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER, Fence
from kappa_pipelines.checkpoint.store.local import LocalFolder, sync_folder
from kappa_pipelines.errors import FencedError, UnavailableError

_LINK = re.compile(r"g(\d+)")


class LinkFence(Fence):
    """A fence on a file system with symbolic links."""

    def __init__(self, checkpoint: str, generation: int) -> None:
        self.generation = generation
        self.root = f"{checkpoint.rstrip('/')}/{INTERNAL_FOLDER}/g{generation}"
        self.files = LocalFolder(self.root)
        self._checkpoint = checkpoint
        self._folder = Path(urlsplit(checkpoint).path) / INTERNAL_FOLDER
        self._own = self._folder / f"g{generation}"

    def acquire(self) -> None:
        # Of two drivers at once, the older one finds the newer one after it has created its link, and stops before it uses it.
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._refuse_newer()
            for older in self._find_links():
                if older < self.generation:
                    self._fence_off(older, self.generation)
            self._create_link()
            self._refuse_newer()
        except OSError as error:
            raise self._unavailable("acquired", error) from error

    def check(self) -> None:
        try:
            self._refuse_newer()
            if not self._own.is_symlink():
                raise FencedError(self.generation, int(self._own.read_text().split()[-1]))
        except OSError as error:
            raise self._unavailable("read", error) from error

    def _find_links(self) -> list[int]:
        """Return all generations up to now."""
        return [int(found[1]) for path in self._folder.iterdir() if (found := _LINK.fullmatch(path.name))]

    def _refuse_newer(self) -> None:
        found = self._find_links()
        if max(found, default=0) > self.generation:
            self._fence_off(self.generation, max(found))
        self.refuse_newer(found)

    def _create_link(self) -> None:
        if not self._own.is_symlink():
            self._own.symlink_to("..")
            sync_folder(self._folder)

    def _fence_off(self, generation: int, newer: int) -> None:
        """Replace the link of a generation by a file, in one step: its driver could create a folder in between."""
        path = self._folder / f"g{generation}"
        if path.is_file() and not path.is_symlink():
            return
        part = self._folder / f".{uuid.uuid4().hex}.part"
        part.write_text(f"taken over by generation {newer}\n")
        part.replace(path)
        sync_folder(self._folder)

    def _unavailable(self, verb: str, error: OSError) -> UnavailableError:
        message = f"the checkpoint {self._checkpoint} could not be {verb}: {error.strerror}"
        return UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, message)
