"""What goes wrong in a cluster: processes that die without a word, and servers that are away for some seconds."""

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.place import Place
from lab import controlplane, processes
from lab.broker import Broker
from lab.errors import LabError
from lab.kube import kubectl
from platform_switch import NAMESPACE, find_pods

_AWAY_SECONDS = 4.0

KILL_JVM = """
import os, pathlib, signal
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    if (entry / "comm").read_text().strip() == "java":
        os.kill(int(entry.name), signal.SIGKILL)
"""


def kill_processes(pod: str, namespace: str) -> None:
    """End a pod's processes as the loss of its node does, without a word to them."""
    uid = json.loads(kubectl("get", "pod", pod, "-n", namespace, "-o", "json"))["metadata"]["uid"]
    killed = 0
    for groups in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):
            if uid in groups.read_text():
                os.kill(int(groups.parent.name), signal.SIGKILL)
                killed += 1
    assert killed, f"no process of pod {pod} was found"


def lose_pod(pod: str, namespace: str) -> None:
    """End a pod's processes, and take the pod away."""
    kill_processes(pod, namespace)
    kubectl("delete", "pod", pod, "-n", namespace, "--force", "--grace-period=0")


@dataclass(frozen=True)
class Faults:
    """Lets something die at random. What is away comes back before a method returns; whom it hit is in what that returns."""

    place: Place
    broker: Broker
    random: random.Random

    def strike(self, kind: Callable[[], str] | None = None) -> tuple[bool, str]:
        """Let one thing die, of any kind or of this one; return whether there was something of it just then, and what was done."""
        kinds: tuple[Callable[[], str], ...] = (
            *(self.kill_jvm, self.kill_driver, self.forget_driver, self.kill_executor),
            *(self.lose_operator, self.kill_api_server, self.kill_broker),
        )
        kind = kind or self.random.choice(kinds)
        try:
            return True, kind()
        except (LabError, AssertionError, IndexError) as error:
            return False, f"{kind.__name__} found nothing to hit ({str(error).splitlines()[0][:80]})"

    def kill_jvm(self) -> str:
        """Kill the JVM of a driver, be it the one that works or the one that stands by."""
        name = self._choose("driver")
        self.place.kubectl("exec", name, "--", "python3", "-c", KILL_JVM)
        return f"the JVM of {name} was killed"

    def kill_driver(self) -> str:
        """Kill all processes of a driver."""
        name = self._choose("driver")
        kill_processes(name, self.place.name)
        return f"{name} was killed"

    def forget_driver(self) -> str:
        """Delete a driver's pod by force: for the cluster it is gone, while its processes may live on for a moment."""
        name = self._choose("driver")
        self.place.kubectl("delete", "pod", name, "--force", "--grace-period=0")
        return f"{name} was deleted by force"

    def kill_executor(self) -> str:
        """Kill all processes of an executor."""
        name = self._choose("executor")
        kill_processes(name, self.place.name)
        return f"{name} was killed"

    def lose_operator(self) -> str:
        """Take one of the operator's pods away; its other replica may be the leader, or not."""
        name = self.random.choice(find_pods()).removeprefix("pod/")
        lose_pod(name, NAMESPACE)
        return f"{name} of the operator was lost"

    def kill_api_server(self) -> str:
        """Kill the API server; it is back some seconds later."""
        server = controlplane.api_server()
        pid = processes.running_pid(server.name)
        assert pid is not None, "the API server does not run"
        os.kill(pid, signal.SIGKILL)
        away = self._wait()
        processes.start(server)
        return f"the API server was killed, and started again after {away:.1f} s"

    def kill_broker(self) -> str:
        """Kill the broker; it is back some seconds later."""
        self.broker.kill()
        away = self._wait()
        self.broker.start()
        return f"the broker was killed, and started again after {away:.1f} s"

    def _choose(self, role: str) -> str:
        selector = {"driver": "kappa-platform.io/role=driver", "executor": "spark-role=executor"}[role]
        pods = self.place.find("pods", selector, fields="status.phase=Running")
        return str(self.random.choice(pods)["metadata"]["name"])

    def _wait(self) -> float:
        seconds = self.random.uniform(0, _AWAY_SECONDS)
        time.sleep(seconds)
        return seconds
