"""From a URI to the files that are there: on a mounted volume, in a bucket or in HDFS."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from kappa_crds.buckets import BucketConnection
from kappa_crds.hdfs import SCHEME as HDFS_SCHEME
from kappa_crds.hdfs import HdfsConnection
from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.bucket_layout import view_last
from kappa_pipelines.checkpoint.fence.hdfs_fence import find_owner, view_owned
from kappa_pipelines.checkpoint.fence.link_fence import FOLDER, is_local
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.checkpoint.store.folder import Folder, LocalFolder
from kappa_pipelines.checkpoint.store.hdfs import HdfsFolder
from kappa_pipelines.errors import SpecError

Connection = BucketConnection | HdfsConnection
"""How a store that is mounted nowhere is reached."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as the driver that had it last left it, and the generation of that one; 0 before there was one."""

    files: Folder
    generation: int


def open_folder(uri: str, connection: Connection | None) -> Folder:
    """Return a folder; SpecError if it is mounted nowhere and it is not said how it is reached."""
    if is_local(uri):
        return LocalFolder(uri)
    return open_hdfs(uri, connection) if is_in_hdfs(uri) else open_bucket(uri, connection)


def is_in_hdfs(uri: str) -> bool:
    """Return whether a folder is in HDFS."""
    return urlsplit(uri).scheme == HDFS_SCHEME


def open_bucket(uri: str, connection: Connection | None) -> BucketFolder:
    """Return a folder in a bucket; SpecError if it is not said how that is reached."""
    if not isinstance(connection, BucketConnection):
        raise SpecError(Reason.INVALID_SPEC, f"{uri} is in a bucket, and it is not said how that is reached")
    return BucketFolder(uri, connection)


def open_hdfs(uri: str, connection: Connection | None) -> HdfsFolder:
    """Return a folder in HDFS; SpecError if it is not said how that is reached."""
    if not isinstance(connection, HdfsConnection):
        raise SpecError(Reason.INVALID_SPEC, f"{uri} is in HDFS, and it is not said how that is reached")
    return HdfsFolder(uri, connection)


def open_checkpoint(uri: str, connection: Connection | None) -> Checkpoint:
    """Return a checkpoint, as whoever has it last sees it."""
    return find_checkpoint(open_folder(uri, connection))


def find_checkpoint(files: Folder) -> Checkpoint:
    """Return the checkpoint that is in a folder, as whoever has it last sees it."""
    if isinstance(files, BucketFolder):
        view = view_last(files)
        return Checkpoint(view, view.generation)
    if isinstance(files, HdfsFolder):
        generation = find_owner(files) or 0
        return Checkpoint(view_owned(files, generation), generation)
    links = (re.fullmatch(r"g(\d+)", name) for name in files.names(FOLDER))
    return Checkpoint(files, max((int(found[1]) for found in links if found), default=0))
