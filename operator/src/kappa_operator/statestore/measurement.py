"""What `spec.measureEvery` of a state store asks for: that a pod counts what the store holds when that is due.

As with a collection, the number is recorded before its pod is made, and what it found before the pod is deleted. What was found stays known
while the next one is under way, and where it fails.
"""

from datetime import datetime

from kappa_crds.collection import Measurement
from kappa_crds.holdings import Holdings
from kappa_crds.quantities import format_size, parse_duration
from kappa_crds.savepoint_work import WorkState
from kappa_operator.engine.actions import CreateObject, DeleteObject, RecordStatus
from kappa_operator.engine.plan import Plan
from kappa_operator.statestore.collection_pods import build_measurer, build_measurer_ref
from kappa_operator.statestore.model import CollectedStore, build_placement
from kappa_operator.statestore.objects import StateStoreResource

_POLL = 1.0


def wait_to_measure(resource: StateStoreResource, now: datetime) -> float | None:
    """Return the seconds until a measurement is due, 0 for now; None where none is asked for."""
    every, last = resource.spec.measure_every, resource.status.measurement
    if every is None:
        return None
    return 0.0 if last is None else max(0.0, parse_duration(every) - (now - last.at).total_seconds())


def begin_measurement(observed: CollectedStore, now: datetime) -> Plan:
    """Record a measurement before its pod is made."""
    last, at = observed.resource.status.measurement, now.replace(microsecond=0)
    if last is None:
        begun = Measurement(number=1, at=at, message="under way")
    else:
        begun = last.replace(number=last.number + 1, at=at, state=WorkState.RUNNING)
    return Plan((_record(observed, begun),), requeue=True)


def follow_measurement(observed: CollectedStore, plan: Plan, measurement: Measurement) -> Plan:
    """See a measurement to its end: make its pod, record what it found, delete the pod. `plan` is the store's own."""
    pod = observed.pod
    if measurement.state is WorkState.ENDED:
        ref = build_measurer_ref(observed.resource, measurement)
        delete = () if pod is None else (DeleteObject(ref, pod.uid, "its work is done"),)
        done = measurement.replace(state=WorkState.DONE)
        return Plan((*delete, _record(observed, done)), requeue=True)
    if pod is None and observed.refused:
        return _end(observed, measurement, f"the pod cannot be made: {observed.refused}")
    if pod is None:
        made = build_measurer(observed.resource, measurement, build_placement(observed))
        return Plan((CreateObject(made),), requeue_after=_POLL)
    if pod.result is None:
        return Plan(plan.actions, plan.status, _POLL)
    if pod.result.holds is None:
        failure = pod.result.failure
        return _end(observed, measurement, failure.message if failure else "the pod ended without a word")
    return _end(observed, measurement.replace(holds=pod.result.holds), describe_holdings(pod.result.holds))


def _end(observed: CollectedStore, measurement: Measurement, message: str) -> Plan:
    ended = measurement.replace(state=WorkState.ENDED, message=message)
    return Plan((_record(observed, ended),), requeue_after=_POLL)


def _record(observed: CollectedStore, measurement: Measurement) -> RecordStatus:
    return RecordStatus(observed.resource.status.replace(measurement=measurement))


def describe_holdings(holds: Holdings) -> str:
    """Return what a store holds, in words."""
    said = (
        f"{holds.checkpoints} checkpoints, {format_size(holds.checkpoint_bytes)};"
        f" {holds.savepoints} savepoints, {format_size(holds.savepoint_bytes)}"
    )
    return f"at least {said}" if holds.partial else said
