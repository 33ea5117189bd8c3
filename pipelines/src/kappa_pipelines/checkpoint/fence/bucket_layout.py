"""Layout of a checkpoint in a bucket.

    _kappa/generations/7    generation 7 has asked for the fencing token; a newer generation overwrites it
    _kappa/whole/7          the layout of generation 7, written when it is complete
    _kappa/g7/…             files that the driver of generation 7 writes
    _kappa/g5/out/state/0/1 state of a partition stays below its first generation: its files have unique names and never change

Spark reads `viewfs://g7`, a mount table that combines both. `BucketView` is the same view without Spark. See ADR 0015.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic import Field, ValidationError

from kappa_crds.model import Status
from kappa_crds.reasons import Reason
from kappa_crds.stores import BucketConnection
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.errors import LostDataError

CLAIMS, LAYOUTS = f"{INTERNAL_FOLDER}/generations", f"{INTERNAL_FOLDER}/whole"
_PARTITION = re.compile(r"^[^/]+/state/\d+/\d+$")
_DEPTH = 4
"""Number of names in the path of a partition."""


class CheckpointLayout(Status):
    """The files of a generation: the generation that it copied, if any, and the prefix of each partition's state."""

    base: int | None = None
    state: dict[str, str] = Field(default_factory=dict)


def own_prefix(generation: int) -> str:
    """Return the prefix of a generation, below the checkpoint."""
    return f"{INTERNAL_FOLDER}/g{generation}"


class BucketView(BucketFolder):
    """The checkpoint of one generation: its own objects, and the state of earlier generations.

    `root` is the root of the checkpoint for all generations.
    """

    def __init__(
        self, root: str, connection: BucketConnection, generation: int, state: Mapping[str, str]
    ) -> None:
        super().__init__(root, connection)
        self.generation = generation
        self.state = state
        self._mounts: dict[str, set[str]] = {}
        for path in state:
            parts = path.split("/")
            for depth, name in enumerate(parts):
                self._mounts.setdefault("/".join(parts[:depth]), set()).add(name)

    def below(self, folder: str) -> BucketFolder:
        return BucketFolder(f"{self.root}/{own_prefix(self.generation)}/{folder}", self.connection)

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        mounted = {(name, True) for name in self._mounts.get(folder, ())}
        return sorted({*super().entries(folder), *mounted})

    def walk_small(self) -> Iterator[str]:
        """Yield the paths of the generation's own files without the state of partitions."""
        folders = [""]
        while folders:
            at = folders.pop()
            for name, is_folder in self.entries(at):
                path = f"{at}/{name}" if at else name
                if not is_folder:
                    yield path
                elif not _PARTITION.match(path):
                    folders.append(path)

    def find_partitions(self) -> dict[str, str]:
        """Return the prefix of each partition's state, below the checkpoint."""
        own = {
            path: f"{own_prefix(self.generation)}/{path}"
            for sink in self.names("")
            for operator in self.names(f"{sink}/state")
            for part in self.names(f"{sink}/state/{operator}")
            if _PARTITION.match(path := f"{sink}/state/{operator}/{part}")
        }
        return {**own, **self.state}

    def _key(self, path: str) -> str:
        partition = "/".join(path.split("/", _DEPTH)[:_DEPTH])
        prefix = self.state.get(partition)
        if prefix is not None:
            return super()._key(prefix + path[len(partition) :])
        return super()._key(f"{own_prefix(self.generation)}/{path}".rstrip("/"))


def find_generations(files: BucketFolder, folder: str) -> list[int]:
    """Return the generations in CLAIMS or LAYOUTS, the newest last."""
    return sorted(int(name) for name in files.names(folder) if name.isdigit())


def read_layout(files: BucketFolder, generation: int) -> CheckpointLayout | None:
    """Return the layout of a generation, or None until it is complete; LostDataError if it is damaged."""
    held = files.read(f"{LAYOUTS}/{generation}")
    if held is None:
        return None
    try:
        return CheckpointLayout.model_validate_json(held)
    except ValidationError as error:
        message = f"the checkpoint {files.root} is damaged: {LAYOUTS}/{generation} is invalid: {error.errors()[0]['msg']}"
        raise LostDataError(Reason.CHECKPOINT_DAMAGED, message) from error


def view_last(files: BucketFolder) -> BucketView:
    """Return the checkpoint of the last generation with a complete layout; an empty one if there is none."""
    for generation in reversed(find_generations(files, LAYOUTS)):
        layout = read_layout(files, generation)
        if layout is not None:
            return BucketView(files.root, files.connection, generation, layout.state)
    return BucketView(files.root, files.connection, 0, {})
