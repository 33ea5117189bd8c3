"""What a driver pod's JSON means."""

from typing import Any

from kappa_crds.reasons import Reason
from kappa_operator.pipeline.pods import explain_executor, parse_driver


def body(phase: str = "Running", state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    containers = [{"name": "driver", "state": state, "ready": False}] if state is not None else []
    return {
        "metadata": {
            "name": "delays-driver-4", "namespace": "flights", "uid": "u",
            "annotations": {"kappa-platform.io/generation": "4"}, "labels": {"kappa-platform.io/revision": "delays-1"},
        },
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }  # fmt: skip


def terminated(**fields: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, **fields}}


def test_generation_and_revision_come_from_the_pod_itself() -> None:
    pod = parse_driver(body())
    assert (pod.generation, pod.revision) == (4, "delays-1")


def test_a_pod_without_a_label_has_generation_zero() -> None:
    raw = body()
    del raw["metadata"]["annotations"]
    assert parse_driver(raw).generation == 0


def test_a_running_container_has_started_and_is_not_finished() -> None:
    pod = parse_driver(body(state={"running": {}}))
    assert (pod.started, pod.finished, pod.unstarted) == (True, False, False)


def test_the_drivers_own_last_word_is_believed() -> None:
    message = '{"reason": "InvalidSql", "message": "view hourly: no such column", "retryable": false}'
    pod = parse_driver(body("Failed", terminated(message=message)))
    assert pod.exit is not None
    assert (pod.exit.reason, pod.exit.retryable) == (Reason.INVALID_SQL, False)


def test_without_a_last_word_exit_code_and_log_lines_are_reported() -> None:
    pod = parse_driver(body("Failed", terminated(exitCode=3, message="Traceback: boom")))
    assert pod.exit is not None
    assert pod.exit.reason is Reason.DRIVER_CRASHED
    assert "exit code 3" in pod.exit.message
    assert "boom" in pod.exit.message


def test_running_out_of_memory_names_the_limit_to_raise() -> None:
    pod = parse_driver(body("Failed", terminated(exitCode=137, reason="OOMKilled")))
    assert pod.exit is not None
    assert pod.exit.reason is Reason.DRIVER_OUT_OF_MEMORY
    assert "spec.resources.driver.memory" in pod.exit.message


def test_a_killed_driver_is_reported_without_the_stack_trace_that_it_was_writing() -> None:
    log = "ress.getAllByName(InetAddress.java:1306)\n\tat org.apache.kafka.clients.ClientUtils.parse(ClientUtils.java:9)"
    pod = parse_driver(body("Failed", terminated(exitCode=137, reason="Error", message=log)))
    assert pod.exit is not None
    assert (pod.exit.reason, pod.exit.retryable) == (Reason.DRIVER_CRASHED, True)
    assert "killed" in pod.exit.message
    assert "exit code 137" in pod.exit.message
    assert "InetAddress" not in pod.exit.message
    assert "ClientUtils" not in pod.exit.message


def test_log_lines_that_the_kubelet_cut_off_and_stack_lines_are_no_message() -> None:
    cut = "ress.getAllByName(InetAddress.java:1306)\n" + "\tat java.base/Net.connect(Net.java:7)\n" * 60
    text = (cut + "java.io.IOException: no space left on device")[-2048:]
    pod = parse_driver(body("Failed", terminated(exitCode=3, message=text)))
    assert pod.exit is not None
    assert pod.exit.message.endswith("exit code 3: java.io.IOException: no space left on device")


def test_a_log_without_a_whole_line_is_no_message() -> None:
    pod = parse_driver(body("Failed", terminated(exitCode=3, message="x" * 2048)))
    assert pod.exit is not None
    assert pod.exit.message.endswith("exit code 3: it left no message")


def test_an_eviction_is_a_lost_driver_with_the_nodes_words() -> None:
    pod = parse_driver(body("Failed", message="The node was low on resource: memory."))
    assert pod.exit is not None
    assert (pod.exit.reason, pod.started) == (Reason.DRIVER_LOST, False)
    assert "low on resource" in pod.exit.message


def test_an_image_that_cannot_be_pulled_is_named() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image kappa/nope"}}
    pod = parse_driver(body("Pending", waiting))
    assert pod.waiting == (Reason.IMAGE_UNAVAILABLE, "ImagePullBackOff: Back-off pulling image kappa/nope")


def test_an_unschedulable_pod_carries_the_schedulers_words() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    pod = parse_driver(body("Pending", conditions=[condition]))
    assert pod.waiting == (Reason.DRIVER_UNSCHEDULABLE, "no node takes the driver: 0/1 nodes")


def test_a_container_that_is_being_created_is_no_trouble() -> None:
    pod = parse_driver(body("Pending", {"waiting": {"reason": "ContainerCreating"}}))
    assert (pod.waiting, pod.unstarted) == (None, True)


def test_an_executor_that_no_node_takes_is_explained_and_one_that_runs_is_not() -> None:
    full = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "Insufficient cpu",
    }
    said = explain_executor(body("Pending", conditions=[full]))
    assert said == "delays-driver-4: no node takes the executor: Insufficient cpu"
    assert explain_executor(body(state={"running": {}})) is None
