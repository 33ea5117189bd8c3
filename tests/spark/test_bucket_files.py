"""Files of a checkpoint in a bucket: each is written by one request, under its own name, as a whole or not at all (ADR 97)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from kappa_crds.stores import BucketConnection
from kappa_pipelines.jars import S3, fetch_jars
from kappa_pipelines.revision.settings import BUCKET_FILES, build_bucket_settings
from lab.s3 import REGION, ObjectStore

_HADOOP = "spark.hadoop."
ROOT = "viewfs://files"
"""As a driver has it: a mount table, in which all is below one prefix."""

Create = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.create_bucket("state")
        yield running


@pytest.fixture(scope="module")
def manager(spark: SparkSession, server: ObjectStore) -> Any:
    """Return the file manager that a driver has for a checkpoint in the bucket."""
    jvm: Any = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    bucket = BucketConnection(endpoint=server.endpoint, region=REGION)
    settings = BUCKET_FILES | build_bucket_settings(bucket)
    for key, value in settings.items():
        conf.set(key.removeprefix(_HADOOP), value)
    conf.set("fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider")
    conf.set("fs.s3a.access.key", server.access_key)
    conf.set("fs.s3a.secret.key", server.secret_key)
    conf.set("fs.viewfs.mounttable.files.linkFallback", "s3a://state/ck")
    conf.setClassLoader(_load_client(spark))
    name = settings["spark.sql.streaming.checkpointFileManagerClass"]
    assert name == "kappa.files.BucketFiles"
    return jvm.kappa.files.BucketFiles(jvm.org.apache.hadoop.fs.Path(ROOT), conf)


def _load_client(spark: SparkSession) -> Any:
    """Return a class loader with Hadoop's client of S3, which a session without a bucket lacks."""
    jvm: Any = spark._jvm
    jars = fetch_jars(locks=(S3,))
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, len(jars))  # type: ignore[union-attr]
    for number, jar in enumerate(jars):
        urls[number] = jvm.java.io.File(str(jar)).toURI().toURL()
    own = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.net.URLClassLoader(urls, own)


@pytest.fixture
def create(manager: Any, spark: SparkSession) -> Create:
    def create_one(name: str, held: bytes, *, replaces: bool) -> Any:
        stream = manager.createAtomic(spark._jvm.org.apache.hadoop.fs.Path(f"{ROOT}/{name}"), replaces)  # type: ignore[union-attr]
        stream.write(held)
        return stream

    return create_one


def find(server: ObjectStore, name: str) -> Path:
    return server.folder / "state" / "ck" / name


def list_since(server: ObjectStore, begin: int) -> list[tuple[str, str]]:
    return [(each.operation, each.key) for each in server.list_requests(begin)]


def test_a_file_is_there_once_it_is_closed_and_takes_one_request(create: Create, server: ObjectStore) -> None:
    begin = len(server.list_requests())
    stream = create("out/state/0/0/1_a.changelog", b"held", replaces=True)
    assert list_since(server, begin) == []
    stream.close()
    assert find(server, "out/state/0/0/1_a.changelog").read_bytes() == b"held"
    stream.close()
    stream.cancel()
    assert list_since(server, begin) == [("PutObject", "ck/out/state/0/0/1_a.changelog")]


def test_a_file_that_is_cancelled_is_never_there(create: Create, server: ObjectStore) -> None:
    begin = len(server.list_requests())
    stream = create("out/cancelled", b"half", replaces=True)
    stream.cancel()
    stream.close()
    stream.cancel()
    assert (list_since(server, begin), find(server, "out/cancelled").exists()) == ([], False)


def test_an_entry_of_a_log_is_never_replaced(create: Create, server: ObjectStore) -> None:
    """Another driver may have written it, also after this one began to."""
    create("out/offsets/0", b"first", replaces=False).close()
    with pytest.raises(Py4JJavaError, match=r"FileAlreadyExistsException: .*/out/offsets/0 already exists"):
        create("out/offsets/0", b"second", replaces=False).close()
    late = create("out/offsets/1", b"mine", replaces=False)
    create("out/offsets/1", b"theirs", replaces=False).close()
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        late.close()
    late.close()
    held = [find(server, f"out/offsets/{entry}").read_bytes() for entry in (0, 1)]
    assert held == [b"first", b"theirs"]


def test_a_file_that_may_be_replaced_is(create: Create, server: ObjectStore) -> None:
    for held in (b"first", b"second"):
        create("out/replaced", held, replaces=True).close()
        assert find(server, "out/replaced").read_bytes() == held


def test_a_store_that_refuses_fails_the_writer(create: Create, server: ObjectStore) -> None:
    stream = create("out/refused", b"held", replaces=True)
    (server.folder / "state").rename(server.folder / "away")
    try:
        with pytest.raises(Py4JJavaError, match="NoSuchBucket"):
            stream.close()
    finally:
        (server.folder / "away").rename(server.folder / "state")
    stream.close()
    assert not find(server, "out/refused").exists()
