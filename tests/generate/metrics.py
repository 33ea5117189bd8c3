"""The page of all metrics, from the declarations in the code."""

from itertools import groupby

from generate.reference import build_table
from kappa_monitoring.declared import Metric, list_metrics

_GENERATED = "<!-- Generated from the code by `make generate`; do not edit. -->"
_INTRO = """\
All metrics that the platform exports to Prometheus. Drivers serve `/metrics` over HTTPS on port 8443, the operator over HTTPS on port 8444; the pods are
annotated with `prometheus.io/scrape` and `prometheus.io/port`, and the chart creates PodMonitors if `monitoring.podMonitor.enabled` is
set. Scrape with `honorLabels: true`: the label `namespace` is that of the resource, not of the pod.

The number of series is bounded by the declared resources: each metric has one series for each Pipeline, sink, source, StateStore or
KafkaCluster in its labels. Only the leader of the operator exports metrics about resources.

A driver beside the active one of its pipeline, in a reprocessing, has the metrics of drivers with the prefix `kappa_side_run_` in place of `kappa_pipeline_`, and
with the label `role` (`shadow`, `soaking`).

Metrics of Kafka Connect and Debezium are listed with the names that `monitoring/connect-jmx.yaml` configures in the JMX exporter of Prometheus."""


def build_metrics() -> str:
    """Return the page."""
    parts = [
        _build_section(source, tuple(some))
        for source, some in groupby(list_metrics(), lambda each: each.source)
    ]
    return "\n\n".join(["# Metrics", _GENERATED, _INTRO, *parts]) + "\n"


def _build_section(source: str, metrics: tuple[Metric, ...]) -> str:
    rows = (
        (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.help)
        for each in metrics
    )
    return f"## By {source}\n\n{build_table(('Metric', 'Kind', 'Labels', 'Meaning'), rows)}"
