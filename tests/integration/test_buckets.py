"""Buckets of a real S3 server: what works, and what its refusals become."""

from collections.abc import Iterator
from typing import Any

import pytest

from kappa_crds.reasons import Reason
from kappa_crds.statestore import STATE_STORE
from kappa_operator.buckets import S3Buckets
from kappa_operator.errors import StoreFailure
from lab.s3 import ObjectStore


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.create_bucket("state")
        yield running


def build_store(endpoint: str, bucket: str = "state", prefix: str = "prod/kappa") -> Any:
    s3 = {"bucket": bucket, "prefix": prefix, "endpoint": endpoint}
    metadata = {"name": "s", "namespace": "shop", "uid": "u-1"}
    return STATE_STORE.parse({"metadata": metadata, "spec": {"s3": s3}})


def keys(server: ObjectStore, secret: str | None = None) -> dict[str, str]:
    return {"accessKeyId": server.access_key, "secretAccessKey": secret or server.secret_key}


@pytest.mark.parametrize("prefix", ["prod/kappa", ""])
async def test_a_bucket_is_written_read_and_left_clean(server: ObjectStore, prefix: str) -> None:
    await S3Buckets().check(build_store(server.endpoint, prefix=prefix), keys(server))
    assert [path for path in (server.folder / "state").rglob("*") if path.is_file()] == []


async def test_a_missing_bucket_is_named(server: ObjectStore) -> None:
    with pytest.raises(StoreFailure, match="there is no bucket absent at http") as failure:
        await S3Buckets().check(build_store(server.endpoint, "absent"), keys(server))
    assert failure.value.reason == Reason.BUCKET_NOT_FOUND


async def test_a_wrong_key_is_told_in_the_stores_words_and_not_repeated(server: ObjectStore) -> None:
    with pytest.raises(StoreFailure, match="SignatureDoesNotMatch") as failure:
        await S3Buckets().check(build_store(server.endpoint), keys(server, "wrong-word"))
    assert "wrong-word" not in failure.value.message


async def test_a_server_that_is_away_is_told() -> None:
    with pytest.raises(StoreFailure, match="could not be written") as failure:
        credentials = {"accessKeyId": "id", "secretAccessKey": "word"}
        await S3Buckets().check(build_store("http://127.0.0.1:1"), credentials)
    assert "127.0.0.1:1" in failure.value.message
