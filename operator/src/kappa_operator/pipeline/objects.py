"""The objects of a pipeline: account, permissions, service, revision and driver pod.

Every object is owned by the `Pipeline`, so Kubernetes removes them with it. Pods run as the restricted Pod Security
Standard requires: no root, no added capabilities, a read-only root file system. Secrets are files, never arguments; only the keys of a bucket are variables.
"""

import json
from collections.abc import Sequence
from typing import Any

from kappa_crds import GROUP
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.progress import DriverRole
from kappa_crds.quantities import parse_duration, parse_size
from kappa_crds.replay import REPLAY_VARIABLE, ReplayProfile
from kappa_crds.resource import Resource
from kappa_crds.revision import (
    BLOCK_MANAGER_PORT,
    CONTROL_PORT,
    CONTROL_TLS_PORT,
    CONTROL_TOKEN_FILE,
    DRIVER_PORT,
    EXECUTOR_TEMPLATE_KEY,
    GENERATION_ANNOTATION,
    GENERATION_VARIABLE,
    PYTHON_VARIABLE,
    REVISION_DIR,
    REVISION_KEY,
    ROLE_VARIABLE,
    RPC_SECRET_FILE,
    STANDBY_ANNOTATION,
    STANDBY_VARIABLE,
    Revision,
)
from kappa_operator.engine.actions import KeepControlSecret, Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.pod_template import PINNED_ANNOTATION, apply_template, list_pins
from kappa_operator.engine.restricted import CONTAINER_SECURITY, DEFAULT_PODS, PodOptions, build_owner
from kappa_operator.statestore.storage import Mounts, Storage, mount_secret

PipelineResource = Resource[PipelineSpec, PipelineStatus]

PIPELINE_LABEL = "kappa-platform.io/pipeline"
REVISION_LABEL = "kappa-platform.io/revision"
CONTROL_TLS = "control-tls"
"""The name of the container port with TLS, which drivers of release 0.1 do not have."""
ROLE_LABEL = "kappa-platform.io/role"
SIDE_ANNOTATION = "kappa-platform.io/side"
"""The role in which a driver was created beside the active one. Its present role is in the status."""
DRIVER_ROLE = {ROLE_LABEL: "driver"}
EXECUTOR_ROLE = {ROLE_LABEL: "executor"}
SPARK_MASTER = "k8s://https://kubernetes.default.svc"
_MASTER = {"name": "JAVA_TOOL_OPTIONS", "value": f"-Dspark.master={SPARK_MASTER}"}
"""An executor reads its secret from a file only where it knows that it runs on Kubernetes, and Spark does not pass that on before it connects."""
_RBAC = "rbac.authorization.k8s.io"


def build_labels(pipeline: str) -> dict[str, str]:
    """Return the labels of every object of the pipeline."""
    return {
        "app.kubernetes.io/name": "kappa-pipeline",
        "app.kubernetes.io/instance": pipeline,
        "app.kubernetes.io/managed-by": "kappa-operator",
        PIPELINE_LABEL: pipeline,
    }


def name_account(pipeline: str) -> str:
    """Return the name of service account, role, binding and service."""
    return f"{pipeline}-driver"


def name_driver(pipeline: str, generation: int) -> str:
    """Return the name of the driver pod of a generation. No two pods can have one name."""
    return f"{pipeline}-driver-{generation}"


def build_token_ref(resource: PipelineResource) -> ObjectRef:
    """Return the Secret with the token of the control port."""
    metadata = resource.metadata
    return ObjectRef("v1", "Secret", metadata.namespace, f"{metadata.name}-control")


def _name_rpc_secret(pipeline: str) -> str:
    return f"{pipeline}-rpc"


def build_rpc_mounts(pipeline: str) -> Mounts:
    """Return the mount of the Secret by which driver and executors authenticate each other."""
    folder, _, key = RPC_SECRET_FILE.rpartition("/")
    return mount_secret("rpc", _name_rpc_secret(pipeline), folder, [{"key": key, "path": key}])


def _build_metadata(resource: PipelineResource, name: str, **more: Any) -> Manifest:
    metadata = resource.metadata
    labels = build_labels(metadata.name) | more.pop("labels", {})
    return {
        "name": name,
        "namespace": metadata.namespace,
        "labels": labels,
        "ownerReferences": [build_owner(resource)],
        **more,
    }


def name_executor_account(resource: PipelineResource) -> str | None:
    """Return the ServiceAccount of executors: they have one only for an identity of a cloud."""
    account = resource.spec.service_account
    if account is None or not account.annotations or not has_executors(resource.spec):
        return None
    return f"{resource.metadata.name}-executor"


def build_support(resource: PipelineResource, executors: Sequence[Manifest]) -> tuple[Manifest, ...]:
    """Return what every revision of the pipeline needs: accounts, permissions and service.

    `executors` are the templates of the executors that drivers of the pipeline may create now.
    """
    name = name_account(resource.metadata.name)
    accounts = filter(None, (name, name_executor_account(resource)))
    return (
        *(_build_account(resource, account) for account in accounts),
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": _build_metadata(resource, name),
            "rules": build_driver_rules(executors),
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": _build_metadata(resource, name),
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": resource.metadata.namespace}],
        },
        build_service(resource),
    )


def _build_account(resource: PipelineResource, name: str) -> Manifest:
    account = resource.spec.service_account
    annotations = {} if account is None else account.annotations
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _build_metadata(resource, name, **({"annotations": annotations} if annotations else {})),
        "automountServiceAccountToken": False,
    }


def build_driver_rules(executors: Sequence[Manifest]) -> list[Manifest]:
    """Return the permissions of a driver: none without executors.

    Only the chart's admission policy reads the last two: who creates executors, and what those mount.
    """
    mounts = sorted({_name_executor_mounts(each) for each in executors if each})
    if not mounts:
        return []
    verbs = ["create", "get", "list", "watch", "delete", "deletecollection"]
    return [
        {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
        {"apiGroups": [GROUP], "resources": ["executors"], "verbs": ["create"]},
        {"apiGroups": [GROUP], "resources": ["executormounts"], "resourceNames": mounts, "verbs": ["use"]},
    ]


def _name_executor_mounts(template: Manifest) -> str:
    """Return the Secrets and PVCs of an executor, and what its template pins, as one name, as the admission policy computes it of a pod."""
    pinned = template["metadata"].get("annotations", {}).get(PINNED_ANNOTATION)
    volumes, (container,) = template["spec"]["volumes"], template["spec"]["containers"]
    sources = [entry["valueFrom"] for entry in container.get("env", ()) if "valueFrom" in entry]
    mounts = ",".join(
        (
            *(f"secret/{each['secret']['secretName']}" for each in volumes if "secret" in each),
            *(
                f"pvc/{each['persistentVolumeClaim']['claimName']}"
                for each in volumes
                if "persistentVolumeClaim" in each
            ),
            *(f"secret/{each['secretKeyRef']['name']}" for each in sources if "secretKeyRef" in each),
        )
    )
    return mounts if pinned is None else f"{mounts};{pinned}"


def build_service(resource: PipelineResource) -> Manifest:
    """Return the headless Service through which executors find the driver."""
    ports = {"control": CONTROL_PORT, "driver": DRIVER_PORT, "block-manager": BLOCK_MANAGER_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _build_metadata(resource, name_account(resource.metadata.name)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {PIPELINE_LABEL: resource.metadata.name, **DRIVER_ROLE},
            "ports": [{"name": name, "port": port, "targetPort": port} for name, port in ports.items()],
        },
    }


def has_executors(spec: PipelineSpec) -> bool:
    """Return whether tasks run in executor pods; without them they run in the driver."""
    return spec.resources.executors.count > 0


def build_control_secret(resource: PipelineResource) -> KeepControlSecret:
    """Return what keeps the Secret of the control port, with the certificate of this pipeline."""
    metadata = resource.metadata
    manifest = build_secret(resource, build_token_ref(resource).name)
    return KeepControlSecret(manifest, f"{metadata.name}.{metadata.namespace}.pipeline")


def build_tokens(resource: PipelineResource, revision: Revision) -> tuple[Manifest, ...]:
    """Return the Secret for Spark's RPC, with executors, without its random value."""
    if not has_executors(revision.spec):
        return ()
    return (build_secret(resource, _name_rpc_secret(resource.metadata.name)),)


def build_secret(resource: PipelineResource, name: str) -> Manifest:
    """Return a Secret of the pipeline without its random values."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _build_metadata(resource, name),
        "type": "Opaque",
    }


def build_config(resource: PipelineResource, revision: Revision) -> Manifest:
    """Return the immutable ConfigMap of a revision."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _build_metadata(resource, revision.name, labels={REVISION_LABEL: revision.name}),
        "immutable": True,
        "data": {
            REVISION_KEY: revision.to_json(),
            EXECUTOR_TEMPLATE_KEY: json.dumps(revision.executor_pod, indent=1),
        },
    }


def build_executor_affinity(pipeline: str, storage: Storage) -> Manifest:
    """Return where executors have to run: a ReadWriteOnce PVC can only be mounted on the node of the driver."""
    if storage.claim is None or storage.access == "ReadWriteMany":
        return {}
    near: Manifest = {
        "labelSelector": {"matchLabels": {PIPELINE_LABEL: pipeline, **DRIVER_ROLE}},
        "topologyKey": "kubernetes.io/hostname",
    }
    if storage.access is None:
        preferred = [{"weight": 100, "podAffinityTerm": near}]
        return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}


def build_executor_template(
    resource: PipelineResource, mounts: Mounts, affinity: Manifest, options: PodOptions
) -> Manifest:
    """Return the pod template that Spark completes for each executor; scratch space at /tmp is Spark's to add.

    `options` have the template of executors.
    """
    pipeline = resource.metadata.name
    mounts += build_rpc_mounts(pipeline)
    variables = [_MASTER, *mounts.variables]
    account = name_executor_account(resource)
    pins = ",".join(list_pins(options.template, account))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": build_labels(pipeline) | EXECUTOR_ROLE,
            **({"annotations": {PINNED_ANNOTATION: pins}} if pins else {}),
        },
        "spec": {
            **({"serviceAccountName": account} if account else {}),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": options.security,
            **({"affinity": affinity} if affinity else {}),
            "containers": [
                {
                    "name": "executor",
                    "securityContext": CONTAINER_SECURITY,
                    "volumeMounts": list(mounts.volume_mounts),
                    "env": variables,
                }
            ],
            "volumes": list(mounts.volumes),
        },
    }
    return apply_template(pod, options.template)


def build_driver(
    resource: PipelineResource,
    revision: Revision,
    mounts: Mounts,
    generation: int,
    pull_policy: str,
    *,
    standby: bool = False,
    role: DriverRole = DriverRole.ACTIVE,
    replay: ReplayProfile | None = None,
    allow_python: bool = True,
    options: PodOptions = DEFAULT_PODS,
) -> Manifest:
    """Return the driver pod of a generation of the pipeline. One in standby makes a dry run and waits until it is activated.

    Its template is that of the revision.
    """
    pipeline = resource.metadata.name
    mounts += build_rpc_mounts(pipeline) if has_executors(revision.spec) else Mounts()
    volumes = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "revision", "configMap": {"name": revision.name}},
        {"name": "control", "secret": {"secretName": build_token_ref(resource).name, "defaultMode": 0o440}},
        *mounts.volumes,
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _build_metadata(
            resource,
            name_driver(pipeline, generation),
            labels={**DRIVER_ROLE, REVISION_LABEL: revision.name},
            annotations={
                GENERATION_ANNOTATION: str(generation),
                **({STANDBY_ANNOTATION: "true"} if standby else {}),
                **({} if role is DriverRole.ACTIVE else {SIDE_ANNOTATION: role}),
                "prometheus.io/scrape": "true",
                "prometheus.io/port": str(CONTROL_TLS_PORT),
                "prometheus.io/scheme": "https",
            },
        ),
        "spec": {
            "serviceAccountName": name_account(pipeline),
            "automountServiceAccountToken": has_executors(revision.spec),
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": int(parse_duration(revision.spec.stop_timeout)) + 30,
            "securityContext": options.security,
            "containers": [
                _build_driver_container(
                    revision,
                    mounts,
                    [
                        *_build_environment(generation, standby, role, allow_python),
                        *_build_replay_environment(replay),
                    ],
                    pull_policy,
                )
            ],
            "volumes": volumes,
        },
    }
    return apply_template(pod, revision.driver_template)


def _build_replay_environment(replay: ReplayProfile | None) -> list[Manifest]:
    if replay is None:
        return []
    # A runtime of an earlier release refuses fields that it does not know.
    names = ("sinks", "archives", "start", "warms_up", "only", "executors")
    unused = {name for name in names if not getattr(replay, name)}
    value = replay.model_dump_json(exclude=unused)
    return [{"name": REPLAY_VARIABLE, "value": value}]


def _build_environment(
    generation: int, standby: bool, role: DriverRole, allow_python: bool
) -> list[Manifest]:
    return [
        {"name": GENERATION_VARIABLE, "value": str(generation)},
        *([{"name": STANDBY_VARIABLE, "value": "1"}] if standby else []),
        *([] if role is DriverRole.ACTIVE else [{"name": ROLE_VARIABLE, "value": role}]),
        *([] if allow_python else [{"name": PYTHON_VARIABLE, "value": "false"}]),
        {"name": "KAPPA_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "KAPPA_POD_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]


def _build_driver_container(
    revision: Revision, mounts: Mounts, environment: list[Manifest], pull_policy: str
) -> Manifest:
    driver = revision.spec.resources.driver
    probe = {"port": CONTROL_PORT}
    return {
        "name": "driver",
        "image": revision.image,
        "imagePullPolicy": pull_policy,
        "args": ["driver"],
        "env": [*environment, *mounts.variables],
        "ports": [
            {"name": "control", "containerPort": CONTROL_PORT},
            {"name": CONTROL_TLS, "containerPort": CONTROL_TLS_PORT},
        ],
        "resources": {
            "requests": {"cpu": driver.cpu, "memory": str(parse_size(driver.memory))},
            "limits": {"memory": str(parse_size(driver.memory))},
        },
        "securityContext": CONTAINER_SECURITY,
        "startupProbe": {
            "httpGet": {"path": "/healthz", **probe},
            "periodSeconds": 2,
            "failureThreshold": 90,
        },
        "livenessProbe": {
            "httpGet": {"path": "/healthz", **probe},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", **probe}, "periodSeconds": 2, "timeoutSeconds": 5},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - an emptyDir of its own
            {"name": "revision", "mountPath": REVISION_DIR, "readOnly": True},
            {"name": "control", "mountPath": CONTROL_TOKEN_FILE.rsplit("/", 1)[0], "readOnly": True},
            *mounts.volume_mounts,
        ],
    }
