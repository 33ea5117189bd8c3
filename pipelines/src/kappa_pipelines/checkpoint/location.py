"""Opens the folder, the checkpoint or the fence of a URI: on a mounted volume, in a bucket or in HDFS."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from kappa_crds.reasons import Reason
from kappa_crds.stores import SCHEME as HDFS_SCHEME
from kappa_crds.stores import BucketConnection, HdfsConnection
from kappa_pipelines.checkpoint.fence.bucket_fence import BucketFence
from kappa_pipelines.checkpoint.fence.bucket_layout import view_last
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER, Fence
from kappa_pipelines.checkpoint.fence.hdfs_fence import HdfsFence, find_owner, view_owned
from kappa_pipelines.checkpoint.fence.link_fence import LinkFence
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.checkpoint.store.hdfs import HdfsFolder
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import SpecError

Connection = BucketConnection | HdfsConnection
"""How to reach a store that is not mounted."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as its last driver left it, and the generation of that driver; 0 before the first."""

    files: Folder
    generation: int


def open_folder(uri: str, connection: Connection | None) -> Folder:
    """Return a folder; SpecError if it is not mounted and has no connection of its kind."""
    match urlsplit(uri).scheme, connection:
        case (("" | "file"), _):
            return LocalFolder(uri)
        case scheme, HdfsConnection() if scheme == HDFS_SCHEME:
            return HdfsFolder(uri, connection)
        case scheme, BucketConnection() if scheme != HDFS_SCHEME:
            return BucketFolder(uri, connection)
        case _:
            raise SpecError(
                Reason.INVALID_SPEC, f"{uri} is not mounted, and the request has no connection to its store"
            )


def build_fence(uri: str, connection: Connection | None, generation: int, sinks: Iterable[str]) -> Fence:
    """Return the fence of a checkpoint for a generation with these sinks; SpecError as for `open_folder`."""
    files = open_folder(uri, connection)
    if isinstance(files, BucketFolder):
        return BucketFence(files, generation, sinks)
    if isinstance(files, HdfsFolder):
        return HdfsFence(files, generation)
    return LinkFence(uri, generation)


def open_checkpoint(uri: str, connection: Connection | None) -> Checkpoint:
    """Return a checkpoint as its last driver sees it."""
    return find_checkpoint(open_folder(uri, connection))


def find_checkpoint(files: Folder) -> Checkpoint:
    """Return the checkpoint in a folder as its last driver sees it."""
    if isinstance(files, BucketFolder):
        view = view_last(files)
        return Checkpoint(view, view.generation)
    if isinstance(files, HdfsFolder):
        generation = find_owner(files) or 0
        return Checkpoint(view_owned(files, generation), generation)
    links = (re.fullmatch(r"g(\d+)", name) for name in files.names(INTERNAL_FOLDER))
    return Checkpoint(files, max((int(found[1]) for found in links if found), default=0))
