"""Executors: a real scheduler of Spark adds and removes them as a driver does that has replayed, and refused ones are no failures (ADR 100)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from kappa_pipelines.driver.executors import find_refusal, watch_refusals
from lab.paths import REPOSITORY


@pytest.mark.chaos  # a JVM for the driver, and six for executors
def test_spark_removes_only_executors_without_a_task_and_replaces_none(tmp_path: Path) -> None:
    installed = Path(pyspark.__file__).parent
    for name in ("bin", "jars"):
        (tmp_path / name).symlink_to(installed / name)
    ended = subprocess.run(
        [sys.executable, "-m", "spark.scaling"],
        env={
            **os.environ,
            "SPARK_HOME": str(tmp_path),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(REPOSITORY / "tests"),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "three start": True,
        "a job runs": True,
        "busy ones stay": True,
        "at rest": True,
        "one is left": True,
        "none is replaced": True,
        "sum": 499500,
        "three again": True,
    }


ALLOCATOR = "org.apache.spark.scheduler.cluster.k8s.ExecutorPodsAllocator"


def test_what_the_api_server_answers_to_a_refused_executor_is_kept_for_some_seconds(
    spark: SparkSession,
) -> None:
    jvm: Any = spark._jvm
    watch_refusals(spark)
    watch_refusals(spark)
    allocator = jvm.org.slf4j.LoggerFactory.getLogger(ALLOCATOR)
    refused = jvm.java.lang.RuntimeException(
        'Message: pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2. Received status: …'
    )
    allocator.error("Cannot get the creationTimestamp of the pod", refused)
    assert find_refusal(spark) == ""
    for _ in range(2):
        allocator.error("Failed to create executor pod 7. Total failures: 1", refused)
        assert "ResourceQuota 'small' has no room: requested pods=1" in find_refusal(spark)
    assert jvm.kappa.start.Refusals.find(-1) == "", "an old answer"


def test_a_refused_executor_is_no_failed_one(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    conf = jvm.org.apache.spark.SparkConf(False)
    tracker = jvm.org.apache.spark.deploy.ExecutorFailureTracker(
        conf, jvm.org.apache.spark.util.SystemClock()
    )
    for _ in range(3):
        tracker.registerExecutorFailure()
    jvm.kappa.start.Refusals.forgetLast(tracker)
    assert tracker.numFailedExecutors() == 2
    for _ in range(3):
        jvm.kappa.start.Refusals.forgetLast(tracker)
    assert tracker.numFailedExecutors() == 0
    # The way there: Spark on Kubernetes does not run here.
    package = "org.apache.spark.scheduler.cluster.k8s"
    backend = jvm.java.lang.Class.forName(f"{package}.KubernetesClusterSchedulerBackend")
    manager = backend.getDeclaredField("lifecycleManager").getType()
    assert manager.getName() == f"{package}.ExecutorPodsLifecycleManager"
    found = {method.getName(): method.getReturnType().getName() for method in manager.getMethods()}
    assert found["failureTracker"] == "org.apache.spark.deploy.ExecutorFailureTracker"
