"""A folder in a bucket of an S3-compatible store.

The store writes an object as a whole. `create` is atomic: the store rejects it where the object exists. Keys come from the pod's
environment; messages do not contain them.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
import structlog
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from kappa_crds.reasons import Reason
from kappa_crds.stores import DEFAULT_KEYS, BucketConnection, name_key_variables
from kappa_pipelines.checkpoint.store.folder import Counter, Digest, Folder, Listed
from kappa_pipelines.errors import UnavailableError

if TYPE_CHECKING:
    from obstore.store import S3Config

SCHEME = "s3a"
_BUFFER_BYTES = 8 * 2**20
"""Objects up to this size take one request; it is also the minimum size of a part."""
_CHUNK_BYTES = 2**20
"""Several files are read at once."""
_PAGE = 1000
_LOGGED = 2000
_CAUSES = re.compile(
    r"<Code>(?P<code>[A-Za-z]{1,64})</Code>|non-2xx status code: (?P<status>\d{3})|HttpError \{\s+kind: (?P<kind>\w+)|(?P<other>BareRedirect)"
)
"""The parts of a client error that are reported. A server chooses none of them but the code, which is one word."""

_METADATA = "http://169.254.169.254/"
"""The metadata service of a cloud, which gives pods without keys an identity."""

log = structlog.get_logger()


class BucketFolder(Folder):
    """Objects below one prefix, by their relative paths."""

    def __init__(self, root: str, connection: BucketConnection) -> None:
        parts = urlsplit(root)
        if parts.scheme != SCHEME:
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, f"{root} is not in an S3 bucket")
        self.root = root.rstrip("/")
        self.bucket = parts.netloc
        self.connection = connection
        self._prefix = parts.path.strip("/")
        self._store = _open_store(parts.netloc, connection)

    def below(self, folder: str) -> "BucketFolder":
        return BucketFolder(f"{SCHEME}://{self.bucket}/{self._key(folder)}", self.connection)

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        prefix = self._key(folder)
        with self._explain("listed", folder):
            found = obstore.list_with_delimiter(self._store, prefix or None)
        folders = {_name(key) for key in found["common_prefixes"]}
        # Hadoop creates an empty object for the folder itself.
        files = {_name(each["path"]) for each in found["objects"] if each["path"] != prefix}
        return sorted((name, name in folders) for name in folders | files)

    def list_files(self, folder: str) -> Iterator[Listed]:
        own = self._key("")
        base = f"{own}/" if own else ""
        with self._explain("listed", folder):
            for page in obstore.list(self._store, self._key(folder) or None, chunk_size=_PAGE):
                for each in page:
                    path = each["path"].removeprefix(base)
                    yield Listed(path, each["size"], each["last_modified"].timestamp())

    def stat(self, path: str) -> Listed | None:
        try:
            found = obstore.head(self._store, self._key(path))
        except FileNotFoundError:
            return None
        except BaseError:  # the response to HEAD has no body; that to GET has the store's own code
            with self._explain("read", path):
                found = obstore.get(self._store, self._key(path)).meta
        return Listed(path, found["size"], found["last_modified"].timestamp())

    def read(self, path: str, size: int | None = None) -> bytes | None:
        with self._explain("read", path):
            try:
                if size is not None:
                    with contextlib.suppress(BaseError):  # an empty object has no range
                        return bytes(obstore.get_range(self._store, self._key(path), start=0, length=size))
                return bytes(obstore.get(self._store, self._key(path)).bytes())[:size]
            except FileNotFoundError:
                return None

    def chunks(self, path: str) -> Iterator[bytes]:
        with self._explain("read", path):
            yield from self._stream(path)

    def _stream(self, path: str) -> Iterator[bytes]:
        for held in obstore.get(self._store, self._key(path)).stream(min_chunk_size=_CHUNK_BYTES):
            yield bytes(held)

    def digest(self, path: str) -> Digest | None:
        with self._explain("read", path), contextlib.suppress(FileNotFoundError):
            return Counter().exhaust(self._stream(path))
        return None

    def create(self, path: str, held: bytes) -> bool:
        """Write a file that does not exist yet, and return whether this call created it. One of several concurrent calls does.

        The client repeats a request whose response was lost, so an existing file with this content counts as created.
        """
        with self._explain("written", path):
            try:
                obstore.put(self._store, self._key(path), held, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return self.read(path) == held
            return True

    def fill(self, path: str, chunks: Iterable[bytes]) -> Digest:
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
        if not self._copy_within(path, to, target):
            return super().copy(path, to, target)
        copied = to.digest(target)
        if copied is None:
            message = f"{to.root}/{target} was removed during the copy"
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, message)
        return copied

    def move(self, path: str, target: str) -> bool:
        with self._explain(f"moved to {target}", path):
            try:
                obstore.copy(self._store, self._key(path), self._key(target))
            except FileNotFoundError:
                return False
            obstore.delete(self._store, self._key(path))
            return True

    def delete(self, path: str) -> None:
        with self._explain("deleted", path), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._store, self._key(path))

    def link(self, path: str, to: Folder, target: str) -> None:
        if not self._copy_within(path, to, target):
            self.copy(path, to, target)

    def remove(self, folder: str) -> None:
        keys = [self._key(each.path) for each in self.list_files(folder)]
        if keys:  # a thousand by one request, of the same kind as for a single object
            with self._explain("removed", folder):
                obstore.delete(self._store, keys)

    def copies_within(self, to: Folder) -> bool:
        return isinstance(to, BucketFolder) and (to.bucket, to.connection) == (self.bucket, self.connection)

    def _copy_within(self, path: str, to: Folder, target: str) -> bool:
        if not isinstance(to, BucketFolder) or not self.copies_within(to):
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
        except (BaseError, OSError) as error:
            message = f"{self.root}/{path} could not be {verb}: {explain_refusal(error)}"
            log.warning(
                "request failed", file=f"{self.root}/{path}", error=_hide_keys(self.connection, error)
            )
            raise UnavailableError(Reason.CHECKPOINT_UNAVAILABLE, message) from None


def explain_refusal(error: Exception) -> str:
    """Return the code of the store, the HTTP status or the kind of the failure. A text of the server is only logged."""
    if _METADATA in str(error).partition(" - ")[0]:
        return "the pod has no keys and no identity of its own; set spec.s3.credentialsSecretRef"
    found = {
        key: held for each in _CAUSES.finditer(str(error)) for key, held in each.groupdict().items() if held
    }
    if "status" in found:
        return f"{found.get('code', 'the store refuses it')} (HTTP {found['status']})"
    if "other" in found:
        return "the store redirects to another region; correct spec.s3.region or spec.s3.endpoint"
    kind = found.get("kind", type(error).__name__)
    return f"the store does not respond as S3 ({kind}); check spec.s3.endpoint"


def _hide_keys(connection: BucketConnection, error: Exception) -> str:
    text = str(error)
    for key in filter(None, _read_keys(connection)[1:]):
        text = text.replace(key, "(hidden)")
    return text[:_LOGGED]


def _name(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _read_keys(connection: BucketConnection) -> list[str]:
    """Return key id and secret from the environment, or empty texts."""
    return [os.environ.get(name, "") for name in name_key_variables(connection.keys or DEFAULT_KEYS)]


def _open_store(bucket: str, connection: BucketConnection) -> S3Store:
    """Return the client. It reads the default environment variables of the keys itself."""
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
