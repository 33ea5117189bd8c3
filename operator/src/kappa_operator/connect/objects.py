"""The objects of the workers of Kafka Connect: Services, a PodDisruptionBudget and a StatefulSet.

Each worker has a name of its own in DNS, by which the others forward requests to it; therefore it is a StatefulSet. Its template changes with
the spec, the image, the certificate and the Secrets of the Kafka log-in, and with nothing else: a restart interrupts connectors.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from kappa_crds.connect import ConnectWorkers
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.quantities import parse_size
from kappa_operator.connect.names import (
    CONNECT_LABEL,
    METRICS_PORT,
    REST_PORT,
    SECRETS_DIR,
    KafkaClusterResource,
    name_pod_service,
    name_rest_secret,
    name_sources_secret,
    name_workers,
)
from kappa_operator.connect.network import build_workers_policy
from kappa_operator.connect.worker import build_settings
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.network import Destination, Network
from kappa_operator.engine.pod_template import apply_template, select_template
from kappa_operator.engine.restricted import CONTAINER_SECURITY, DEFAULT_PODS, PodOptions, build_owner

ROLE_LABEL, ROLE = "kappa-platform.io/role", "connect"
CONTENT_ANNOTATION = "kappa-platform.io/content"
"""Hash of a manifest as it was applied, by which a change of it is noticed."""
SETTINGS_ANNOTATION = "kappa-platform.io/worker-settings"
SECRETS_ANNOTATION = "kappa-platform.io/secrets"
"""Fingerprint of the certificate and of the versions of Secrets, which workers read when they start."""
_SETTINGS_FILE = "worker.properties"
_TMP = "/tmp"  # noqa: S108 - an emptyDir of its own, in memory


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What workers are made with, besides the spec. `secrets` is a fingerprint, `databases` are servers that connectors read."""

    image: str
    pull_policy: str = "IfNotPresent"
    java_options: str = ""
    pods: PodOptions = DEFAULT_PODS
    network: Network | None = None
    databases: tuple[Destination, ...] = ()
    secrets: str = ""


def build_objects(
    resource: KafkaClusterResource, workers: ConnectWorkers, options: WorkerOptions
) -> tuple[Manifest, ...]:
    """Return all objects in the order in which they are applied, each with the hash of its content. The StatefulSet is the last one."""
    policies = () if options.network is None else (
        build_workers_policy(resource, options.network, options.databases),
    )  # fmt: skip
    objects = (
        *policies,
        build_service(resource),
        build_pod_service(resource),
        build_budget(resource),
        build_stateful_set(resource, workers, options),
    )
    return tuple(_mark(each) for each in objects)


def compute_content(manifest: Manifest) -> str:
    """Return a hash of a manifest."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def _mark(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    marked = {**metadata.get("annotations", {}), CONTENT_ANNOTATION: compute_content(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": marked}}


def build_labels(resource: KafkaClusterResource) -> dict[str, str]:
    """Return the labels of all objects, and of the pods."""
    return {
        "app.kubernetes.io/name": "kappa-connect",
        "app.kubernetes.io/managed-by": "kappa-operator",
        ROLE_LABEL: ROLE,
        CONNECT_LABEL: resource.metadata.name,
    }


def _build_metadata(resource: KafkaClusterResource, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": resource.metadata.namespace,
        "labels": build_labels(resource),
        "ownerReferences": [build_owner(resource)],
    }


def build_rest_secret(resource: KafkaClusterResource) -> Manifest:
    """Return the Secret of the REST API without its content."""
    metadata = _build_metadata(resource, name_rest_secret(resource))
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}


def build_service(resource: KafkaClusterResource) -> Manifest:
    """Return the Service of the workers that are ready, which the operator calls."""
    return _build_service(resource, name_workers(resource), {})


def build_pod_service(resource: KafkaClusterResource) -> Manifest:
    """Return the headless Service: a worker has a name before it is ready, as it joins the group by that name."""
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True}
    return _build_service(resource, name_pod_service(resource), headless)


def _build_service(resource: KafkaClusterResource, name: str, extra: Manifest) -> Manifest:
    ports = [{"name": "https", "port": REST_PORT, "targetPort": REST_PORT}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _build_metadata(resource, name),
        "spec": {"selector": {CONNECT_LABEL: resource.metadata.name}, "ports": ports, **extra},
    }


def build_budget(resource: KafkaClusterResource) -> Manifest:
    """Return the budget: of the workers one at a time may be evicted."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _build_metadata(resource, name_workers(resource)),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {CONNECT_LABEL: resource.metadata.name}},
        },
    }


def build_stateful_set(
    resource: KafkaClusterResource, workers: ConnectWorkers, options: WorkerOptions
) -> Manifest:
    """Return the StatefulSet. Workers need no order to start; a changed template replaces one after another, when the one before is ready."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _build_metadata(resource, name_workers(resource)),
        "spec": {
            "serviceName": name_pod_service(resource),
            "replicas": workers.replicas,
            "podManagementPolicy": "Parallel",
            "minReadySeconds": 5,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": {CONNECT_LABEL: resource.metadata.name}},
            "template": _build_template(resource, workers, options),
        },
    }


def _build_template(
    resource: KafkaClusterResource, workers: ConnectWorkers, options: WorkerOptions
) -> Manifest:
    labels = build_labels(resource)
    spread = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {CONNECT_LABEL: resource.metadata.name}},
    }  # fmt: skip
    template = select_template(options.pods.template, workers.template, None)
    is_spread = bool(template.spec.topology_spread_constraints)
    volumes = _build_volumes(resource)
    pod = {
        "metadata": {
            "labels": labels,
            "annotations": {
                SETTINGS_ANNOTATION: build_settings(resource),
                SECRETS_ANNOTATION: options.secrets,
                "prometheus.io/scrape": "true",
                "prometheus.io/port": str(METRICS_PORT),
            },
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 45,
            "securityContext": options.pods.security,
            **({} if is_spread else {"topologySpreadConstraints": [spread]}),
            "containers": [_build_container(resource, workers, options, [each["name"] for each in volumes])],
            "volumes": volumes,
        },
    }
    return apply_template(pod, template)


def _build_container(
    resource: KafkaClusterResource, workers: ConnectWorkers, options: WorkerOptions, volumes: Iterable[str]
) -> Manifest:
    host = f"$(POD_NAME).{name_pod_service(resource)}.{resource.metadata.namespace}.svc"
    memory = str(parse_size(workers.resources.memory))
    listens = {"tcpSocket": {"port": REST_PORT}}
    answers = {"exec": {"command": ["python3", "-I", "/opt/connect/rest.py"]}}
    return {
        "name": "worker",
        "image": options.image,
        "imagePullPolicy": options.pull_policy,
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "KAPPA_ADVERTISED_HOST", "value": host},
            {"name": "KAPPA_JAVA_OPTIONS", "value": options.java_options},
        ],
        "ports": [
            {"name": "https", "containerPort": REST_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "resources": {
            "requests": {"cpu": workers.resources.cpu, "memory": memory},
            "limits": {"memory": memory},
        },
        "securityContext": CONTAINER_SECURITY,
        "startupProbe": {**listens, "periodSeconds": 2, "failureThreshold": 120},
        # A worker without Kafka is not ready, and a restart would not help it.
        "livenessProbe": {**listens, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": {**answers, "periodSeconds": 5, "timeoutSeconds": 10, "failureThreshold": 2},
        "volumeMounts": [_build_mount(each) for each in volumes],
    }


def _build_mount(volume: str) -> Manifest:
    if volume == "tmp":
        return {"name": volume, "mountPath": _TMP}
    folder = volume.replace("kafka-", "kafka/")
    return {"name": volume, "mountPath": f"{SECRETS_DIR}/{folder}", "readOnly": True}


def _build_volumes(resource: KafkaClusterResource) -> list[Manifest]:
    """Return the volumes: scratch space, the settings, which are an annotation of the pod, and the Secrets, each with the keys that are needed."""
    field = {"fieldPath": f"metadata.annotations['{SETTINGS_ANNOTATION}']"}
    sources = {"secretName": name_sources_secret(resource.metadata.name), "optional": True}
    rest = ("keystore.p12", "truststore.p12", "password", "ca.crt", "tls.crt", "tls.key")
    return [
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        {"name": "connect", "downwardAPI": {"items": [{"path": _SETTINGS_FILE, "fieldRef": field}]}},
        _mount_secret("rest", name_rest_secret(resource), rest),
        {"name": "sources", "secret": {**sources, "defaultMode": 0o440}},
        *_mount_log_in(resource.spec.of_workers),
    ]


def _mount_log_in(spec: KafkaClusterSpec) -> list[Manifest]:
    volumes: list[Manifest] = []
    if spec.tls is not None and spec.tls.ca_secret_ref is not None:
        ca = spec.tls.ca_secret_ref
        volumes.append(_mount_secret("kafka-ca", ca.name, (ca.key,), "ca.crt"))
    if spec.tls is not None and spec.tls.client_secret_ref is not None:
        volumes.append(_mount_secret("kafka-client", spec.tls.client_secret_ref.name, ("tls.crt", "tls.key")))
    if spec.sasl is not None:
        name = spec.sasl.credentials_secret_ref.name
        volumes.append(_mount_secret("kafka-sasl", name, ("username", "password")))
    return volumes


def _mount_secret(volume: str, secret: str, keys: Iterable[str], path: str = "") -> Manifest:
    items = [{"key": key, "path": path or key} for key in keys]
    return {"name": volume, "secret": {"secretName": secret, "items": items, "defaultMode": 0o440}}
