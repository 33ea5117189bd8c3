"""What a failure shows: what is wrong, not what is well."""

from typing import Any

from demo.platform import list_conditions, list_events


def resource(kind: str, name: str, *ready: str) -> dict[str, Any]:
    conditions = [
        {"type": "Ready", "status": status, "reason": "Why", "message": "because"} for status in ready
    ]
    return {"kind": kind, "metadata": {"name": name}, "status": {"conditions": conditions}}


def test_conditions_of_what_is_not_ready_and_of_the_pipeline_in_any_case() -> None:
    items = [
        resource("Topic", "well", "True"),
        resource("Topic", "ill", "False"),
        resource("Pipeline", "delays", "True"),
    ]
    assert list_conditions(items, "Pipeline/delays") == [
        "Topic/ill Ready=False Why: because",
        "Pipeline/delays Ready=True Why: because",
    ]


def test_a_resource_without_conditions_was_not_seen() -> None:
    unseen = {"kind": "Topic", "metadata": {"name": "new"}}
    assert list_conditions([unseen, resource("Topic", "newer")], "Pipeline/delays") == [
        "Topic/new has none: the operator has not seen it",
        "Topic/newer has none: the operator has not seen it",
    ]


def event(kind: str, name: str, type_: str, **times: str | None) -> dict[str, Any]:
    return {
        "involvedObject": {"kind": kind, "name": name},
        "type": type_,
        "reason": "Why",
        "message": "because\n",
        "metadata": {"creationTimestamp": "2026-01-01T00:00:09Z"},
        **times,
    }


def test_warnings_and_the_pipelines_own_events_by_time() -> None:
    items = [
        event("Pod", "started", "Normal", lastTimestamp="2026-01-01T00:00:01Z"),
        event("Pod", "waits", "Warning", lastTimestamp=None, eventTime="2026-01-01T00:00:03.123456Z"),
        event("Pipeline", "delays", "Normal", lastTimestamp="2026-01-01T00:00:02Z"),
    ]
    assert list_events(items, "Pipeline/delays") == [
        "2026-01-01T00:00:02Z Pipeline/delays Why: because",
        "2026-01-01T00:00:03Z Pod/waits Why: because",
    ]
