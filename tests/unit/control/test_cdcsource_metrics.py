"""Metrics of CDCSources: of the connector, the slot and the proofs. What is unknown has none."""

from typing import Any

from unit.control.sources import SPEC
from unit.control.test_resource_metrics import NOON, Cluster, find_seconds

ORDERS = {"namespace": "shop", "cdcsource": "orders"}
PROOF = {
    "tables": 3, "equal": 2, "rows": 10, "differing": 12, "undecided": 1, "seconds": 3.5, "position": "0/1", "at": NOON, "began": NOON, "ended": NOON,
}  # fmt: skip
STATUS: dict[str, Any] = {
    "state": "Running",
    "topicPrefix": "orders",
    "tables": 3,
    "lastCheck": NOON,
    "restarts": {"total": 4, "failures": 1},
    "conditions": [
        {"type": name, "status": status, "reason": "R", "lastTransitionTime": NOON}
        for name, status in {"Ready": "True", "DatabaseReady": "True", "SlotSafe": "False", "Snapshotting": "False", "Proven": "False"}.items()
    ],
    "slot": {"name": "kappa", "retainedBytes": 1000},
    "log": {"bytesPerSecond": 2.5, "remainingBytes": 500, "secondsLeft": 200.0, "limit": "max_slot_wal_keep_size"},
    "proof": {"last": PROOF, "proven": NOON, "failures": 2},
}  # fmt: skip


def read(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the values of the source; of a metric with more labels, those."""
    cluster = Cluster()
    cluster.show("CDCSource", "orders", status, **{**SPEC, **spec})
    return {
        name.removeprefix("kappa_cdcsource_"): [
            (value if labels == ORDERS else labels | {"value": value}) for labels, value in samples
        ]
        for name, samples in cluster.read().items()
        if name.startswith("kappa_cdcsource_")
    }


def test_a_source_exports_its_connector_its_slot_and_its_proofs() -> None:
    noon = find_seconds(NOON)
    assert read(STATUS, proof={"schedule": "0 3 * * *"}) == {
        "ready": [1.0], "info": [{**ORDERS, "state": "Running", "reason": "R", "prefix": "orders", "value": 1.0}],
        "restarts": [4.0], "failures": [1.0], "snapshotting": [0.0], "changes_lost": [0.0], "tables": [3.0],
        "database_ready": [1.0], "check_timestamp_seconds": [noon], "slot_safe": [0.0], "slot_retained_bytes": [1000.0],
        "slot_remaining_bytes": [500.0], "slot_growth_bytes_per_second": [2.5], "slot_full_seconds": [200.0],
        "proof_scheduled": [1.0], "proof_ended_timestamp_seconds": [noon], "proven_timestamp_seconds": [noon],
        "proof_duration_seconds": [3.5], "proof_tables": [3.0], "proof_equal_tables": [2.0], "proof_differing_rows": [12.0],
        "proof_undecided_rows": [1.0], "proof_failures": [2.0], "binlog_safe": [], "binlog_expiry_seconds": [],
    }  # fmt: skip


def test_a_binary_log_exports_when_changes_may_be_removed() -> None:
    conditions = [{**STATUS["conditions"][0], "type": "BinlogSafe"}]
    binlog = {"oldest": "binlog.000001", "retentionSeconds": 86_400, "storedUntil": "2026-01-01T00:00:00Z"}
    status = {"binlog": binlog, "conditions": conditions, "lastCheck": "2026-01-01T10:00:00Z"}
    values = read(status)
    assert (values["binlog_safe"], values["binlog_expiry_seconds"]) == ([1.0], [14 * 3600.0])
    del binlog["retentionSeconds"]
    assert read(status)["binlog_expiry_seconds"] == []


def test_what_is_not_known_has_no_sample() -> None:
    known = {name for name, values in read({}).items() if values}
    assert known == {"ready", "info", "restarts", "failures", "changes_lost", "proof_scheduled"}


def test_proofs_of_a_spec_that_demands_none_any_more_are_not_exported() -> None:
    found = read(STATUS)
    assert found["proof_scheduled"] == [0.0]
    assert found["proof_differing_rows"] == found["proven_timestamp_seconds"] == []


def test_an_unlimited_slot_is_neither_safe_nor_not() -> None:
    unknown = [{**each, "status": "Unknown"} for each in STATUS["conditions"]]
    assert read({**STATUS, "conditions": unknown})["slot_safe"] == []


def test_lost_changes_are_exported() -> None:
    assert read({**STATUS, "lost": "the slot is gone"})["changes_lost"] == [1.0]
