"""A folder in a bucket of an S3-compatible store, read and written without the JVM.

An object appears whole or not at all. What is written once only is written with `create`, which the store itself refuses where
there is an object already. Keys come from the pod's variables, and what a store says is told without them.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from kappa_crds.buckets import DEFAULT_KEYS, BucketConnection, explain_refusal, name_key_variables
from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Counter, Digest, Folder, Listed, walk_entries
from kappa_pipelines.errors import UnavailableError

if TYPE_CHECKING:
    from obstore.store import S3Config

SCHEME = "s3a"
_BUFFER_BYTES = 8 * 2**20
"""What is smaller goes in one request, and the least part of what goes in several."""
_PAGE = 1000


class BucketFolder:
    """Objects below one prefix, by their paths below it."""

    is_linkable = True

    def __init__(self, root: str, connection: BucketConnection) -> None:
        parts = urlsplit(root)
        if parts.scheme != SCHEME:
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, f"{root} is in no bucket of S3")
        self.root = root.rstrip("/")
        self.bucket = parts.netloc
        self.connection = connection
        self._prefix = parts.path.strip("/")
        self._store = _open_store(parts.netloc, connection)

    def below(self, folder: str) -> "BucketFolder":
        """Return a folder in this one."""
        return BucketFolder(f"{SCHEME}://{self.bucket}/{self._key(folder)}", self.connection)

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, sorted, and whether each is a folder; none if there is no such folder."""
        prefix = self._key(folder)
        with self._explain("listed", folder):
            found = obstore.list_with_delimiter(self._store, prefix or None)
        folders = {_name(key) for key in found["common_prefixes"]}
        # An empty object stands for the folder itself, where Hadoop made it.
        files = {_name(each["path"]) for each in found["objects"] if each["path"] != prefix}
        return sorted((name, name in folders) for name in folders | files)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        return [name for name, _ in self.entries(folder)]

    def walk(self, folder: str) -> Iterator[str]:
        """Return the paths of all files below a folder; none if there is no such folder."""
        return walk_entries(self.entries, folder)

    def list_files(self, folder: str) -> Iterator[Listed]:
        """Yield all files below a folder; none if there is no such folder. A thousand come with each request."""
        own = self._key("")
        base = f"{own}/" if own else ""
        with self._explain("listed", folder):
            for page in obstore.list(self._store, self._key(folder) or None, chunk_size=_PAGE):
                for each in page:
                    path = each["path"].removeprefix(base)
                    yield Listed(path, each["size"], each["last_modified"].timestamp())

    def read(self, path: str) -> bytes | None:
        """Return what a file holds, or None if there is no such file."""
        with self._explain("read", path):
            try:
                return bytes(obstore.get(self._store, self._key(path)).bytes())
            except FileNotFoundError:
                return None

    def read_head(self, path: str, size: int) -> bytes | None:
        """Return the first bytes of a file, so many or all that it has; None if there is no such file."""
        try:
            return bytes(obstore.get_range(self._store, self._key(path), start=0, length=size))
        except FileNotFoundError:
            return None
        except BaseError:  # an empty object has no range, and another failure is explained there
            return (self.read(path) or b"")[:size]

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield what a file holds, in pieces."""
        with self._explain("read", path):
            for held in obstore.get(self._store, self._key(path)).stream(min_chunk_size=_BUFFER_BYTES):
                yield bytes(held)

    def size(self, path: str) -> int | None:
        """Return how many bytes a file has, or None if there is no such file."""
        with self._explain("read", path):
            try:
                return obstore.head(self._store, self._key(path))["size"]
            except FileNotFoundError:
                return None

    def digest(self, path: str) -> Digest | None:
        """Return what a file's bytes come to, or None if there is no such file."""
        return None if self.size(path) is None else Counter().exhaust(self.chunks(path))

    def write(self, path: str, held: bytes) -> None:
        """Write a file, in the place of an older one."""
        with self._explain("written", path):
            obstore.put(self._store, self._key(path), held, use_multipart=False)

    def create(self, path: str, held: bytes) -> bool:
        """Write a file where there is none, and return whether there was none: of several at once one writes it.

        An answer that was lost makes it be asked again, so the file may be there and be one's own: what it holds says so.
        """
        with self._explain("written", path):
            try:
                obstore.put(self._store, self._key(path), held, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return self.read(path) == held
            return True

    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
        """Write a file of pieces, in the place of an older one; return what they came to."""
        counter, first, size = Counter(), list[bytes](), 0
        rest = iter(counter.count(chunks))
        for held in rest:
            first.append(held)
            size += len(held)
            if size >= _BUFFER_BYTES:
                break
        with self._explain("written", path):
            if size < _BUFFER_BYTES:
                obstore.put(self._store, self._key(path), b"".join(first), use_multipart=False)
            else:
                obstore.put(self._store, self._key(path), chain(first, rest), chunk_size=_BUFFER_BYTES)
        return counter.digest

    def copy(self, path: str, to: Folder, target: str) -> Digest:
        """Copy a file, in the place of an older one; return what was copied. Within a store it does not leave it."""
        if not self._copy_within(path, to, target):
            return to.fill(target, self.chunks(path))
        copied = to.digest(target)
        if copied is None:
            said = f"{to.root}/{target} was removed while it was made"
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, said)
        return copied

    def modified(self, path: str) -> float | None:
        """Return when a file was last written, in seconds of the store's own clock; None if there is no such file."""
        with self._explain("read", path):
            try:
                return obstore.head(self._store, self._key(path))["last_modified"].timestamp()
            except FileNotFoundError:
                return None

    def move(self, path: str, target: str) -> bool:
        """Move a file to another path, in the place of an older one; return whether it was there."""
        with self._explain(f"moved to {target}", path):
            try:
                obstore.copy(self._store, self._key(path), self._key(target))
            except FileNotFoundError:
                return False
            obstore.delete(self._store, self._key(path))
            return True

    def delete(self, path: str) -> None:
        """Delete a file if it is there."""
        with self._explain("deleted", path), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, self._key(path))

    def link(self, path: str, to: Folder, target: str) -> None:
        """Copy a file that never changes, within the store where that can be."""
        if not self._copy_within(path, to, target):
            self.copy(path, to, target)

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it is there."""
        for path in list(self.walk(folder)):
            self.delete(path)

    def _copy_within(self, path: str, to: Folder, target: str) -> bool:
        if not isinstance(to, BucketFolder) or (to.bucket, to.connection) != (self.bucket, self.connection):
            return False
        with self._explain(f"copied to {to.root}", path):
            obstore.copy(self._store, self._key(path), to._key(target))
        return True

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self._prefix, path) if part)

    @contextlib.contextmanager
    def _explain(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            said = f"{self.root}/{path} could not be {verb}: no such object"
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, said) from error
        except (BaseError, OSError) as error:
            _, said = explain_refusal(str(error), _read_keys(self.connection)[1:])
            raise UnavailableError(
                Reason.CHECKPOINT_UNAVAILABLE, f"{self.root}/{path} could not be {verb}: {said}"
            ) from None


def _name(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _read_keys(connection: BucketConnection) -> list[str]:
    """Return the id and the secret from the pod's variables; what is not there is empty."""
    return [os.environ.get(name, "") for name in name_key_variables(connection.keys or DEFAULT_KEYS)]


def _open_store(bucket: str, connection: BucketConnection) -> S3Store:
    """Return the client. It looks by itself in the variables where keys are by default."""
    config: S3Config = {
        "region": connection.region,
        "virtual_hosted_style_request": not connection.path_style,
    }
    if connection.endpoint:
        config["endpoint"] = connection.endpoint
    if connection.keys:
        config["access_key_id"], config["secret_access_key"] = _read_keys(connection)
    return S3Store(
        bucket,
        config=config,
        client_options={"timeout": "60s", "connect_timeout": "5s", "allow_http": True},
    )
