"""Prometheus and Alertmanager beside the running cluster. Not in conftest, of which pytest and an import have one each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.place import Place
from kappa_monitoring.config import Config, load_config
from monitored.kubernetes import Discovery, as_prometheus, build_annotated, build_scrapes
from monitored.servers import Monitoring

BOUND = 5
"""Seconds behind from which an alert about a consumer group fires."""
# As committed but for time: what takes minutes in a fleet takes seconds here.
SHORT = {
    "rate": "10s",
    "lag.warning.seconds": str(BOUND),
    "lag.warning.for": "2s",
    "lag.stopped.window": "1h",
    "lag.policyWarning.for": "2s",
    "pipelines.crashLooping.window": "10s",
}

NOT_OF_A_PIPELINE = {
    "kappa_pipeline_savepoint_failed_timestamp_seconds": "no savepoint of it failed",
    "kappa_reprocessing": "test_reprocessing_python.py has one",
    "kappa_archive": "no Topic of it has an archive",
    "kappa_cdcsource": "it has no CDCSource",
    "kappa_pipeline_upgrade": "it was not changed, where a test runs alone",
}
"""Metrics without data where a namespace has one pipeline and its topics, and why."""


def build_config() -> Config:
    """Return the committed config with times that a test can wait for."""
    return load_config(override=SHORT)


@contextmanager
def monitored(place: Place, folder: Path) -> Iterator[Monitoring]:
    """Yield a Prometheus that finds the operator and all drivers as the chart's PodMonitors say, and as the pods' annotations do."""
    with as_prometheus(place.name, folder) as kubeconfig, Discovery(kubeconfig) as discovery:
        scrapes = [*build_scrapes(discovery), build_annotated(discovery)]
        with Monitoring(folder, scrapes, build_config(), every="2s") as monitoring:
            yield monitoring
