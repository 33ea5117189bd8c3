"""What to do about a source, from what was observed.

The database comes first: a connector is created only where a check found nothing that stops it. Later checks are a condition of their own;
what they find stops a connector only where changes were lost.
"""

from datetime import datetime

from kappa_crds.cdcsource import CDC_SOURCE_FINALIZER
from kappa_crds.reasons import Reason
from kappa_operator import intervals
from kappa_operator.cdcsource.check import check_blindly, check_database
from kappa_operator.cdcsource.connector import (
    change_connector,
    create_connector,
    keep_credentials,
    report_foreign,
    report_source,
    restart_failed,
    set_state,
    stop_lost,
    take_snapshot,
)
from kappa_operator.cdcsource.deletion import delete_source
from kappa_operator.cdcsource.guard import drop_outgrown_slot
from kappa_operator.cdcsource.history import keep_history
from kappa_operator.cdcsource.incremental import request_snapshot
from kappa_operator.cdcsource.limits import raise_limits
from kappa_operator.cdcsource.model import CDCSourceObserved, report
from kappa_operator.cdcsource.objects import get_prefix
from kappa_operator.cdcsource.offsets import answer_offsets
from kappa_operator.cdcsource.proof import begin_proof, follow_proof, withdraw_proof
from kappa_operator.cdcsource.schema import stop_refused
from kappa_operator.engine.kinds import Step
from kappa_operator.engine.plan import Plan, hold_deletion, judge_error, stalled


def hold_source(observed: CDCSourceObserved, _now: datetime) -> Plan | None:
    """Hold deletion until the connector is gone."""
    return hold_deletion(observed.resource, CDC_SOURCE_FINALIZER, wanted=True)


def report_problem(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Wait where the KafkaCluster, a Secret or Kafka Connect cannot be used. A connector that runs is left alone."""
    if observed.problem is None:
        return None
    verdict = judge_error("Waiting", observed.problem)
    return report(observed, verdict, now, intervals.BLOCKED)


def report_prefix(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Refuse a source whose topics an older source of the KafkaCluster writes. A connector that it has already is left alone."""
    if not observed.prefix_owner:
        return None
    message = (
        f"CDCSource {observed.prefix_owner}, which is older, has topicPrefix {get_prefix(observed.resource)}, so both would write the same"
        " topics; create this one with another spec.topicPrefix"
    )
    return report(observed, stalled("Failed", Reason.TOPIC_PREFIX_TAKEN, message), now, intervals.WAITING)


CDC_SOURCE_STEPS: tuple[Step[CDCSourceObserved], ...] = (
    delete_source,
    hold_source,
    follow_proof,
    withdraw_proof,
    drop_outgrown_slot,
    request_snapshot,
    check_blindly,
    report_problem,
    report_prefix,
    report_foreign,
    check_database,
    keep_credentials,
    answer_offsets,
    take_snapshot,
    keep_history,
    stop_lost,
    stop_refused,
    create_connector,
    change_connector,
    set_state,
    raise_limits,
    restart_failed,
    begin_proof,
    report_source,
)
