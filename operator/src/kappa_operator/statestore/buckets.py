"""The only way to buckets of S3-compatible stores.

A check writes a small object under `<prefix>/_kappa/`, reads it back, compares and deletes it: that a bucket can be
listed does not prove that it can keep a checkpoint.
"""

import secrets
from collections.abc import Awaitable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from kappa_crds.buckets import explain_refusal
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource
from kappa_crds.statestore import S3, StateStoreSpec, StateStoreStatus
from kappa_operator.errors import StoreFailure

if TYPE_CHECKING:
    from obstore.store import S3Config

ACCESS_KEY, SECRET_KEY = "accessKeyId", "secretAccessKey"

Result = TypeVar("Result")


class S3Buckets:
    """Real buckets."""

    async def check(
        self, store: Resource[StateStoreSpec, StateStoreStatus], credentials: Mapping[str, str]
    ) -> None:
        """Write, read and delete an object; raise StoreFailure with the store's own message."""
        s3 = store.spec.s3
        if s3 is None:
            raise StoreFailure(f"StateStore {store.metadata.name} is no bucket")
        path = "/".join(part for part in (s3.prefix, "_kappa", f"check-{store.metadata.uid}") if part)
        client = _build_store(s3, credentials)
        content = secrets.token_bytes(64)
        await _attempt(s3, credentials, "written", obstore.put_async(client, path, content))
        answer = await _attempt(s3, credentials, "read", obstore.get_async(client, path))
        found = bytes(await _attempt(s3, credentials, "read", answer.bytes_async()))
        again = obstore.put_async(client, path, content, mode="create")
        refuses = await _attempt(s3, credentials, "written", _is_refused(again))
        await _attempt(s3, credentials, "deleted", obstore.delete_async(client, path))
        if not refuses:
            raise StoreFailure(
                f"bucket {s3.bucket} ignores If-None-Match: two drivers could both take a checkpoint there; use a store that has it"
            )
        if found != content:
            raise StoreFailure(
                f"bucket {s3.bucket} returned other bytes than were written just before: it is not consistent"
            )


async def _is_refused(request: Awaitable[object]) -> bool:
    """Return whether an object is not written where there is one already."""
    try:
        await request
    except AlreadyExistsError:
        return True
    return False


def _build_store(s3: S3, credentials: Mapping[str, str]) -> S3Store:
    config: S3Config = {"region": s3.region, "virtual_hosted_style_request": not s3.path_style}
    if s3.endpoint:
        config["endpoint"] = s3.endpoint
    if credentials:
        config["access_key_id"] = credentials[ACCESS_KEY]
        config["secret_access_key"] = credentials[SECRET_KEY]
    return S3Store(
        s3.bucket,
        config=config,
        client_options={"timeout": "10s", "connect_timeout": "5s", "allow_http": True},
        retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=15)},
    )


async def _attempt(s3: S3, credentials: Mapping[str, str], what: str, request: Awaitable[Result]) -> Result:
    try:
        return await request
    except (BaseError, OSError) as error:
        raise build_failure(s3, what, str(error), credentials) from None


def build_failure(s3: S3, what: str, text: str, credentials: Mapping[str, str]) -> StoreFailure:
    """Return the failure with the store's own code and message, and never a secret."""
    code, text = explain_refusal(text, credentials.values())
    where = s3.endpoint or "Amazon S3"
    if code == "NoSuchBucket":
        message = f"there is no bucket {s3.bucket} at {where}; create it ({text})"
        return StoreFailure(message, reason=Reason.BUCKET_NOT_FOUND)
    message = (
        f"an object under {s3.prefix or '/'} in bucket {s3.bucket} at {where} could not be {what}: {text}"
    )
    return StoreFailure(message)
