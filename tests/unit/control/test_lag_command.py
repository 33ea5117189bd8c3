"""`kappa lag`: whom it asks, what it shows of what it is told, and how it ends for scripts."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from fakes.context import START, build_resource
from fakes.reports import FakeAsking, build_report
from kappa_crds.lagstate import LagState
from kappa_operator.cli.app import app
from kappa_operator.cli.errors import Exit
from kappa_operator.cli.lag import Bound, check_bound
from kappa_operator.cli.lag_view import build_lag_view, narrow
from kappa_operator.cli.report_read import OperatorUnavailable, Scope, read_report, request_report
from kappa_operator.errors import ApiUnavailable, KubernetesError, NotActing, NotFound, Refused
from kappa_operator.report.model import ClusterReport, LagReport, Report, Source
from unit.control.screens import render

SCOPE = Scope("shop", "kappa-system")
FAR = "https://api: services \"kappa-operator:http\" is forbidden: User \"eve\" cannot get resource \"services/proxy\""  # fmt: skip


async def no_sleep(_: float) -> None:
    """Go on at once."""


SCREEN = """\
GROUP              TOPIC      LAG  BEHIND  LOSS IN  STATE    WORST
audit              orders      7k      1h      now  Losing       1
kappa.shop.delays  flights  84.2k   1m35s    1h30m  Warning      2
secret             ?            ?       ?        ?  Unknown      -
billing            orders      12   800ms        -  OK           0
ledger             orders     ≤40      2s        -  -            0
half               orders      ≥5     ≥1s        -  -            0
undated            orders       5       ?        ?  -            0
idle               dim          0      0s        -  -            0
shop/main: sampled 12s ago
STATE -: no LagPolicy selects the group"""


def test_the_worst_is_shown_first_and_what_is_not_known_is_not_zero() -> None:
    assert render(build_lag_view(build_report(START), START)) == SCREEN


def test_wide_output_shows_the_cause_of_unknown_values() -> None:
    text = render(build_lag_view(build_report(START), START, wide=True))
    assert "the broker says NOT_LEADER_OR_FOLLOWER" in text
    assert text.splitlines()[0].split()[-4:] == ["LOST", "SEVERITY", "WHY", "UNKNOWN"]


def test_partitions_are_shown_one_by_one() -> None:
    report = narrow(build_report(START), ["billing"])
    assert render(build_lag_view(report, START, partitions=True)).splitlines()[:3] == [
        "GROUP    TOPIC   PARTITION  COMMITTED  END  LAG  BEHIND  LOSS IN  STATE",
        "billing  orders          0         90  100   10   800ms        -  OK",
        "billing  orders          1         98  100    2   100ms        -  OK",
    ]


def test_groups_and_topics_are_chosen_by_globs() -> None:
    def groups(report: Report) -> list[str]:
        return [lag.group for lag in report.clusters[0].lags]

    assert groups(narrow(build_report(START), ["kappa.*", "idle"])) == ["kappa.shop.delays", "idle"]
    assert groups(narrow(build_report(START), topics=["dim"])) == ["idle"]


def test_an_old_sample_is_marked_as_old() -> None:
    said = render(build_lag_view(build_report(START), START + timedelta(minutes=5)))
    assert "shop/main: sampled 5m12s ago: late, the interval is 30s" in said


def test_an_invisible_cluster_is_reported_with_the_reason() -> None:
    blind = ClusterReport(namespace="shop", name="main", every=30.0, at=START, failure="no broker answers")
    new = ClusterReport(namespace="shop", name="new", every=30.0)
    said = render(build_lag_view(Report(at=START, clusters=(blind, new)), START))
    assert said.splitlines() == [
        "no consumer groups found",
        "shop/main: sampling fails: no broker answers",
        "shop/new: not sampled yet; check that the KafkaCluster is Ready",
    ]


async def test_the_replica_that_acts_is_found_by_asking_again() -> None:
    asking = FakeAsking(NotActing("no"), NotActing("no"), build_report(START))
    assert await request_report(asking, replace(SCOPE, with_partitions=True), no_sleep) == build_report(START)
    service, port, path, query = asking.asked[-1]
    assert (service.kind, service.namespace, service.name, port, path) == (
        "Service", "kappa-system", "kappa-operator", "https", "/report",
    )  # fmt: skip
    assert query == {"namespace": "shop", "partitions": "true"}
    assert asking.tokens == [("kappa-operator-reader", "kappa-operator.kappa-system.svc")]
    assert asking.headers == {"Kappa-Token": "for the report"}


async def test_an_operator_without_tls_gets_no_token() -> None:
    asking = FakeAsking(build_report(START))
    asking.has_account = False
    await request_report(asking, SCOPE, no_sleep)
    assert (asking.asked[0][1], asking.headers) == ("http", {})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Refused(FAR), "get on services/proxy of https:kappa-operator:https in namespace kappa-system"),
        (NotFound("GET …: 404"), 'no operator with reports found in namespace "kappa-system"'),
        (ApiUnavailable("no endpoints available"), "the operator does not respond: no endpoints available"),
        (NotActing("no"), "the operator has no leader at the moment"),
        (ValueError("no JSON"), "it may be of another version"),
    ],
)  # fmt: skip
async def test_the_cause_of_an_unreachable_operator_is_reported(answer: Exception, said: str) -> None:
    with pytest.raises(OperatorUnavailable, match=said):
        await request_report(FakeAsking(answer), SCOPE, no_sleep)


async def test_without_the_operator_statuses_are_shown_and_time_is_unknown() -> None:
    source = {"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING"}}}
    body = build_resource(
        "Pipeline",
        "delays",
        sources=[source],
        sinks=[{"name": "o", "from": "events", "kafka": {"topic": "out"}}],
    )
    body["status"] = {
        "state": "Running",
        "sources": [{"name": "events", "topic": "in", "lag": 70}],
        "lagRecords": 70,
    }
    pair = {
        "name": "x",
        "group": "kappa.shop.delays",
        "topic": "in",
        "state": "Stalled",
        "severity": "Critical",
    }
    policy = build_resource("LagPolicy", "gold", selector={"groups": ["*"]}, warning={"lag": "60s"})
    policy["status"] = {"lagging": [pair]}
    asking = FakeAsking(Refused(FAR), resources={"Pipeline": [body], "LagPolicy": [policy]})
    report, warning = await read_report(asking, SCOPE)
    assert report.source is Source.STATUS
    assert warning is not None
    assert "services/proxy" in warning
    (lag,) = report.clusters[0].lags
    assert (lag.lag, lag.behind, lag.state) == (70, None, LagState.STALLED)
    assert render(build_lag_view(report, report.at)).splitlines() == [
        "GROUP              TOPIC  LAG  BEHIND  LOSS IN  STATE    WORST",
        "kappa.shop.delays  in      70       ?        ?  Stalled      -",
        "source: the status of Pipelines and LagPolicies, without other groups, lag in time, or age",
    ]
    assert check_bound(report, Bound(seconds=60), report.at) is Exit.UNKNOWN


async def test_without_any_access_both_missing_permissions_are_reported() -> None:
    class Locked(FakeAsking):
        async def list_objects(self, *_: object, **__: object) -> list[dict[str, Any]]:
            raise Refused("pipelines is forbidden")

    with pytest.raises(
        KubernetesError, match=r"services/proxy.* the status cannot be read either: pipelines is forbidden"
    ):
        await read_report(Locked(Refused(FAR)), SCOPE)


def only(*lags: LagReport, age: float = 1.0) -> Report:
    at = START - timedelta(seconds=age)
    return Report(
        at=START, clusters=(ClusterReport(namespace="shop", name="main", every=30.0, at=at, lags=lags),)
    )


KNOWN = LagReport(group="a", topic="t", partitions=1, lag=100, behind=30.0)


@pytest.mark.parametrize(
    ("bound", "report", "wanted", "end"),
    [
        ("60s", only(KNOWN), (), Exit.OK),
        ("10s", only(KNOWN), (), Exit.UNHEALTHY),
        ("100", only(KNOWN), (), Exit.OK),
        ("99", only(KNOWN), (), Exit.UNHEALTHY),
        ("60s", only(KNOWN, LagReport(group="b", unknown=1)), (), Exit.UNKNOWN),
        ("10s", only(KNOWN, LagReport(group="b", unknown=1)), (), Exit.UNHEALTHY),
        ("60s", only(LagReport(group="b", topic="t", lag=5, undated=1)), (), Exit.UNKNOWN),
        ("60", only(LagReport(group="b", topic="t", lag=5, undated=1)), (), Exit.OK),
        ("60s", only(), (), Exit.UNKNOWN),
        ("60s", only(KNOWN), ("a", "gone"), Exit.UNKNOWN),
        ("60s", only(KNOWN, age=3600.0), (), Exit.UNKNOWN),
        ("60s", Report(at=START), (), Exit.UNKNOWN),
    ],
)
def test_scripts_learn_whether_lag_is_over_a_bound_and_unknown_is_not_within(
    bound: str, report: Report, wanted: tuple[str, ...], end: Exit
) -> None:
    assert check_bound(report, Bound.parse(bound), START, wanted) is end


def test_a_bound_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        Bound.parse("soon")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fail-over", "soon"], "is not a duration"),
        (["--fail-over", "60s", "--watch"], "cannot be used with --watch"),
        (["--watch", "--interval", "0s"], "must be positive"),
        (["--watch", "--interval", "often"], "is not a duration"),
    ],
)
def test_invalid_options_are_refused_before_a_request(options: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["lag", *options], env={"KUBECONFIG": "/nowhere", "COLUMNS": "200"})
    assert (done.exit_code, said in done.output) == (2, True), done.output
