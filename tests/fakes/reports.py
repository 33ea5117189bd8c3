"""A report as an operator would tell it, with every kind of trouble in it, and whom commands ask for it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from fakes.cluster import FakeCluster
from kappa_crds.lagstate import LagState, Severity
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import NotFound
from kappa_operator.report.model import (
    ClusterReport,
    LagReport,
    PartitionReport,
    PipelineReport,
    Report,
    TopicReport,
)

LAGS = (
    LagReport(group="kappa.shop.delays", topic="flights", pipeline="delays", partitions=4, lag=84_200, behind=95.0,
              loss=5400.0, state=LagState.WARNING, severity=Severity.WARNING, worst=2),
    LagReport(group="billing", topic="orders", partitions=2, lag=12, behind=0.8, state=LagState.OK, worst=0,
              by_partition=(PartitionReport(partition=0, committed=90, start=0, end=100, lag=10, behind=0.8, lost=0, state=LagState.OK),
                      PartitionReport(partition=1, committed=98, start=0, end=100, lag=2, behind=0.1, lost=0, state=LagState.OK))),
    LagReport(group="audit", topic="orders", partitions=2, lag=7000, behind=3600.0, loss=0.0, lost=250, state=LagState.LOSING,
              severity=Severity.CRITICAL, worst=1),
    LagReport(group="ledger", topic="orders", partitions=2, lag=40, behind=2.0, bound=True, worst=0),
    LagReport(group="half", topic="orders", partitions=2, lag=5, behind=1.0, unknown=1, worst=0,
              why="the broker says NOT_LEADER_OR_FOLLOWER"),
    LagReport(group="undated", topic="orders", partitions=1, lag=5, undated=1, worst=0, why="it is not known how old it is"),
    LagReport(group="secret", unknown=1, state=LagState.UNKNOWN, why="not allowed"),
    LagReport(group="idle", topic="dim", partitions=1, lag=0, behind=0.0, worst=0),
)  # fmt: skip
TOPICS = (
    TopicReport(topic="flights", partitions=4, records=1_200_000, rate=950.0),
    TopicReport(topic="orders", partitions=2, records=9000, rate=1.5),
    TopicReport(topic="dim", partitions=1, records=40, rate=0.0),
    TopicReport(topic="dark", partitions=3),
)


def build_pipelines(at: datetime) -> tuple[PipelineReport, ...]:
    """Return one that runs, one that waits for its driver, and one that is fast."""
    return (
        PipelineReport(namespace="shop", name="delays", state="Running", reason="Running", at=at - timedelta(seconds=4),
                       executors=2, batch=812, came=900.0, done=700.0, lag=84_200, batch_seconds=12.5,
                       watermark_delay=130.0, state_rows=120_000),
        PipelineReport(namespace="shop", name="fresh", state="Starting", reason="DriverStarting"),
        PipelineReport(namespace="shop", name="copy", state="Running", reason="Running", at=at - timedelta(seconds=2),
                       executors=0, batch=9, came=2000.0, done=2000.0, lag=0, batch_seconds=0.4, state_rows=0),
    )  # fmt: skip


def build_report(at: datetime) -> Report:
    """Return the report."""
    cluster = ClusterReport(
        namespace="shop", name="main", every=30.0, at=at - timedelta(seconds=12), seconds=0.4, lags=LAGS, topics=TOPICS,
    )  # fmt: skip
    return Report(at=at, replica="kappa-operator-1", clusters=(cluster,), pipelines=build_pipelines(at))


class FakeAsking(FakeCluster):
    """Answers with reports, or raises what is put in their place; `resources` are found by kind."""

    def __init__(
        self, *answers: Report | Exception, resources: Mapping[str, list[dict[str, Any]]] | None = None
    ) -> None:
        super().__init__()
        self.answers = list(answers)
        self.resources = resources or {}
        self.asked: list[tuple[ObjectRef, str, str, dict[str, str]]] = []
        self.tokens: list[tuple[str, str]] = []
        self.headers: dict[str, str] = {}
        self.has_account = True

    async def request_token(self, account: ObjectRef, audience: str, seconds: int) -> str:
        """Return a token, where there is such an account."""
        if not self.has_account:
            raise NotFound(f"{account} not found")
        self.tokens.append((account.name, audience))
        return "for the report"

    async def ask_service(
        self,
        service: ObjectRef,
        port: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the next answer; the last one again and again."""
        self.asked.append((service, port, path, dict(query or {})))
        self.headers = dict(headers or {})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer.to_manifest()

    async def list_objects(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: str = "",
    ) -> list[dict[str, Any]]:
        """Return the resources of a kind."""
        return self.resources.get(kind, [])
