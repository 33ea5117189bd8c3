"""The operator's settings, read once from the environment (the chart sets it) and checked."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Settings:
    """What the chart decides. Times are seconds."""

    identity: str = "local"
    namespace: str = "kappa-system"
    watch_namespaces: tuple[str, ...] = ()
    runtime_image: str = "kappa/pipelines:dev"
    image_pull_policy: str = "IfNotPresent"
    java_options: str = ""
    resync: float = 600.0
    concurrency: int = 1000
    concurrent_changes: int = 10
    """Pipelines that are changed at the same time; others wait for their turn."""
    health_port: int = 8080
    admission_dir: str = ""
    """Folder with certificate, key and secret path of the webhook; it is not served where empty."""
    admission_port: int = 8443
    lease_name: str = "kappa-operator"
    lease_duration: float = 10.0
    lag_series: int = 10_000
    """Series of consumer lag for each KafkaCluster; above that only the most important ones are exported to Prometheus."""
    alerts_dir: str = ""
    """Folder with the token, and where there is one the certificate, of the endpoint for Alertmanager; it is not served where empty."""
    alerts_port: int = 8082
    webhook_hosts: tuple[str, ...] = ()
    """Hosts that LagPolicies may have called: `host`, `host:port` or `*.domain`; none where empty."""
    log_level: str = "INFO"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the settings from `KAPPA_*` variables; raise ValueError naming the variable that is wrong."""
        default = cls()

        def text(name: str, fallback: str) -> str:
            return environment.get(f"KAPPA_{name}", "") or fallback

        def number(name: str, fallback: float) -> float:
            raw = text(name, str(fallback))
            try:
                value = float(raw)
            except ValueError:
                raise ValueError(f"KAPPA_{name}={raw!r} is not a number") from None
            if value <= 0:
                raise ValueError(f"KAPPA_{name}={raw!r} must be greater than 0")
            return value

        return cls(
            identity=text("IDENTITY", environment.get("HOSTNAME", default.identity)),
            namespace=text("NAMESPACE", default.namespace),
            watch_namespaces=tuple(part for part in text("WATCH_NAMESPACES", "").split(",") if part),
            runtime_image=text("RUNTIME_IMAGE", default.runtime_image),
            image_pull_policy=text("IMAGE_PULL_POLICY", default.image_pull_policy),
            java_options=text("JAVA_OPTIONS", default.java_options),
            resync=number("RESYNC_SECONDS", default.resync),
            concurrency=int(number("CONCURRENCY", default.concurrency)),
            concurrent_changes=int(number("CONCURRENT_CHANGES", default.concurrent_changes)),
            health_port=int(number("HEALTH_PORT", default.health_port)),
            admission_dir=text("ADMISSION_DIR", default.admission_dir),
            admission_port=int(number("ADMISSION_PORT", default.admission_port)),
            lease_name=text("LEASE_NAME", default.lease_name),
            lease_duration=number("LEASE_SECONDS", default.lease_duration),
            lag_series=int(number("LAG_SERIES", default.lag_series)),
            alerts_dir=text("ALERTS_DIR", default.alerts_dir),
            alerts_port=int(number("ALERTS_PORT", default.alerts_port)),
            webhook_hosts=tuple(part for part in text("WEBHOOK_HOSTS", "").split(",") if part),
            log_level=text("LOG_LEVEL", default.log_level),
        )
