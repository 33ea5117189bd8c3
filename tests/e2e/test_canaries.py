"""Unique values in every Secret, which a search finds nowhere else: objects, Events, logs, processes, files, records and metrics."""

import base64
import io
import json
import re
import secrets
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from e2e.installation import read_token
from e2e.ledger import Ledger
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
_ENTERED = {("counts", "driver"), ("counts", "executor"), ("fails", "driver")}
_ENDED = (
    "container not found|not running|completed pod|stopped state|task .* not found|NotFound|exit code 137"
)
_KEYS = ("bucket access key", "bucket secret key")
_LOOK_INSIDE = """
import contextlib, json, pathlib
found = {"cmdline": "", "environ": ""}
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    for name in found:
        with contextlib.suppress(OSError):
            found[name] += (entry / name).read_bytes().replace(bytes(1), b" ").decode(errors="replace")
print(json.dumps(found))
"""
_METRICS = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
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
        name: make_canary() for name in ("kafka password", "registry password", "webhook token", _KEYS[1])
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
            "access": canaries[_KEYS[0]], "secret": canaries[_KEYS[1]],
            "bootstrap": broker.sasl_bootstrap, "endpoint": store.endpoint, "host": network.NODE_IP,
        }  # fmt: skip
        place.apply(place.render("canaries.yaml", **values))
        yield Scene(place, broker, store, canaries)
        place.empty()


def test_what_is_in_a_secret_is_nowhere_else(scene: Scene) -> None:
    place = scene.place
    live(scene)
    canaries = {**scene.canaries, **read_own_secrets(place)}
    planted = secrets.token_hex(16)
    encoded = base64.b64encode(b"x" + planted.encode()).decode()
    place.kubectl("create", "configmap", "planted", f"--from-literal=text={encoded}")
    places = gather(scene)
    names = {"log", "arguments", "environment", "metrics", "objects", "file", "topic", "report"}
    assert names <= {where.split()[0] for where in places}, "every kind of place was searched"
    assert any("savepoints" in where for where in places)
    assert search(places, {"planted": planted}) == [("planted", "objects of ConfigMap")]
    found = search(places, canaries)
    own = f"environment of ({place.name}-)?(counts|fails)-"  # the driver, or an executor
    known = {(key, where) for key, where in found if key in _KEYS and re.match(own, where)}
    assert known, (
        "keys of a bucket are variables of the pods that use it, so the search of environments works"
    )
    assert set(found) - known == set()


def live(scene: Scene) -> None:
    """Let the pipeline have state, a dead letter, a savepoint, an upgrade and a crash, and let the other one fail."""
    place, bootstrap = scene.place, scene.broker.bootstrap
    with Ledger(bootstrap, "events", "counted") as ledger:
        place.await_ready("pipeline/counts")
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce("events", b"{no json")
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
        total = place.pipeline().restarts.total
        place.kubectl("delete", "pod", place.pipeline().active.driver or "", "--grace-period=0", "--force")
        place.await_pipeline(
            lambda status: status.restarts.total > total and status.state == PipelineState.RUNNING,
            "runs again after its driver was killed",
        )
        ledger.pause()
        ledger.catch_up()
    place.wait(lambda: place.pipeline("fails").restarts.total > 0, "the other pipeline failed", 180)


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
    shown = {f"objects of {kind}": text for kind, text in group_by_kind(place.find(listed)).items()}
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
    """Return the logs of all pods, and the processes of those that run, once pods of all expected roles were entered."""
    shown: dict[str, str] = {}
    entered: set[tuple[str | None, str | None]] = set()

    def enter_all() -> bool:
        for pod in place.find("pods"):
            labels = pod["metadata"].get("labels", {})
            pipeline, role = labels.get(PIPELINE_LABEL), labels.get(ROLE_LABEL)
            with accept_end() if pipeline == "fails" else nullcontext():
                shown.update(read_log(place, pod))
                if is_running(pod):
                    shown.update(read_processes(place, pod))
                    entered.add((pipeline, role))
        return entered >= _ENTERED

    place.wait(enter_all, f"pods of {_ENTERED} run and are entered", 120)
    driver = place.pipeline().active.driver or ""
    shown[f"metrics of {driver}"] = place.kubectl("exec", driver, "--", "python3", "-c", _METRICS)
    return shown


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
    """Yield the files of checkpoints and savepoints, and what is in archives."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        content = path.read_bytes()
        yield f"file {path.relative_to(folder)}", content
        if zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for name in archive.namelist():
                    yield f"file {path.relative_to(folder)}!{name}", archive.read(name)


def read_topics(bootstrap: str) -> Iterator[tuple[str, bytes]]:
    """Yield the records of all topics, with keys and headers."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "canaries", "enable.auto.commit": False})
    for topic, metadata in consumer.list_topics(timeout=30).topics.items():
        for number in metadata.partitions:
            partition = TopicPartition(topic, number, 0)
            _, end = consumer.get_watermark_offsets(partition, timeout=30)
            consumer.assign([partition])
            yield f"topic {topic}/{number}", b"".join(read_partition(consumer, end))
    consumer.close()


def read_partition(consumer: Consumer, end: int) -> Iterator[bytes]:
    at = 0
    while at < end:
        messages = consumer.consume(1000, timeout=5.0)
        if not messages:
            return  # what is left are commit markers
        for message in messages:
            at = (message.offset() or 0) + 1
            yield repr((message.key(), message.value(), message.headers())).encode()
