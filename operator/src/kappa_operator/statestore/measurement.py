"""Measurements of a state store: at each interval a pod counts the checkpoints and savepoints that the store holds.

The last result stays in status while the next measurement is under way, and where that fails.
"""

from datetime import datetime

from kappa_crds.quantities import format_size, parse_duration
from kappa_crds.savepoint_work import WorkState
from kappa_crds.statestore import Measurement
from kappa_crds.stores import StoreContents
from kappa_operator import intervals
from kappa_operator.engine.actions import CreateObject, DeleteObject, RecordStatus
from kappa_operator.engine.plan import Plan
from kappa_operator.statestore.collection_pods import build_measurer, build_measurer_ref
from kappa_operator.statestore.model import StateStoreObserved, build_placement, is_ready
from kappa_operator.statestore.objects import StateStoreResource


def wait_to_measure(resource: StateStoreResource, now: datetime) -> float | None:
    """Return the seconds until a measurement is due, 0 for now; None where the spec has none."""
    every, last = resource.spec.measure_interval, resource.status.measurement
    if every is None:
        return None
    return intervals.wait_after(last.at if last else None, parse_duration(every), now)


def begin_measurement(observed: StateStoreObserved, now: datetime) -> Plan | None:
    """Record a measurement that is due, before its pod is created. Only a store that is ready is measured."""
    if not is_ready(observed.resource.status) or wait_to_measure(observed.resource, now) != 0:
        return None
    last, at = observed.resource.status.measurement, now.replace(microsecond=0)
    if last is None:
        begun = Measurement(number=1, at=at, message="under way")
    else:
        begun = last.replace(number=last.number + 1, at=at, state=WorkState.RUNNING)
    return Plan((_record(observed, begun),), requeue=True)


def follow_measurement(observed: StateStoreObserved, _now: datetime) -> Plan | None:
    """Create the pod of a measurement, record its result, delete the pod."""
    measurement, pod = observed.resource.status.measurement, observed.worker
    if measurement is None or measurement.state is WorkState.DONE:
        return None
    if measurement.state is WorkState.ENDED:
        ref = build_measurer_ref(observed.resource, measurement)
        delete = () if pod is None else (DeleteObject(ref, pod.uid, "its work is done"),)
        done = measurement.replace(state=WorkState.DONE)
        return Plan((*delete, _record(observed, done)), requeue=True)
    if pod is None and observed.refused:
        return _end(observed, measurement, f"the pod cannot be created: {observed.refused}")
    if pod is None:
        made = build_measurer(observed.resource, measurement, build_placement(observed))
        return Plan((CreateObject(made),), requeue_after=intervals.WORKING)
    if pod.result is None:
        return Plan(requeue_after=intervals.WORKING)
    if pod.result.contents is None:
        failure = pod.result.failure
        return _end(observed, measurement, failure.message if failure else "the pod ended without a message")
    return _end(
        observed, measurement.replace(contents=pod.result.contents), describe_contents(pod.result.contents)
    )


def _end(observed: StateStoreObserved, measurement: Measurement, message: str) -> Plan:
    ended = measurement.replace(state=WorkState.ENDED, message=message)
    return Plan((_record(observed, ended),), requeue_after=intervals.WORKING)


def _record(observed: StateStoreObserved, measurement: Measurement) -> RecordStatus:
    return RecordStatus(observed.resource.status.replace(measurement=measurement))


def describe_contents(holds: StoreContents) -> str:
    """Return what a store holds, as text."""
    held = (
        f"{holds.checkpoints} checkpoints, {format_size(holds.checkpoint_bytes)};"
        f" {holds.savepoints} savepoints, {format_size(holds.savepoint_bytes)}"
    )
    return f"at least {held}" if holds.partial else held
