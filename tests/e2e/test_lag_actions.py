"""What a LagPolicy does beyond executors: larger batches after a savepoint, a webhook that is told, and producers that an alert slows down."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from e2e.installation import read_token
from e2e.place import Place
from e2e.traffic import Reader, Traffic
from kappa_crds.lagpolicy import LagPolicyStatus
from kappa_crds.lagremediation import RemediationKind, RemediationResult, RemediationStatus, Saved
from kappa_crds.lagstate import LagState
from kappa_crds.pipeline_status import PipelineState, UpgradePhase
from lab import kafka
from lab.kube import kubectl
from lab.network import NODE_IP
from monitored.alertmanager import RemedyAlerts
from monitored.kubernetes import read_authority
from monitored.loopback import LoopbackServer, QuietHandler
from platform_switch import NAMESPACE

pytestmark = [pytest.mark.timeout(1500), pytest.mark.chaos]

FEW, MORE, QUIET_SECONDS = 60, 480, 60
GOLD = f"""
apiVersion: kappa-platform.io/v1alpha1
kind: LagPolicy
metadata: {{name: gold}}
spec:
  selector: {{pipelines: {{names: [small]}}}}
  warning: {{lag: 20s, for: 5s}}
  window: 2m
  clearAfter: 20s
  unknownAfter: 1m
  remediation:
    raiseBatchLimit: {{upTo: 4000, factor: {MORE // FEW}, drainWithin: 3m, coolDown: 30s, quietFor: {QUIET_SECONDS}s}}
    webhook: {{url: "http://{NODE_IP}:%(port)d/lag", tokenSecretRef: {{name: lag-hook}}}}
"""
ALERTED = """
apiVersion: kappa-platform.io/v1alpha1
kind: LagPolicy
metadata: {name: alerted}
spec:
  selector: {groups: ["%(group)s"]}
  warning: {lag: 1h}
  clearAfter: 5s
  remediation:
    onAlerts: true
    throttleProducers: {producers: [{clientId: "%(client)s"}], bytesPerSecond: 500, quietFor: 5s, coolDown: 0s}
"""


@dataclass
class Told:
    """A server on the node's address that keeps what it is told, and by whom."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def serve(self) -> LoopbackServer:
        """Return the server, to be entered."""
        calls = self.calls

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                calls.append((self.headers["Authorization"], json.loads(body)))
                self.send_response(HTTPStatus.NO_CONTENT)
                self.end_headers()

        return LoopbackServer(Handler, NODE_IP)

    @property
    def severities(self) -> list[tuple[str, str]]:
        """Return what it was before and what it became, of each change once."""
        changes = {body["id"]: (body["before"], body["severity"]) for _, body in self.calls}
        return list(changes.values())


@dataclass(frozen=True)
class Small:
    """The pipeline with small batches, the records that come in for it, and the token of the webhook."""

    place: Place
    traffic: Traffic
    token: str

    def find_limit(self) -> int:
        """Return how many records a batch may take, as the spec has it."""
        spec = json.loads(self.place.kubectl("get", "pipeline", "small", "-o", "json"))["spec"]
        limit: int = spec["trigger"]["maxRecords"]
        return limit

    def find_remediation(self) -> RemediationStatus | None:
        """Return what was last done about batches."""
        done = self.place.policy("gold").remediations
        return next((each for each in done if each.kind is RemediationKind.RAISE_BATCH_LIMIT), None)


@pytest.fixture(scope="module")
def small(platform: None) -> Iterator[Small]:
    place, token = Place.create("acts"), uuid.uuid4().hex
    place.apply(place.render("small.yaml", token=token))
    for topic in ("events", "passed"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    topic, client = f"{place.name}-events", f"loader-{place.name}"
    with Traffic(kafka.host_bootstrap(), topic, 2, 20.0, client_id=client) as traffic:
        place.await_ready("pipeline/small")
        yield Small(place, traffic, token)
    place.empty()


def is_drained(status: LagPolicyStatus) -> bool:
    return status.state == LagState.OK.value and status.worst is not None and not status.worst.lag_records


def test_batches_grow_after_a_savepoint_shrink_again_and_a_webhook_is_notified(
    small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    place, told = small.place, Told()
    with told.serve() as server:
        place.apply(GOLD % {"port": server.port})
        place.await_health("gold", "True", 120)
        small.traffic.rate = 3.0 * FEW
        place.await_health("gold", "False", 180)
        place.wait(lambda: small.find_limit() == MORE, "the spec has larger batches", 240)
        place.await_pipeline(
            lambda status: (
                status.state == PipelineState.RUNNING
                and status.upgrade is not None
                and status.upgrade.phase is UpgradePhase.DONE
            ),
            "runs with larger batches",
            240,
            name="small",
        )
        place.await_health("gold", "True", 300)
        record = small.find_remediation()
        assert record is not None
        assert (record.before, record.wanted, record.result) == (str(FEW), str(MORE), RemediationResult.DONE)
        assert record.saved is Saved.TAKEN
        saved = place.get("Savepoint", record.savepoint or "")
        assert saved.spec.to_manifest()["cause"] == "BeforeRemediation"

        small.traffic.rate = 20.0
        place.wait(
            lambda: small.find_limit() == FEW, "the spec has small batches again", 6 * QUIET_SECONDS + 120
        )
        place.wait(lambda: told.severities[-1][1] == "None", "the webhook is told of the end", 60)
    assert told.severities == [("None", "Warning"), ("Warning", "None")]
    assert {who for who, _ in told.calls} == {f"Bearer {small.token}"}
    reasons = [reason for reason, _ in place.events("gold")]
    assert reasons.count("BatchLimitChanged") == 2
    assert reasons.count("WebhookDelivered") == 2
    place.kubectl("delete", "lagpolicy/gold", "--timeout=60s")
    with capsys.disabled():
        print(f"\n  {record.why}; {record.rates}")


def test_an_alert_of_alertmanager_slows_a_producer_down_and_its_end_lets_it_go(
    small: Small, tmp_path: Path
) -> None:
    place, traffic = small.place, small.traffic
    group = f"billing-{place.name}"
    service = ("get", "service", "kappa-operator-alerts", "-n", NAMESPACE, "-o", "jsonpath={.spec.clusterIP}")
    (tmp_path / "ca.crt").write_text(read_authority())
    host = f"kappa-operator-alerts.{NAMESPACE}.svc"
    tls = {"ca_file": str(tmp_path / "ca.crt"), "server_name": host}
    labels = {"namespace": place.name, "lagpolicy": "alerted", "severity": "critical"}
    place.apply(ALERTED % {"group": group, "client": f"loader-{place.name}"})
    traffic.rate = 100.0
    with (
        Reader(kafka.host_bootstrap(), group, f"{place.name}-events", reset="latest"),
        RemedyAlerts(tmp_path, f"https://{kubectl(*service)}/alerts", read_token(), tls) as alerts,
    ):
        place.await_health("alerted", "True", 60)
        assert traffic.throttled == 0
        alerts.tell("CheckoutSlow", labels)
        place.wait(lambda: traffic.throttled > 0, "the producer is made to wait", 90)
        status = place.policy("alerted")
        assert [alert.name for alert in status.alerts] == ["CheckoutSlow"]
        assert status.state == LagState.OK.value, "the policy itself sees nothing wrong"
        alerts.tell("CheckoutSlow", labels, over=True)
        place.wait(
            lambda: "ProducerReleased" in [reason for reason, _ in place.events("alerted")],
            "it is let go",
            120,
        )
        place.wait(lambda: traffic.waiting < 20, "what waited for the broker is sent", 120)
    assert place.policy("alerted").alerts == ()
    assert {"AlertReceived", "ProducerThrottled"} <= {reason for reason, _ in place.events("alerted")}
    place.kubectl("delete", "lagpolicy/alerted", "--timeout=60s")
