"""Names tie code, rules, dashboards and documents together: each one that is used is declared, and what is declared is documented."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from kappa_crds.progress import DriverState, Progress
from kappa_monitoring import REPOSITORY
from kappa_monitoring.config import Config, load_config
from kappa_monitoring.contract import check_alert, check_query
from kappa_monitoring.declared import CONNECT, list_metrics
from kappa_monitoring.errors import MonitoringError
from kappa_monitoring.promql import find_labels
from kappa_monitoring.rules import Alert, load_groups
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lag.exposition import LagCollector
from kappa_operator.telemetry.metrics import METRICS as OF_OPERATOR
from kappa_operator.telemetry.resource_metrics import ResourceCollector
from kappa_pipelines.reporting.metrics import Counts, DriverCollector
from unit.monitoring.rendered import ALERTS, load_series

SERIES = {
    "lag": ("namespace", "topic", "partition"),
    "ready": ("namespace", "kind"),
    "took_bucket": ("kind", "le"),
}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_names_only_metrics_and_labels_that_the_code_declares(alert: Alert) -> None:
    check_alert(alert, load_series())


def test_each_declared_metric_is_documented_once() -> None:
    page = (REPOSITORY / "docs" / "reference" / "metrics.md").read_text()
    assert [metric.name for metric in list_metrics() if page.count(f"| `{metric.name}` |") != 1] == []


def test_each_declared_metric_has_a_unique_name_and_a_description() -> None:
    metrics = list_metrics()
    assert len({metric.name for metric in metrics}) == len(metrics)
    assert [metric.name for metric in metrics if not metric.help.strip()] == []


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ("max by (namespace) (lag)", {"namespace"}),
        ("sum(lag) or vector(0)", set()),
        ("sum without (partition, pod, job, instance) (lag)", {"namespace", "topic"}),
        (
            "lag * on (namespace) group_left (kind) ready",
            {"namespace", "topic", "partition", "kind", "pod", "job", "instance"},
        ),
        ("sum by (namespace) (lag) > on (namespace) max by (namespace) (ready)", {"namespace"}),
        ("max by (topic, namespace) (lag) unless on (namespace) ready", {"topic", "namespace"}),
        ("histogram_quantile(0.9, sum by (kind, le) (rate(took_bucket[5m])))", {"kind"}),
        ("topk(5, sum by (topic) (lag))", {"topic"}),
    ],
)
def test_the_labels_of_a_result_are_known_from_the_query(query: str, labels: set[str]) -> None:
    assert find_labels(query, SERIES) == labels


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("rate(lagg[5m])", "lagg"),
        ('{namespace="shop"}', "without a name"),
        ('lag{group="a"}', "group"),
        ("sum by (kind) (lag)", "kind"),
        ("max by (namespace) (lag) * on (topic) ready", "topic"),
        ("lag * on (namespace) group_left (state) ready", "state"),
        ("sum by (topic) (max by (namespace) (lag))", "topic"),
    ],
)
def test_what_no_metric_has_is_refused(query: str, named: str) -> None:
    with pytest.raises(MonitoringError, match=named) as raised:
        check_query(query, {name: frozenset(labels) for name, labels in SERIES.items()}, "alert X")
    assert "alert X" in str(raised.value)


def test_a_label_that_only_a_text_uses_is_refused_where_the_result_has_it_not() -> None:
    alert = Alert(
        topic="a",
        alert="A",
        expr="max by (namespace) (lag)",
        severity="warning",
        summary="{{ $labels.topic }}",
        description="",
        runbook_url="",
    )
    with pytest.raises(MonitoringError, match="topic"):
        check_alert(alert, {name: frozenset(labels) for name, labels in SERIES.items()})


def test_a_value_that_is_missing_and_one_that_nothing_uses_are_errors() -> None:
    config = Config({"a.b": "5m", "a.c": "1"})
    assert config.fill("for <<a.b>>") == "for 5m"
    with pytest.raises(MonitoringError, match=r"a\.d"):
        config.fill("<<a.d>>")
    with pytest.raises(MonitoringError, match=r"a\.c"):
        config.check_used()
    with pytest.raises(MonitoringError, match=r"x\.y"):
        load_config(override={"x.y": "1"})


def test_a_rule_that_is_not_complete_is_refused(tmp_path: Path) -> None:
    rule = {"alert": "A", "expr": "1", "severity": "loud", "summary": "s", "description": "d"}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({"alerts": [rule]}))
    with pytest.raises(MonitoringError, match="severity"):
        load_groups(load_config(), tmp_path)
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({"alerts": [{**rule, "summery": "s"}]}))
    with pytest.raises(MonitoringError, match="summery"):
        load_groups(load_config(), tmp_path)


def find_exported() -> dict[str, tuple[str, ...]]:
    """Names and labels as the collectors make them."""
    progress = Progress(
        namespace="n",
        pipeline="p",
        revision="r",
        generation=1,
        state=DriverState.RUNNING,
        started_at=datetime.now(UTC),
    )
    collectors = [
        DriverCollector(lambda: progress, Counts, lambda: 0.0),
        ResourceCollector(ResourceCache(KIND_TABLE), lambda: True),
        LagCollector(lambda: (), 100),
    ]
    families = [family for collector in collectors for family in collector.collect()]
    return {
        family.name + ("_total" if family.type == "counter" else ""): tuple(getattr(family, "_labelnames"))  # noqa: B009
        for family in families
    }


def test_what_is_declared_is_what_is_exported_with_the_same_labels() -> None:
    """Those of Kafka Connect are compared with a real worker in tests/integration/test_cdc_monitoring.py."""
    of_operator = {metric.name for metric in OF_OPERATOR}
    declared = {
        metric.name: metric.labels
        for metric in list_metrics()
        if metric.name.removesuffix("_total") not in of_operator and metric.source != CONNECT
    }
    assert declared == find_exported()
