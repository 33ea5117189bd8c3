"""The manifest of a savepoint, which is written last and makes it complete.

A file of a checkpoint is stored under its SHA-256, so savepoints share equal files.
"""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field, ValidationError

from kappa_crds.model import Status
from kappa_crds.reasons import Reason
from kappa_pipelines.errors import LostDataError

FORMAT = 1


class KeptFile(Status):
    """One file of the checkpoint: its path below the checkpoint's root, its size in bytes, and its SHA-256 in hexadecimal."""

    path: str
    size: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class QueryPoint(Status):
    """One query: its committed batch, and the next offsets to read of each source, topic and partition.

    `state_ids` are Spark's unique ids of the state after that batch, by operator, partition and store.
    """

    sink: str
    id: str
    batch: Annotated[int, Field(ge=0)]
    offsets: dict[str, dict[str, dict[int, int]]]
    state_ids: dict[int, tuple[tuple[str, ...], ...]] = Field(default_factory=dict)

    @property
    def state_partitions(self) -> int | None:
        """Return the number of partitions of the query's state; None where it keeps no state."""
        return next((len(partitions) for partitions in self.state_ids.values()), None)


class Manifest(Status):
    """A savepoint. `checkpoint` is its source; `created` is in seconds since 1970.

    `spec` is that of the running pipeline, for a later comparison with a changed one.
    """

    format: int = FORMAT
    name: str
    namespace: str
    pipeline: str
    revision: str
    generation: int
    created: float
    checkpoint: str
    shuffle_partitions: int
    versions: dict[str, str]
    topics: dict[str, str]
    spec: dict[str, object]
    queries: tuple[QueryPoint, ...]
    files: tuple[KeptFile, ...]

    @property
    def size(self) -> int:
        """Return the bytes of all its files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> str:
        """Return the manifest's text."""
        return self.model_dump_json(by_alias=True, indent=1)


def read_manifest(where: str, text: str) -> Manifest:
    """Return the manifest in a text; LostDataError if it is invalid."""
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "file"
        raise LostDataError(
            Reason.SAVEPOINT_DAMAGED,
            f"{where} is not a valid manifest of a savepoint: {place}: {first['msg']}",
        ) from error
    if manifest.format != FORMAT:
        raise LostDataError(
            Reason.SAVEPOINT_DAMAGED,
            f"{where} has format {manifest.format}, and this version reads format {FORMAT}; use the version that wrote it",
        )
    for file in manifest.files:
        _check_path(where, file.path)
    return manifest


def _check_path(where: str, path: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise LostDataError(
            Reason.SAVEPOINT_DAMAGED, f"{where} names a file outside its checkpoint: {path!r}"
        )
