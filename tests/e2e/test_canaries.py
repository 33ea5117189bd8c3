"""Unique values in every Secret, which a search finds nowhere else: objects, Events, logs, processes, files, records and metrics."""

import base64
import io
import json
import re
import secrets
import struct
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyarrow import Codec

from e2e.installation import read_token
from e2e.ledger import Ledger, encode_json
from e2e.place import Place
from kappa_crds.pipeline_status import PipelineState
from kappa_crds.savepoint import SavepointStatus
from kappa_operator.pipeline.objects import PIPELINE_LABEL, ROLE_LABEL
from lab import network
from lab.broker import Broker
from lab.errors import LabError
from lab.kube import kubectl
from lab.s3 import FOR_PODS, ObjectStore
from platform_switch import NAMESPACE

pytestmark = pytest.mark.timeout(900)

_TOPICS = {"events": 2, "counted": 2, "dead": 1, "failed": 1}
_OWN = ("counts-control", "counts-rpc", "fails-control")
_ENDED = (
    "container not found|not running|completed pod|stopped state|task .* not found|NotFound|exit code 137"
)
_KEYS = ("bucket access key", "bucket secret key")
_TEMPLATE = ("variable of a template", "file of a template")
_LZ4, _RAW, _BLOCK = b"LZ4Block", 0x10, struct.Struct("<8sBiii")
_UNKNOWN = (
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\x04\x22\x4d\x18",
    b"\xff\x06\x00\x00sNaPpY",
    b"\xfd7zXZ",
    b"ZSTD",
    b"\x82SNAPPY",
)
"""How files of gzip, zstd, LZ4 frames, snappy and xz begin."""
_LOOK_INSIDE = """
import contextlib, json, pathlib
found = {"cmdline": "", "environ": ""}
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    for name in found:
        with contextlib.suppress(OSError):
            found[name] += (entry / name).read_bytes().replace(bytes(1), b" ").decode(errors="replace")
print(json.dumps(found))
"""
_METRICS = """
import contextlib, os, ssl, urllib.error, urllib.request as r
address = os.environ["KAPPA_POD_ADDRESS"]
tls = ssl.create_default_context(cafile="/etc/kappa/control/tls.crt")
tls.check_hostname = False
print(r.urlopen(f"https://{address}:8443/metrics", context=tls).read().decode())
with contextlib.suppress(urllib.error.HTTPError):
    print("in clear", r.urlopen(f"http://{address}:8080/metrics").status)
"""
"""The metrics of a driver, from the port with the certificate of its pipeline; the other port refuses them."""
_OPERATOR_METRICS = """
import ssl, sys, urllib.request as r
q = r.Request("https://127.0.0.1:8444/metrics", headers={"Authorization": "Bearer " + sys.stdin.read().strip()})
print(r.urlopen(q, context=ssl._create_unverified_context()).read().decode())
"""


@dataclass(frozen=True)
class Scene:
    """The namespace with the pipeline, its stores, and the values to search for, by what they are."""

    place: Place
    broker: Broker
    store: ObjectStore
    canaries: Mapping[str, str]


def make_canary() -> str:
    """Return a value that looks different in a URL and in base64."""
    return f"canary+{secrets.token_hex(12)}/end"


def encode(value: str) -> set[bytes]:
    """Return the forms in which a value may appear: plain, in a URL, and in base64 at each of three offsets in a longer text."""
    forms = {
        value.encode(),
        quote(value, safe="").encode(),
        quote(value).encode(),
        json.dumps(value)[1:-1].encode(),
    }
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + value.encode())
        # The first and the last characters depend on what is beside the value.
        forms.add(whole[4 if offset else 0 : -4])
    return forms


def search(places: Mapping[str, bytes], canaries: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return which value is where."""
    forms = {what: encode(value) for what, value in canaries.items()}
    return [
        (what, where)
        for where, content in places.items()
        for what, each in forms.items()
        if any(form in content for form in each)
    ]


@pytest.fixture(scope="module")
def scene(platform: None) -> Iterator[Scene]:
    canaries = {
        name: make_canary()
        for name in ("kafka password", "registry password", "webhook token", _KEYS[1], *_TEMPLATE)
    }
    canaries[_KEYS[0]] = f"canary{secrets.token_hex(8)}"
    place = Place.create("canary")
    with (
        Broker(users={"alice": canaries["kafka password"]}, address=network.NODE_IP) as broker,
        ObjectStore(address=FOR_PODS, access_key=canaries[_KEYS[0]], secret_key=canaries[_KEYS[1]]) as store,
    ):
        store.create_bucket("state")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.create_topics([NewTopic(name, n, 1) for name, n in _TOPICS.items()]).values():
            future.result()
        values = {
            "kafka": canaries["kafka password"], "registry": canaries["registry password"], "hook": canaries["webhook token"],
            "variable": canaries[_TEMPLATE[0]], "mounted": canaries[_TEMPLATE[1]],
            "access": canaries[_KEYS[0]], "secret": canaries[_KEYS[1]],
            "bootstrap": broker.sasl_bootstrap, "endpoint": store.endpoint, "host": network.NODE_IP,
        }  # fmt: skip
        place.apply(place.render("canaries.yaml", **values))
        yield Scene(place, broker, store, canaries)
        place.empty()


@pytest.mark.chaos  # three minutes; `make test` has `test_pod_security`, which looks for the log-in of a pipeline
def test_what_is_in_a_secret_is_nowhere_else(scene: Scene) -> None:
    place = scene.place
    planted = {"in base64": secrets.token_hex(16), "in state": f"{secrets.token_hex(16)}-in-state"}
    encoded = base64.b64encode(b"x" + planted["in base64"].encode()).decode()
    place.kubectl("create", "configmap", "planted", f"--from-literal=text={encoded}")
    failed = watch_failure(place)
    live(scene, planted["in state"])
    canaries = {**scene.canaries, **read_own_secrets(place)}
    places = {**failed, **gather(scene)}
    names = {"log", "arguments", "environment", "metrics", "objects", "file", "topic", "report"}
    assert names <= {where.split()[0] for where in places}, "every kind of place was searched"
    assert any("savepoints" in where for where in places)
    check_planted(search(places, planted))
    own = {*_KEYS, "variable of a template"}
    inside = f"environment of ({place.name}-)?(counts|fails)-"  # the driver, or an executor
    found = search(places, canaries)
    known = {(key, where) for key, where in found if key in own and re.match(inside, where)}
    assert {key for key, _ in known} == own, "these are variables of the pods that use them"
    assert set(found) - known == set()


def check_planted(found: list[tuple[str, str]]) -> None:
    """Check that the search decodes base64, and reads state: changelogs are compressed, tables are not."""
    assert ("in base64", "objects of ConfigMap") in found
    files = {
        PurePath(where).suffix for what, where in found if what == "in state" if where.startswith("file")
    }
    assert files >= {".changelog", ".sst"}


def watch_failure(place: Place) -> dict[str, bytes]:
    """Return processes, log and objects of a pod of the pipeline that fails, from its start to its end."""
    selector = f"{PIPELINE_LABEL}=fails"
    place.wait(lambda: any(map(is_running, place.find("pods", selector))), "the other pipeline starts", 120)
    (pod, *_) = filter(is_running, place.find("pods", selector))
    name = pod["metadata"]["name"]
    shown = read_processes(place, pod)
    log = place.kubectl("logs", "--follow", name, timeout=180)
    assert "registry" in log.lower(), "it contains why the pod ended"
    place.wait(lambda: place.pipeline("fails").restarts.total > 0, "the other pipeline failed", 60)
    shown |= {f"log of {name}": log, "objects of ended pods": place.kubectl("get", "pods", "-o", "json")}
    return {where: text.encode() for where, text in shown.items()}


def live(scene: Scene, planted: str) -> None:
    """Let the pipeline have state, a dead letter, a savepoint and an upgrade."""
    place, bootstrap = scene.place, scene.broker.bootstrap
    with Ledger(bootstrap, "events", "counted") as ledger:
        place.await_ready("pipeline/counts")
        producer = Producer({"bootstrap.servers": bootstrap})
        for record in (b"{no json", encode_json(planted, 1)):
            producer.produce("events", record)
        producer.flush(30)
        place.wait(lambda: is_taken(place), "the savepoint is taken", 120)
        before = place.pipeline().active
        place.patch("pipeline/counts", {"stopTimeout": "1m"})
        place.await_pipeline(
            lambda status: (
                status.active.revision != before.revision and status.state == PipelineState.RUNNING
            ),
            "is changed",
        )
        ledger.pause()
        ledger.catch_up()


def is_taken(place: Place) -> bool:
    status = place.get("Savepoint", "first").status
    assert isinstance(status, SavepointStatus)
    return status.taken is not None


def read_own_secrets(place: Place) -> dict[str, str]:
    """Return the values that the operator and the chart made."""
    found = {"alert token": read_token()}
    for namespace, name in (*((place.name, name) for name in _OWN), (NAMESPACE, "kappa-operator-tls")):
        data = json.loads(kubectl("get", "secret", name, "-n", namespace, "-o", "json"))["data"]
        values = {key: base64.b64decode(value).decode() for key, value in data.items()}
        found |= {
            f"{key} of {name}": pick(value)
            for key, value in values.items()
            if "CERT" not in value and len(value) > 20
        }
    return found


def pick(value: str) -> str:
    """Return a value, or a line from the middle of a private key."""
    lines = value.splitlines()
    return lines[len(lines) // 2]


def gather(scene: Scene) -> dict[str, bytes]:
    """Return the content of every place to search."""
    shown = {**gather_objects(scene.place), **gather_pods(scene.place)}
    texts = {where: text.encode() for where, text in shown.items()}
    return {**texts, **dict(read_files(scene.store.folder)), **dict(read_topics(scene.broker.bootstrap))}


def gather_objects(place: Place) -> dict[str, str]:
    """Return all objects of the namespace but Secrets, the report, and the log and metrics of the operator."""
    kinds = kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    listed = ",".join(kind for kind in kinds if kind != "secrets" and not kind.endswith("metrics.k8s.io"))
    shown = {f"objects of {kind}": text for kind, text in group_by_kind(place.find_all(listed)).items()}
    shown["report of lag"] = place.kappa("lag")
    names = kubectl(
        "get", "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=kappa-operator", "-o", "name"
    )
    for name in names.split():
        shown[f"log of {name}"] = kubectl("logs", "-n", NAMESPACE, name, "--tail=-1")
        inside = ("exec", "-n", NAMESPACE, name, "--", "python3", "-c")
        shown |= split_processes(name, kubectl(*inside, _LOOK_INSIDE))
    with reading_metrics(place) as token:
        command = ("exec", "-i", "-n", NAMESPACE, "deployment/kappa-operator", "--", "python3", "-c")
        shown["metrics of the operator"] = kubectl(*command, _OPERATOR_METRICS, stdin=token)
    return shown


def group_by_kind(objects: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    grouped: dict[str, str] = {}
    for each in objects:
        grouped[each["kind"]] = grouped.get(each["kind"], "") + json.dumps(each)
    return grouped


@contextmanager
def reading_metrics(place: Place) -> Iterator[str]:
    """Yield the token of an account that may read the metrics of the operator."""
    place.kubectl("create", "serviceaccount", "metrics")
    binding, account = f"{place.name}-metrics", f"--serviceaccount={place.name}:metrics"
    kubectl("create", "clusterrolebinding", binding, "--clusterrole=kappa-metrics-reader", account)
    try:
        yield place.kubectl("create", "token", "metrics").strip()
    finally:
        kubectl("delete", "clusterrolebinding", binding)


def gather_pods(place: Place) -> dict[str, str]:
    """Return the logs of all pods, and the processes of those that run."""
    shown: dict[str, str] = {}
    entered: set[object] = set()
    for pod in place.find("pods"):
        labels = pod["metadata"].get("labels", {})
        with accept_end() if labels.get(PIPELINE_LABEL) == "fails" else nullcontext():
            shown.update(read_log(place, pod))
            if is_running(pod):
                shown.update(read_processes(place, pod))
                entered.add((labels.get(PIPELINE_LABEL), labels.get(ROLE_LABEL)))
    assert entered >= {("counts", "driver"), ("counts", "executor")}
    driver = place.pipeline().active.driver or ""
    metrics = place.kubectl("exec", driver, "--", "python3", "-c", _METRICS)
    assert "kappa_" in metrics
    assert "in clear" not in metrics
    return {**shown, f"metrics of {driver}": metrics}


@contextmanager
def accept_end() -> Iterator[None]:
    """Let a pod end, or be deleted, after it was listed."""
    try:
        yield
    except LabError as error:
        if not re.search(_ENDED, str(error)):
            raise


def is_running(pod: Mapping[str, Any]) -> bool:
    """Return whether all containers of a pod run."""
    states = pod["status"].get("containerStatuses", [])
    return bool(states) and all("running" in each["state"] for each in states)


def read_log(place: Place, pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the log of a pod that has started."""
    name = pod["metadata"]["name"]
    if pod["status"]["phase"] == "Pending":
        return {}
    return {f"log of {name}": place.kubectl("logs", name, "--all-containers", "--tail=-1")}


def read_processes(place: Place, pod: Mapping[str, Any]) -> dict[str, str]:
    """Return arguments and environments of all processes of a pod."""
    name = pod["metadata"]["name"]
    return split_processes(name, place.kubectl("exec", name, "--", "python3", "-c", _LOOK_INSIDE))


def split_processes(name: str, text: str) -> dict[str, str]:
    found = json.loads(text)
    return {f"arguments of {name}": found["cmdline"], f"environment of {name}": found["environ"]}


def read_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of checkpoints and savepoints, and what is in archives and compressed streams."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        content, where = path.read_bytes(), f"file {path.relative_to(folder)}"
        assert not content.startswith(_UNKNOWN), f"{where} is compressed, and not decoded"
        if zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for name in archive.namelist():
                    yield f"{where}!{name}", archive.read(name)
        yield where, b"".join(unpack(content)) if content.startswith(_LZ4) else content


def unpack(content: bytes) -> Iterator[bytes]:
    """Yield the blocks of a stream of lz4-java, as Spark writes it: each has a magic, a method, its sizes and a checksum."""
    at = 0
    while at < len(content):
        magic, method, size, unpacked, _ = _BLOCK.unpack_from(content, at)
        assert magic == _LZ4
        at += _BLOCK.size
        block = content[at : at + size]
        is_raw = method & 0xF0 == _RAW
        yield block if is_raw else Codec("lz4_raw").decompress(block, unpacked, asbytes=True)
        at += size


def read_topics(bootstrap: str) -> Iterator[tuple[str, bytes]]:
    """Yield the records of all topics, with keys and headers."""
    settings = {"group.id": "canaries", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    found = consumer.list_topics(timeout=30).topics
    left = {(topic, number) for topic, metadata in found.items() for number in metadata.partitions}
    consumer.assign([TopicPartition(topic, number, 0) for topic, number in left])
    deadline = time.monotonic() + 60
    while left:
        assert time.monotonic() < deadline, f"the end of {left} was not reached"
        for message in consumer.consume(1000, timeout=1.0):
            partition = (message.topic() or "", message.partition() or 0)
            if (error := message.error()) is None:
                where = f"topic {partition[0]}/{partition[1]}/{message.offset()}"
                yield where, repr((message.key(), message.value(), message.headers())).encode()
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(partition)
    consumer.close()
