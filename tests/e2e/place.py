"""A namespace, and what a user does in it with kubectl. Every wait has an end, and says what it saw instead."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any, NoReturn

from typer.testing import CliRunner

from e2e.installation import name_place
from e2e.reads import list_objects, list_pods, read_resource
from e2e.screen import build_screen
from kappa_crds.conditions import Condition, find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.lagpolicy import LAG_HEALTHY, LagPolicyStatus
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource
from kappa_operator.cli.app import app
from lab import api, kube
from lab.errors import LabError
from lab.paths import KUBECONFIG

MANIFESTS = Path(__file__).with_name("manifests")
START_SECONDS = 240
"""A driver starts within 30 s where nothing else wants the processors; this is for machines where much does."""
_EVERY = 0.5
_GONE_SECONDS = 120

AnyResource = Resource[Any, Any]
_NONE_YET = Condition(
    type="Ready",
    status="Unknown",
    reason=Reason.RECONCILING,
    message="",
    last_transition_time=datetime.now(UTC),
)


class NotReachedError(AssertionError):
    """The cluster did not come to the state that was waited for."""


@dataclass(frozen=True)
class Place:
    """A namespace of a test, with the restricted Pod Security Standard enforced."""

    name: str

    @classmethod
    def create(cls, purpose: str) -> "Place":
        """Make this session's namespace for one of `installation.PURPOSES`, and let the operator act there.

        Its pods have no connection but those that NetworkPolicies of the operator admit.
        """
        place = cls(name_place(purpose))
        kube.apply([kube.namespace(place.name, "restricted"), kube.enable(place.name)])
        kube.apply([kube.deny_all(place.name)])
        return place

    def admit_egress(self, **labels: str) -> None:
        """Let pods with the labels, or all pods, connect to anything: what refuses them then is a policy of the other side."""
        spec = {"podSelector": {"matchLabels": labels}, "policyTypes": ["Egress"], "egress": [{}]}
        kube.apply([kube.network_policy(self.name, "admit-egress", spec)])

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl in the namespace; LabError with its words where it fails."""
        return kube.kubectl("-n", self.name, *arguments, stdin=stdin, timeout=timeout)

    def kappa(self, *arguments: str) -> str:
        """Run the platform's own command in this process, and return what it prints; where it fails, that is part of the error.

        A process of its own takes 0.8 s of processor time, most of it for imports.
        """
        environment = {"KUBECONFIG": str(KUBECONFIG)}
        done = CliRunner().invoke(app, [*arguments, "-n", self.name], env=environment)
        if done.exit_code != 0:
            self.fail(f"kappa {' '.join(arguments)}: {done.output}{done.exception or ''}")
        return done.stdout

    def apply(self, text: str) -> None:
        """Apply manifests on the server. What kubectl shows then has its own tests, such as `test_plan.py`."""
        api.apply(self.name, text)

    def render(self, file: str, **values: str) -> str:
        """Return a file of manifests with its placeholders filled in."""
        return Template((MANIFESTS / file).read_text()).substitute(namespace=self.name, **values)

    def patch(self, resource: str, spec: Mapping[str, Any]) -> None:
        """Change the spec of a resource."""
        self.kubectl("patch", resource, "--type=merge", "-p", json.dumps({"spec": spec}))

    def find(self, kind: str, labels: str = "", fields: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind as JSON."""
        return list_objects(self.name, kind, labels, fields)

    def find_all(self, kinds: str) -> list[dict[str, Any]]:
        """Return the objects of several kinds as JSON, as kubectl names the kinds."""
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", kinds, "-o", "json"))["items"]
        return items

    def get(self, kind: str, name: str) -> AnyResource:
        """Return one of the platform's resources."""
        found = find_kind(kind)
        return found.parse(read_resource(self.name, found.plural, name))

    def pipeline(self, name: str = "counts") -> PipelineStatus:
        """Return the status of a pipeline."""
        status = self.get("Pipeline", name).status
        assert isinstance(status, PipelineStatus)
        return status

    def policy(self, name: str) -> LagPolicyStatus:
        """Return the status of a LagPolicy."""
        status = self.get("LagPolicy", name).status
        assert isinstance(status, LagPolicyStatus)
        return status

    def ready(self, kind: str, name: str) -> Condition:
        """Return the condition Ready of a resource; one with status Unknown where there is none yet."""
        found = find_condition(self.get(kind, name).status.conditions, "Ready")
        return found or _NONE_YET

    def drivers(self) -> list[str]:
        """Return the names of the driver pods."""
        return [pod["metadata"]["name"] for pod in list_pods(self.name, "kappa-platform.io/role=driver")]

    def await_ready(self, resource: str, seconds: int = START_SECONDS) -> None:
        """Wait as a user does: `kubectl wait --for=condition=Ready`."""
        try:
            self.kubectl(
                *("wait", "--for=condition=Ready", resource, f"--timeout={seconds}s"), timeout=seconds + 10
            )
        except LabError as error:
            self.fail(str(error))

    def await_health(self, policy: str, health: str, seconds: int = 90) -> LagPolicyStatus:
        """Wait with `kubectl wait` until the condition LagHealthy of a policy is True, False or Unknown, and return its status."""
        try:
            self.kubectl(
                *("wait", f"--for=condition={LAG_HEALTHY}={health}", f"lagpolicy/{policy}"),
                f"--timeout={seconds}s", timeout=seconds + 10,
            )  # fmt: skip
        except LabError as error:
            self.fail(f"{error}\n{self.kubectl('get', 'lagpolicies', '-o', 'wide')}")
        return self.policy(policy)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and message of the Events about an object, the oldest first."""
        found = self.find("events", fields=f"involvedObject.name={name}")
        found.sort(key=lambda each: str(each["metadata"]["creationTimestamp"]))
        return [(each["reason"], each.get("message", "")) for each in found]

    def await_reason(self, kind: str, name: str, reason: str, seconds: float = 60) -> Condition:
        """Wait until the condition Ready of a resource has the reason, and return it."""
        self.wait(lambda: self.ready(kind, name).reason == reason, f"{kind} {name} is {reason}", seconds)
        return self.ready(kind, name)

    def await_message(self, kind: str, name: str, reason: str, part: str, seconds: float = 60) -> Condition:
        """Wait until the condition Ready of a resource has the reason with this part of a message, and return it.

        A condition about another resource has its reason before that resource is checked.
        """

        def has_both() -> bool:
            ready = self.ready(kind, name)
            return ready.reason == reason and part in ready.message

        self.wait(has_both, f"{kind} {name} is {reason} because of {part}", seconds)
        return self.ready(kind, name)

    def await_pipeline(
        self,
        check: Callable[[PipelineStatus], bool],
        what: str,
        seconds: float = START_SECONDS,
        name: str = "counts",
    ) -> PipelineStatus:
        """Wait until the status of a pipeline is as it should be, and return it."""
        self.wait(lambda: check(self.pipeline(name)), f"pipeline {name} {what}", seconds)
        return self.pipeline(name)

    def wait(self, check: Callable[[], bool], what: str, seconds: float) -> None:
        """Poll until it is so; NotReachedError with the whole screen if it takes too long."""
        deadline = time.monotonic() + seconds
        while not check():
            if time.monotonic() > deadline:
                self.fail(f"{what}: not so after {seconds:.0f} s")
            time.sleep(_EVERY)

    def fail(self, said: str) -> NoReturn:
        """Raise NotReachedError with what the namespace looks like."""
        raise NotReachedError(f"{said}\n{build_screen(self.name)}")

    def empty(self, *, connect: bool = False) -> None:
        """Delete policies, pipelines, savepoints and topics in the order in which they need each other; the namespace goes with the session.

        With `connect` also sources and clusters, whose workers would run until the session ends.
        """
        sources, clusters = ("cdcsources", "kafkaclusters") if connect else ("", "")
        kinds = ("lagpolicies", "pipelines", "savepoints", sources, "topics.kappa-platform.io", clusters)
        for kind in filter(None, kinds):
            self.kubectl("delete", kind, "--all", f"--timeout={_GONE_SECONDS}s", timeout=_GONE_SECONDS + 10)
