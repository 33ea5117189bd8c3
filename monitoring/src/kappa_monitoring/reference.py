"""The page of all metrics, from what the code declares."""

from itertools import groupby

from kappa_crds.reference import build_table
from kappa_monitoring.declared import Metric, list_metrics

_GENERATED = "<!-- Generated from the code by `make generate`; do not edit. -->"
_INTRO = """\
Everything that the platform exports to Prometheus. Drivers serve `/metrics` on their control port, the operator on port 8080; the pods are
annotated with `prometheus.io/scrape` and `prometheus.io/port`, and the chart makes PodMonitors where `monitoring.podMonitor.enabled` is
set. Scrape with `honorLabels: true`: the label `namespace` is that of the resource, not of the pod.

The number of series is bounded by what is declared: for each metric one for each Pipeline, sink and source, StateStore or KafkaCluster
that it has as labels. Only the replica of the operator that acts tells what it knows of resources.

What Kafka Connect and Debezium tell is not the platform's own; it is listed as `monitoring/connect-jmx.yaml` has Prometheus' JMX exporter name it."""


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
