"""A checkpoint in a bucket, as one generation of drivers has it.

    _kappa/generations/7    who asks for the checkpoint; says so if a newer one did
    _kappa/whole/7          the generation has all that it needs, and where the state is that it took over
    _kappa/g7/…             all that the driver of generation 7 writes but for such state
    _kappa/g5/out/state/0/1 the state of a partition stays where it was born: its files have names of their own, and never change

Spark is given `viewfs://g7`, a table of mounts that puts the two together. Whoever reads a checkpoint without Spark has the same
view here. See ADR 0015.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic import Field, ValidationError

from kappa_crds.buckets import BucketConnection
from kappa_crds.model import Status
from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.link_fence import FOLDER
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.errors import LostDataError

CLAIMS, LAYOUTS = f"{FOLDER}/generations", f"{FOLDER}/whole"
_PARTITION = re.compile(r"^[^/]+/state/\d+/\d+$")
_DEPTH = 4
"""How many names the path of a partition has."""


class CheckpointLayout(Status):
    """What a generation has: the one that it took over from, if any, and where the state of each partition is."""

    base: int | None = None
    state: dict[str, str] = Field(default_factory=dict)


def own_prefix(generation: int) -> str:
    """Return where a generation writes, below the checkpoint."""
    return f"{FOLDER}/g{generation}"


class BucketView(BucketFolder):
    """The checkpoint as one generation has it: its own objects, and the state that it took over.

    `root` is the checkpoint's, whatever the generation.
    """

    def __init__(
        self, root: str, connection: BucketConnection, generation: int, state: Mapping[str, str]
    ) -> None:
        super().__init__(root, connection)
        self.generation = generation
        self.state = state

    def below(self, folder: str) -> BucketFolder:
        """Return a folder in this one, which is no view any more: of what is the generation's own."""
        return BucketFolder(f"{self.root}/{own_prefix(self.generation)}/{folder}", self.connection)

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, sorted, and whether each is a folder; none if there is no such folder."""
        base = f"{folder}/" if folder else ""
        above = self.state if base.count("/") < _DEPTH else ()
        mounted = {(path[len(base) :].split("/", 1)[0], True) for path in above if path.startswith(base)}
        return sorted({*super().entries(folder), *mounted})

    def walk_small(self, folder: str = "") -> Iterator[str]:
        """Yield the paths of the generation's own files, but for the state of partitions."""
        folders = [folder]
        while folders:
            at = folders.pop()
            for name, is_folder in self.entries(at):
                path = f"{at}/{name}" if at else name
                if not is_folder:
                    yield path
                elif not _PARTITION.match(path):
                    folders.append(path)

    def find_partitions(self) -> dict[str, str]:
        """Return where the state of each partition is, below the checkpoint: what was taken over, and what was born here."""
        born = {
            path: f"{own_prefix(self.generation)}/{path}"
            for sink in self.names("")
            for operator in self.names(f"{sink}/state")
            for part in self.names(f"{sink}/state/{operator}")
            if _PARTITION.match(path := f"{sink}/state/{operator}/{part}")
        }
        return {**born, **self.state}

    def _key(self, path: str) -> str:
        partition = "/".join(path.split("/", _DEPTH)[:_DEPTH])
        home = self.state.get(partition)
        if home is not None:
            return super()._key(home + path[len(partition) :])
        return super()._key(f"{own_prefix(self.generation)}/{path}".rstrip("/"))


def find_generations(files: BucketFolder, folder: str) -> list[int]:
    """Return the generations in one of the folders above, the newest last."""
    return sorted(int(name) for name in files.names(folder) if name.isdigit())


def read_layout(files: BucketFolder, generation: int) -> CheckpointLayout | None:
    """Return what a generation has, or None before it has all of it; LostDataError if it cannot be understood."""
    held = files.read(f"{LAYOUTS}/{generation}")
    if held is None:
        return None
    try:
        return CheckpointLayout.model_validate_json(held)
    except ValidationError as error:
        said = f"the checkpoint {files.root} is damaged: {LAYOUTS}/{generation} cannot be understood: {error.errors()[0]['msg']}"
        raise LostDataError(Reason.CHECKPOINT_DAMAGED, said) from error


def view_last(files: BucketFolder) -> BucketView:
    """Return the checkpoint as the last generation has it; an empty one where there was none yet."""
    for generation in reversed(find_generations(files, LAYOUTS)):
        world = read_layout(files, generation)
        if world is not None:
            return BucketView(files.root, files.connection, generation, world.state)
    return BucketView(files.root, files.connection, 0, {})
