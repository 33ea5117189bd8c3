"""The verdict on a change that `kappa plan` makes on this machine, on Spark, without a cluster."""

from typing import Any

import pytest

from kappa_crds.revision import Revision
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.verdict import judge_change

_SOURCE = {
    "name": "clicks",
    "topic": "clicks",
    "format": {"json": {"schema": "k STRING, v INT, at TIMESTAMP"}},
    "eventTime": {"column": "at", "watermark": "1m"},
}
_COUNTED = "SELECT k, window(at, '1 minute') w, sum(v) n FROM clicks GROUP BY k, window(at, '1 minute')"


def build(sql: str = _COUNTED, modules: dict[str, str] | None = None, **view: Any) -> Revision:
    """Return the revision of a pipeline with one view, as it is on a cluster."""
    spec = {
        "sources": [_SOURCE],
        "views": [{"name": "counted", **(view or {"sql": sql})}],
        "sinks": [{"name": "log", "from": "counted", "kafka": {"topic": "counts"}}],
    }
    manifest = {"metadata": {"name": "clicks", "namespace": "shop"}, "spec": spec}
    revision = build_local_revision(
        {"apiVersion": "kappa-platform.io/v1alpha1", "kind": "Pipeline", **manifest}
    )
    there = {"spark.master": "k8s://https://kubernetes.default.svc", "spark.executor.instances": "2"}
    return revision.model_copy(
        update={"spark_conf": there, "modules": modules, "checkpoint": "file:///var/lib/kappa/state/there"}
    )


def test_another_aggregate_does_not_fit() -> None:
    verdict = judge_change(build(), build(_COUNTED.replace("sum(v)", "max(v)")))
    assert verdict.kind is VerdictKind.REPROCESS
    assert any("new aggregates" in reason for reason in verdict.reasons)


def test_a_filter_before_it_does() -> None:
    verdict = judge_change(build(), build(_COUNTED.replace("FROM clicks", "FROM clicks WHERE v > 0")))
    assert verdict.kind is VerdictKind.RESUME
    assert any("view 'counted' has changed" in reason for reason in verdict.reasons)


def test_additional_partitions_are_reported() -> None:
    more = build()
    more = more.model_copy(update={"tuning": more.tuning.model_copy(update={"shuffle_partitions": 4})})
    assert judge_change(build(), more).kind is VerdictKind.REPARTITION


def test_each_revision_is_compiled_with_its_own_modules() -> None:
    text = "def count(clicks):\n    return clicks.groupBy('k', 'at').agg({{'v': '{}'}})\n"
    view: dict[str, Any] = {"python": {"function": "counting_here:count", "reads": ["clicks"]}}
    old = build(modules={"counting_here.py": text.format("sum")}, **view)
    new = build(modules={"counting_here.py": text.format("max")}, **view)
    assert judge_change(old, old).kind is VerdictKind.RESUME
    assert judge_change(old, new).kind is VerdictKind.REPROCESS


def test_a_pipeline_that_cannot_be_compiled_here_is_reported() -> None:
    with pytest.raises(RuntimeError, match="UnknownColumn"):
        judge_change(build(), build("SELECT nothing FROM clicks"))
