"""From a URI to the files that are there: on a mounted volume or in a bucket."""

import re
from dataclasses import dataclass

from kappa_crds.buckets import BucketConnection
from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.bucket import BucketFolder
from kappa_pipelines.checkpoint.bucket_view import view_last
from kappa_pipelines.checkpoint.folder import Folder, LocalFolder
from kappa_pipelines.checkpoint.generation import FOLDER, is_local
from kappa_pipelines.errors import SpecError


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as the driver that had it last left it, and the generation of that one; 0 before there was one."""

    files: Folder
    generation: int


def open_folder(uri: str, bucket: BucketConnection | None) -> Folder:
    """Return a folder; SpecError if it is in a bucket and it is not said how that is reached."""
    return LocalFolder(uri) if is_local(uri) else open_bucket(uri, bucket)


def open_bucket(uri: str, bucket: BucketConnection | None) -> BucketFolder:
    """Return a folder in a bucket; SpecError if it is not said how that is reached."""
    if bucket is None:
        raise SpecError(Reason.INVALID_SPEC, f"{uri} is in a bucket, and it is not said how that is reached")
    return BucketFolder(uri, bucket)


def open_checkpoint(uri: str, bucket: BucketConnection | None) -> Checkpoint:
    """Return a checkpoint, as whoever has it last sees it."""
    return find_checkpoint(open_folder(uri, bucket))


def find_checkpoint(files: Folder) -> Checkpoint:
    """Return the checkpoint that is in a folder, as whoever has it last sees it."""
    if isinstance(files, BucketFolder):
        view = view_last(files)
        return Checkpoint(view, view.generation)
    links = (re.fullmatch(r"g(\d+)", name) for name in files.names(FOLDER))
    return Checkpoint(files, max((int(found[1]) for found in links if found), default=0))
