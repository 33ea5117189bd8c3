"""What a node does with driver pods: runs them, lets them answer, stand by and take over, ends them when they are asked or deleted. It also does the work of savepoints' pods.

A pod that is deleted stays, marked, until the next `step`: as on a real node, it is gone only when its node says so.
`count_alive` is what the platform promises about: how many drivers could be writing at this moment.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

from fakes.cluster import Body, FakeCluster
from fakes.context import FakeDrivers, report_taken
from kappa_crds.progress import DriverExit, DriverRole, DriverState, Progress, QueryProgress
from kappa_crds.reasons import Reason
from kappa_crds.revision import GENERATION_ANNOTATION, ROLE_VARIABLE, STANDBY_ANNOTATION
from kappa_crds.savepoint_work import (
    REQUEST_ANNOTATION,
    Removal,
    SavepointTask,
    Verification,
    WorkRequest,
    WorkResult,
)
from kappa_crds.upgrade import UpgradeVerdict, VerdictKind
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.objects import DRIVER_ROLE, REVISION_LABEL
from kappa_operator.savepoint.objects import WORKER_ROLE

HELD = "test/node"
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


class FakeKubelet:
    """One node. `crash` makes the drivers that run now end with that exit at the next step, but for those that stand by.

    `verdict` is what a dry start shows, and `spoilt` how it fails where it does, as often as `spoils` says. `broken` says of a driver how it ends before
    it runs, if it does. With `work_fails` all work of savepoints' pods fails. `queries` is what a driver reports of its queries, and `replaying` whether one that starts now replays.
    `most_of_one` is how many drivers of one revision were alive at most: there are two where one runs beside the active one.
    """

    def __init__(self, cluster: FakeCluster, drivers: FakeDrivers) -> None:
        self._cluster = cluster
        self._drivers = drivers
        self.crash: DriverExit | None = None
        self.work_fails: DriverExit | None = None
        self.when_work_begins: Callable[[FakeCluster], None] = lambda cluster: None
        self.verdict: UpgradeVerdict | None = UpgradeVerdict(kind=VerdictKind.RESUME)
        self.spoilt: DriverExit | None = None
        self.spoils = 1000
        self.broken: Callable[[Body], DriverExit | None] = lambda pod: None
        self.most_alive = 0
        self.most_of_one = 0
        self.queries: Callable[[Body], tuple[QueryProgress, ...]] = lambda pod: ()
        self.replaying = False
        self.made: list[str] = []

    def watch(self) -> None:
        """Hold each new driver pod until the node has ended it, and count those that are alive."""
        self._cluster.subscribe(self._note)

    def _note(self, event: str, body: Body) -> None:
        if event == "ADDED" and WORKER_ROLE.items() <= body["metadata"].get("labels", {}).items():
            self.when_work_begins(self._cluster)
        if not is_driver(body) or event != "ADDED":
            return
        self.made.append(body["metadata"]["name"])
        self._cluster.patch(ObjectRef.of(body), metadata={"finalizers": [HELD]})
        self._count()

    def count_alive(self) -> int:
        """Return the driver pods that have not ended, without those that stand by."""
        return sum(1 for pod in self.find_pods() if not has_ended(pod) and not self._stands_by(pod))

    def _count(self) -> None:
        self.most_alive = max(self.most_alive, self.count_alive())
        alive = (pod for pod in self.find_pods() if not has_ended(pod) and not self._stands_by(pod))
        revisions = Counter(pod["metadata"]["labels"].get(REVISION_LABEL) for pod in alive)
        self.most_of_one = max(self.most_of_one, *revisions.values(), 0)

    def _stands_by(self, pod: Body) -> bool:
        is_standby = STANDBY_ANNOTATION in pod["metadata"].get("annotations", {})
        return is_standby and find_address(pod) not in self._drivers.activated

    def find_pods(self) -> list[Body]:
        """Return all driver pods."""
        return self._cluster.find("v1", "Pod", labels=DRIVER_ROLE)

    def step(self) -> bool:
        """Bring every pod one step further; return whether anything changed."""
        changed = [self._advance(pod) for pod in self.find_pods()]
        changed += [self._work(pod) for pod in self._cluster.find("v1", "Pod", labels=WORKER_ROLE)]
        self.crash = None
        return any(changed)

    def _advance(self, pod: Body) -> bool:
        ref, metadata = ObjectRef.of(pod), pod["metadata"]
        address = find_address(pod)
        if "deletionTimestamp" in metadata:
            self._drivers.progress.pop(address, None)
            self._cluster.patch(ref, metadata={"finalizers": []})
            return True
        if has_ended(pod):
            return False
        if "status" not in pod:
            self._start(ref, pod, address, self._begin(pod))
            return True
        if address in self._drivers.stopped:
            stopped = DriverExit(reason=Reason.DRIVER_STOPPED, message="stopped after batch 7", graceful=True)
            return self._end(ref, address, stopped)
        if self._stands_by(pod):
            return self._spoil(ref, address)
        if (end := self.broken(pod)) is not None:
            return self._end(ref, address, end)
        if self._drivers.progress[address].state is not DriverState.RUNNING:
            self._take_over(address)
            return True
        if self.crash is not None:
            return self._end(ref, address, self.crash)
        return False

    def _spoil(self, ref: ObjectRef, address: str) -> bool:
        if self.spoilt is None:
            return False
        end, self.spoils = self.spoilt, self.spoils - 1
        self.spoilt = end if self.spoils > 0 else None
        return self._end(ref, address, end)

    def _work(self, pod: Body) -> bool:
        """Let a worker pod start, and at the next step end with its work done."""
        if has_ended(pod):
            return False
        ref = ObjectRef.of(pod)
        if "status" not in pod:
            self._cluster.patch(ref, status={"phase": "Running"})
            return True
        request = WorkRequest.model_validate_json(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
        state = {
            "terminated": {"exitCode": 0, "message": self._answer(request).model_dump_json(by_alias=True)}
        }
        ended = [{"name": "savepoint", "ready": False, "state": state}]
        self._cluster.patch(ref, status={"phase": "Succeeded", "containerStatuses": ended})
        return True

    def _answer(self, request: WorkRequest) -> WorkResult:
        if self.work_fails is not None:
            return WorkResult(failure=self.work_fails)
        if request.task is SavepointTask.IMPORT and not self._is_there(request):
            gone = DriverExit(reason=Reason.SAVEPOINT_NOT_FOUND, message=f"there is no {request.source}")
            return WorkResult(failure=gone)
        if request.task is SavepointTask.EXPORT and request.other is not None:
            self._drivers.elsewhere.add((request.other.location, request.name))
            return WorkResult(taken=report_taken(request.name, request.location, SINCE))
        if request.task in (SavepointTask.TAKE, SavepointTask.IMPORT):
            self._drivers.kept.add(request.name)
            return WorkResult(taken=report_taken(request.name, request.location, SINCE))
        if request.task is SavepointTask.VERIFY:
            lost = () if request.name in self._drivers.kept else ("manifest.json is missing",)
            found = Verification(files=3, size_bytes=2048, damage=lost, damaged=len(lost))
            return WorkResult(verification=found)
        if (request.location, request.name) in self._drivers.elsewhere:
            self._drivers.elsewhere.discard((request.location, request.name))
        else:
            self._drivers.kept.discard(request.name)
        return WorkResult(removed=Removal(objects=3, size_bytes=2048))

    def _is_there(self, request: WorkRequest) -> bool:
        if request.other is not None:
            return (request.other.location, request.source) in self._drivers.elsewhere
        return request.source in self._drivers.kept

    def _begin(self, pod: Body) -> DriverState:
        if self._stands_by(pod):
            return DriverState.STANDING_BY if self.spoilt is None else DriverState.DRY_RUN
        return DriverState.STARTING if self.broken(pod) else DriverState.RUNNING

    def _take_over(self, address: str) -> None:
        running = {"state": DriverState.RUNNING, "running_since": SINCE}
        self._drivers.progress[address] = self._drivers.progress[address].replace(**running)
        self._count()

    def _start(self, ref: ObjectRef, pod: Body, address: str, state: DriverState) -> None:
        metadata = pod["metadata"]
        running = [{"name": "driver", "ready": True, "state": {"running": {}}}]
        self._cluster.patch(ref, status={"phase": "Running", "podIP": address, "containerStatuses": running})
        self._drivers.progress[address] = Progress(
            namespace=ref.namespace, pipeline=metadata["labels"]["kappa-platform.io/pipeline"], revision="",
            generation=int(metadata["annotations"][GENERATION_ANNOTATION]), started_at=SINCE,
            state=state,
            running_since=SINCE if state is DriverState.RUNNING else None,
            verdict=self.verdict if state is DriverState.STANDING_BY else None,
            role=_find_role(pod),
            queries=self.queries(pod),
            replaying=self.replaying,
        )  # fmt: skip

    def _end(self, ref: ObjectRef, address: str, exit: DriverExit) -> bool:
        self._drivers.progress.pop(address, None)
        state = {"terminated": {"exitCode": 0 if exit.graceful else 1, "message": exit.model_dump_json()}}
        status = {
            "phase": "Succeeded" if exit.graceful else "Failed",
            "containerStatuses": [{"name": "driver", "ready": False, "state": state}],
        }
        self._cluster.patch(ref, status=status)
        return True


def _find_role(pod: Body) -> DriverRole:
    variables = pod["spec"]["containers"][0]["env"]
    named = (each["value"] for each in variables if each["name"] == ROLE_VARIABLE)
    return DriverRole(next(named, DriverRole.ACTIVE))


def find_address(pod: Body) -> str:
    """Return the address that the node gives a pod."""
    return f"10.0.0.{pod['metadata']['uid'].removeprefix('uid-')}"


def is_driver(body: Body) -> bool:
    """Return whether the object is a driver pod."""
    labels: dict[str, str] = body["metadata"].get("labels", {})
    return body["kind"] == "Pod" and DRIVER_ROLE.items() <= labels.items()


def has_ended(pod: Body) -> bool:
    """Return whether the pod will never run again."""
    phase: str | None = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed")
