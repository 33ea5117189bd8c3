"""Checks that a store can hold checkpoints: a driver's own code writes 1 MiB, reads it back and deletes it.

The store must also refuse what would let two drivers take one checkpoint. Everything happens in a folder of the check, which is removed
in the end. Messages go to the status of a StateStore, so they have no text of a server: see the folders.
"""

import contextlib
import errno
import os
import socket
from urllib.parse import urlsplit

import structlog

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import StoreCheck
from kappa_pipelines.checkpoint.fence.link_fence import LinkFence
from kappa_pipelines.checkpoint.location import Connection, open_folder
from kappa_pipelines.checkpoint.store.bucket import BucketFolder
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.checkpoint.store.hdfs import HdfsFolder
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.checkpoint.store.web_hdfs import HdfsError, PresentError
from kappa_pipelines.errors import DriverError, UnavailableError

_SIZE = 2**20
_CONNECT_SECONDS = 5.0

log = structlog.get_logger()


def check_store(root: str, name: str, connection: Connection | None) -> StoreCheck:
    """Return what is known of a store that works; UnavailableError with the cause and what to do."""
    files = open_folder(f"{root}/{name}", connection)
    try:
        if isinstance(files, HdfsFolder):
            _connect(urlsplit(root).netloc)
        files.remove("")  # left by a check that was killed
        try:
            _try_out(files)
        finally:
            with contextlib.suppress(DriverError, HdfsError):
                files.remove("")
    except DriverError as error:
        raise _explain(error) from error
    except Exception as error:
        log.exception("unexpected")
        raise _fail(f"the check ended with {type(error).__name__}; see the log of its pod") from error
    free = os.statvfs(urlsplit(root).path) if isinstance(files, LocalFolder) else None
    return StoreCheck(free_bytes=free and free.f_bavail * free.f_frsize)


def _try_out(files: Folder) -> None:
    content = os.urandom(_SIZE)
    files.write("one/file", content)
    if files.read("one/file", _SIZE + 1) != content:
        raise _fail(f"{files.root} does not hold what was written to it just before")
    if not _refuses_a_second(files):
        raise _fail(
            f"two drivers could both take a checkpoint in {files.root}: the store replaces what it must refuse"
            " to replace; use a volume with symbolic links, a bucket that honours If-None-Match, or in webUrl the"
            " namenode itself and no gateway"
        )
    files.delete("one/file")
    if files.size("one/file") is not None:
        raise _fail(f"{files.root} still has a file that was deleted just before")


def _refuses_a_second(files: Folder) -> bool:
    """Try what the fence of a checkpoint relies on, each kind of store in its own way."""
    match files:
        case BucketFolder():
            return files.create("claim", b"first") and not files.create("claim", b"second")
        case HdfsFolder():
            return _refuses_rename(files)
        case _:
            # A file in place of the older link must end what the older generation writes.
            older, newer = (LinkFence(f"{files.root}/fence", generation) for generation in (1, 2))
            older.acquire()
            older.files.write("file", b"in time")
            newer.acquire()
            with contextlib.suppress(UnavailableError):
                older.files.write("file", b"late")
            return newer.files.read("file") == b"in time"


def _refuses_rename(files: HdfsFolder) -> bool:
    try:
        files.client.make_folder(files.locate("two"))
        files.client.rename(files.locate("one"), files.locate("two"), replace=False)
    except PresentError:
        return True
    except HdfsError as error:
        raise _fail(f"{files.root}/one could not be renamed: {error}") from error
    return False


def _connect(namenode: str) -> None:
    """Check that the namenode listens where Spark connects."""
    host, _, port = namenode.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        why = error.strerror or f"no connection within {_CONNECT_SECONDS:.0f} s"
        raise _fail(f"the namenode {namenode} does not respond: {why}; correct spec.hdfs.namenode") from error


def _explain(error: DriverError) -> UnavailableError:
    """Return the reason and the remedy, where the cause is known."""
    if isinstance(error, UnavailableError) and error.reason is Reason.STORE_CHECK_FAILED:
        return error
    number = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return _fail(
            f"the volume has no room for 1 MiB ({error.message}); raise spec.pvc.size or free space",
            Reason.STORE_FULL,
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return _fail(
            f"{error.message}: uid {os.getuid()} with groups {os.getgroups()} may not do that; use a storage class that"
            " honours fsGroup, or make the volume writable for group 1000"
        )
    if "NoSuchBucket" in error.message:
        return _fail(f"{error.message}; create the bucket, or correct spec.s3", Reason.BUCKET_NOT_FOUND)
    return _fail(error.message)


def _fail(message: str, reason: Reason = Reason.STORE_CHECK_FAILED) -> UnavailableError:
    return UnavailableError(reason, message)
