"""The operator's settings, read once from the environment (the chart sets it) and checked."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from pydantic import ValidationError

from kappa_crds.pod_template import NO_TEMPLATE, PodTemplate, find_reserved
from kappa_operator.engine.restricted import PodOptions

_CAPITAL = re.compile("[A-Z]")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the chart decides. The variable of a field is `KAPPA_` and its name in capitals."""

    identity: str = "local"
    namespace: str = "kappa-system"
    watch_namespaces: tuple[str, ...] = ()
    service_account: str = "kappa-operator"
    namespace_role: str = ""
    """The ClusterRole that a RoleBinding in a namespace gives the operator there; empty where it has its permissions in all that it watches."""
    runtime_image: str = "kappa/pipelines:dev"
    connect_image: str = "kappa/connect:dev"
    connect_java_options: str = ""
    connect_hosts: tuple[str, ...] = ()
    """Hosts of Kafka Connect of others that KafkaClusters may name: `host`, `host:port` or `*.domain`; none where empty."""
    operator_image: str = "kappa/operator:dev"
    """The image of the operator itself, which pods that work in a database run."""
    image_pull_policy: str = "IfNotPresent"
    java_options: str = ""
    allowed_images: tuple[str, ...] = ("*",)
    """Patterns of the images that pipelines may choose; one with `!` excludes."""
    allowed_spark_conf: tuple[str, ...] = ("*",)
    """Patterns of the settings of Spark that pipelines may choose."""
    require_restricted: bool = False
    """Whether pipelines run only in namespaces that enforce the restricted Pod Security Standard."""
    pod_template: PodTemplate = NO_TEMPLATE
    """Added to every pod that the operator creates, before the template of a pipeline."""
    allowed_volumes: tuple[str, ...] = ("emptyDir", "configMap", "downwardAPI")
    """Kinds of volumes in the templates of pipelines."""
    allowed_variable_sources: tuple[str, ...] = ("configMapKeyRef", "fieldRef")
    """Where variables in the templates of pipelines may come from, besides plain values."""
    allowed_variables: tuple[str, ...] = ("*",)
    """Patterns of the names of variables in the templates of pipelines."""
    allowed_tolerations: tuple[str, ...] = ("*", "!node-role.kubernetes.io/*")
    """Patterns of the taints that the templates of pipelines may tolerate."""
    allowed_priority_classes: tuple[str, ...] = ()
    """PriorityClasses in the templates of pipelines."""
    allowed_runtime_classes: tuple[str, ...] = ()
    """RuntimeClasses in the templates of pipelines."""
    allowed_account_annotations: tuple[str, ...] = ()
    """Patterns `key=value` of annotations of the ServiceAccounts of pipelines; {namespace} and {pipeline} are replaced."""
    pod_user: str = "1000:1000:1000"
    """Ids of the user of pods, of its group and of the group of volumes; `assigned` where the platform assigns them."""
    encrypt_local_data: bool = False
    """Whether all pipelines encrypt what Spark writes to local disks."""
    allow_python_views: bool = True
    """Whether a pipeline may have Python of its author, which runs with all that its pods can reach."""
    network_policies: str = ""
    """The fields of `engine.network.Network` as JSON; pods get no NetworkPolicies where empty."""
    resync_seconds: float = 600.0
    concurrency: int = 1000
    concurrent_changes: int = 20
    """Pipelines that are changed at the same time, half of them in one namespace; others wait for their turn."""
    health_port: int = 8080
    tls_secret: str = ""
    """Secret in which the operator keeps the certificate of its endpoints."""
    tls_dir: str = ""
    """Folder with the certificate of the endpoints, where another tool keeps it; it precedes `tls_secret`."""
    secure_metrics: bool = False
    """Whether metrics and report are served over TLS to accounts with permission; else over HTTP at the health port."""
    metrics_port: int = 8444
    admission_dir: str = ""
    """Folder with the secret path of the webhook, and where there is one its certificate; it is not served where empty."""
    admission_port: int = 8443
    admission_webhook: str = ""
    """The ValidatingWebhookConfiguration that trusts the operator's own authority."""
    lease_name: str = "kappa-operator"
    lease_seconds: float = 10.0
    lag_series: int = 10_000
    """Series of consumer lag for each KafkaCluster; above that only the most important ones are exported to Prometheus."""
    alerts_dir: str = ""
    """Folder with the token, and where there is one the certificate, of the endpoint for Alertmanager; it is not served where empty."""
    alerts_port: int = 8082
    webhook_hosts: tuple[str, ...] = ()
    """Hosts that LagPolicies may have called: `host`, `host:port` or `*.domain`; none where empty."""
    limit_topics: int = 500
    limit_pipelines: int = 200
    limit_executors: int = 1000
    limit_kafka_clusters: int = 20
    limit_state_stores: int = 50
    limit_savepoints: int = 1000
    limit_lag_policies: int = 200
    limit_cdc_sources: int = 100
    limit_reprocessings: int = 500
    """What a namespace may have; the executors are the sum over its pipelines."""
    limit_partitions: int = 1000
    """Partitions that one Topic may request."""
    limit_object_bytes: int = 128 * 1024
    """The size of a resource without its status."""
    require_opt_in: bool = True
    """Whether a Secret has to allow its use by annotation."""
    allow_clear_text: tuple[str, ...] = ()
    """Patterns of hosts that passwords, tokens and keys may be sent to without TLS."""
    log_level: str = "INFO"

    @property
    def pods(self) -> PodOptions:
        """Return what concerns all pods."""
        if self.pod_user == "assigned":
            return PodOptions(None, self.pod_template)
        user, group, volumes = map(int, self.pod_user.split(":"))
        return PodOptions((user, group, volumes), self.pod_template)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the settings from `KAPPA_*` variables; raise ValueError naming the variable that is wrong."""
        values: dict[str, Any] = {}
        if environment.get("HOSTNAME"):
            values["identity"] = environment["HOSTNAME"]
        for field in fields(cls):
            name = f"KAPPA_{field.name.upper()}"
            if environment.get(name):
                values[field.name] = _parse(name, environment[name], type(field.default))
        return cls(**values)

    def get_limit(self, name: str) -> int:
        """Return a limit by its name in the values of the chart, such as kafkaClusters."""
        limit: int = getattr(self, f"limit_{_CAPITAL.sub(_lower, name)}")
        return limit


def _lower(capital: re.Match[str]) -> str:
    return f"_{capital[0].lower()}"


def _parse(name: str, raw: str, kind: type[Any]) -> Any:
    """Return a variable as the type of its default: a list has commas, a flag is true or false, a number is greater than 0."""
    if kind is tuple:
        return tuple(part for part in raw.split(",") if part)
    if kind is str:
        return raw
    if kind is PodTemplate:
        return _parse_template(name, raw)
    if kind is bool:
        if raw not in ("true", "false"):
            raise ValueError(f"{name}={raw!r} is neither true nor false")
        return raw == "true"
    try:
        value = float(raw)
    except ValueError:
        raise ValueError(f"{name}={raw!r} is not a number") from None
    if value <= 0:
        raise ValueError(f"{name}={raw!r} must be greater than 0")
    return kind(value)


def _parse_template(name: str, raw: str) -> PodTemplate:
    try:
        template = PodTemplate.model_validate_json(raw)
    except ValidationError as error:
        raise ValueError(f"{name} is no pod template: {error}") from None
    reserved = ", ".join(find_reserved(template))
    if reserved:
        raise ValueError(f"{name} sets what the platform sets itself: {reserved}")
    return template
