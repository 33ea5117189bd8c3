"""Metrics of CDCSources, read from their status: the connector, the log that a slot or an age retains, and proofs. Debezium exports what it reads itself."""

from collections.abc import Callable, Iterator
from datetime import datetime

from kappa_crds.cdcsource import BINLOG_SAFE, DATABASE_READY, SLOT_SAFE, SNAPSHOTTING, CDCSourceSpec
from kappa_crds.cdcsource_proof import ProofRecord
from kappa_crds.cdcsource_status import CDCSourceStatus, LogForecast, SlotStatus
from kappa_crds.conditions import ConditionType, find_condition, is_true
from kappa_crds.resource import Resource
from kappa_operator.telemetry.declare import Declared, Sample

CDCSourceResource = Resource[CDCSourceSpec, CDCSourceStatus]
_SOURCE = ("namespace", "cdcsource")


def _read_info(source: CDCSourceResource) -> Iterator[Sample]:
    status = source.status
    ready = find_condition(status.conditions, ConditionType.READY)
    yield (status.state or "", ready.reason if ready else "", status.topic_prefix or ""), 1.0


def _read_condition(kind: str) -> Callable[[CDCSourceResource], float | None]:
    """Return a reader of whether a condition is True; there is none where it is not there or Unknown."""

    def find(source: CDCSourceResource) -> float | None:
        condition = find_condition(source.status.conditions, kind)
        known = condition is not None and condition.status != "Unknown"
        return float(condition.status == "True") if known and condition is not None else None

    return find


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _of_slot(read: Callable[[SlotStatus], float | None]) -> Callable[[CDCSourceResource], float | None]:
    return lambda source: None if source.status.slot is None else read(source.status.slot)


def _of_log(read: Callable[[LogForecast], float | None]) -> Callable[[CDCSourceResource], float | None]:
    return lambda source: None if source.status.log is None else read(source.status.log)


def _read_binlog_expiry(source: CDCSourceResource) -> float | None:
    binlog, at = source.status.binlog, source.status.last_check
    if binlog is None or binlog.stored_until is None or binlog.retention_seconds is None or at is None:
        return None
    return binlog.retention_seconds - (at - binlog.stored_until).total_seconds()


def _of_proof(read: Callable[[ProofRecord], float | None]) -> Callable[[CDCSourceResource], float | None]:
    """Return a reader of the last proof; there is none without one, or where the spec demands none any more."""

    def find(source: CDCSourceResource) -> float | None:
        proof = source.status.proof
        if source.spec.proof is None or proof is None or proof.last is None:
            return None
        return read(proof.last)

    return find


def _read_proven(source: CDCSourceResource) -> float | None:
    proof = source.status.proof
    return None if source.spec.proof is None or proof is None else _seconds(proof.proven)


def _is_scheduled(source: CDCSourceResource) -> float:
    return float(source.spec.proof is not None and source.spec.proof.schedule is not None)


def _count_proof_failures(source: CDCSourceResource) -> float | None:
    return None if source.status.proof is None else source.status.proof.failures


CDCSOURCE_METRICS: tuple[Declared[CDCSourceResource], ...] = (
    Declared("kappa_cdcsource_ready", "1 while the CDCSource is Ready, 0 else.", _SOURCE, lambda source: float(is_true(source.status.conditions, ConditionType.READY))),
    Declared("kappa_cdcsource_info", "Always 1; the state, the reason of Ready, and the beginning of the topics' names are its labels.", (*_SOURCE, "state", "reason", "prefix"), _read_info),
    Declared("kappa_cdcsource_restarts", "Restarts of failed tasks in the life of the CDCSource.", _SOURCE, lambda source: source.status.restarts.total, "counter"),
    Declared("kappa_cdcsource_failures", "Failures of the connector in a row.", _SOURCE, lambda source: source.status.restarts.failures),
    Declared("kappa_cdcsource_snapshotting", "1 while the rows that the tables have already are read, 0 else.", _SOURCE, _read_condition(SNAPSHOTTING)),
    Declared("kappa_cdcsource_changes_lost", "1 where changes were lost and the connector is stopped, 0 else.", _SOURCE, lambda source: float(source.status.lost is not None)),
    Declared("kappa_cdcsource_tables", "Tables that are read, at the last check.", _SOURCE, lambda source: source.status.tables),
    Declared("kappa_cdcsource_database_ready", "1 where the last check found nothing in the database that stops the connector, 0 else.", _SOURCE, _read_condition(DATABASE_READY)),
    Declared("kappa_cdcsource_check_timestamp_seconds", "When the last check of the database ended, Unix time.", _SOURCE, lambda source: _seconds(source.status.last_check)),
    Declared("kappa_cdcsource_slot_safe", "1 while the retained WAL stays below its limit for long enough, 0 else; none where nothing limits it.", _SOURCE, _read_condition(SLOT_SAFE)),
    Declared("kappa_cdcsource_slot_retained_bytes", "Bytes of WAL that the slot retains, at the last check.", _SOURCE, _of_slot(lambda slot: slot.retained_bytes)),
    Declared("kappa_cdcsource_slot_remaining_bytes", "Bytes until the retained WAL reaches a limit, at the last check; none where nothing limits it.", _SOURCE, _of_log(lambda log: log.remaining_bytes)),
    Declared("kappa_cdcsource_slot_growth_bytes_per_second", "How fast the retained WAL grows; none where it does not, or is not known.", _SOURCE, _of_log(lambda log: log.bytes_per_second)),
    Declared("kappa_cdcsource_slot_full_seconds", "Seconds from the last check until the retained WAL reaches a limit; none where it does not grow.", _SOURCE, _of_log(lambda log: log.seconds_left)),
    Declared("kappa_cdcsource_binlog_safe", "1 while the server keeps its binary log for long enough, 0 else; none where it is not known what was stored.", _SOURCE, _read_condition(BINLOG_SAFE)),
    Declared("kappa_cdcsource_binlog_expiry_seconds", "Seconds from the last check until the server may remove changes that were not stored; none where it removes none by age.", _SOURCE, _read_binlog_expiry),
    Declared("kappa_cdcsource_proof_scheduled", "1 where proofs are made on a schedule, 0 else.", _SOURCE, _is_scheduled),
    Declared("kappa_cdcsource_proof_ended_timestamp_seconds", "When the last proof ended, whatever its result, Unix time.", _SOURCE, _of_proof(lambda proof: _seconds(proof.ended))),
    Declared("kappa_cdcsource_proven_timestamp_seconds", "When all tables were last found equal to their topics, by the clock of the database, Unix time.", _SOURCE, _read_proven),
    Declared("kappa_cdcsource_proof_duration_seconds", "Duration of the last proof in seconds.", _SOURCE, _of_proof(lambda proof: proof.seconds)),
    Declared("kappa_cdcsource_proof_tables", "Tables that the last proof was to compare.", _SOURCE, _of_proof(lambda proof: proof.tables)),
    Declared("kappa_cdcsource_proof_equal_tables", "Tables that the last proof found equal to their topics.", _SOURCE, _of_proof(lambda proof: proof.equal)),
    Declared("kappa_cdcsource_proof_differing_rows", "Rows that differ, by the last proof.", _SOURCE, _of_proof(lambda proof: proof.differing)),
    Declared("kappa_cdcsource_proof_undecided_rows", "Rows that the last proof could not compare, of the tables that it compared.", _SOURCE, _of_proof(lambda proof: proof.undecided)),
    Declared("kappa_cdcsource_proof_failures", "Proofs in a row that could not be made.", _SOURCE, _count_proof_failures),
)  # fmt: skip
