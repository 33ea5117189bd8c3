"""Names that changed since release 0.1, and the conversion of manifests and stored objects to the present names.

The API server keeps a renamed field of an object that it stored before, so that nothing is lost, and refuses it in a new manifest with the
present name. The operator converts stored objects when it reads them, and writes them back (ADR 39). `kappa convert` converts files.

The status of a Pipeline had one driver in itself, and the standby driver of a change in `upgrade`; now it has a list of runs. It is the
write-ahead log of the operator, so each of its steps has to continue after the conversion.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
_SINK = ("topic", "key", "value", "tombstones", "delivery")

RENAMED: Mapping[str, Mapping[str, str]] = {
    "KafkaCluster": {"spec.checkEvery": "spec.checkInterval", "spec.lag.every": "spec.lag.interval"},
    "Topic": {"spec.pause": "spec.suspend"},
    "StateStore": {
        "spec.checkEvery": "spec.checkInterval",
        "spec.measureEvery": "spec.measureInterval",
        "spec.collection.every": "spec.collection.interval",
        "status.measurement.holds": "status.measurement.contents",
    },
    "Pipeline": {
        **{f"spec.sinks[].{name}": f"spec.sinks[].kafka.{name}" for name in _SINK},
        "spec.views[].window.stragglers": "spec.views[].window.lateRecords",
        "spec.views[].window.hopping.every": "spec.views[].window.hopping.slide",
        "spec.views[].sliding.stragglers": "spec.views[].sliding.lateRecords",
        "spec.trigger.realTime.checkpointEvery": "spec.trigger.realTime.checkpointInterval",
        "status.stragglers": "status.lateRecords",
        "status.restarts.hopelessRevision": "status.restarts.nonRetryableRevision",
        "status.upgrade.anew": "status.upgrade.newCheckpoint",
    },
    "LagPolicy": {
        "spec.remedies": "spec.remediation",
        "spec.remediation.pauseProducers": "spec.remediation.throttleProducers",
        "status.remedies": "status.remediations",
        "status.standings": "status.lagHistory",
        "status.shares": "status.groupPartitions",
        "status.lastSweep": "status.lastSampled",
    },
    "PipelineTest": {"spec.expect.stragglers": "spec.expect.lateRecords"},
}
"""Fields by kind, as their paths were and are; `[]` stands for each item of a list. A path may have a name from a line above it."""
RENAMED_VALUES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "Pipeline": {"status.upgrade.phase": {"Rehearsing": "DryRun"}},
    "Savepoint": {"spec.cause": {"BeforeRemedy": "BeforeRemediation"}},
    "LagPolicy": {"status.remediations[].kind": {"PauseProducers": "ThrottleProducers"}},
}

_ACTIVE = {
    "generation": "generation", "revision": "revision", "content": "content", "runningCheckpoint": "checkpoint", "driver": "driver",
    "driverUid": "driverUid", "runningSince": "runningSince", "stoppingSince": "stoppingSince",
}  # fmt: skip
"""Fields of the active run, by their names in the status of release 0.1."""
_NOT_RUNNING_YET = ("DryRun", "Saving", "HandingOver")
"""Phases in which the driver of the change is not the active one."""


def convert(kind: str, stored: Json) -> Json:
    """Return an object with the present names; the same object where it has them already. Unknown fields stay."""
    converted = stored
    for old, new in RENAMED.get(kind, {}).items():
        converted = _move(converted, old.split("."), new.split("."))
    for path, words in RENAMED_VALUES.get(kind, {}).items():
        converted = _replace(converted, path.split("."), words)
    return _change_child(converted, "status", _list_runs) if kind == "Pipeline" else converted


def _list_runs(stored: Any) -> Any:
    """Return the status, which has the present names, with a list of runs; one that has it already is returned as it is.

    A field of release 0.1 beside runs shows that an operator of that release wrote last, after a rollback: its fields are the newer ones.
    """
    if not isinstance(stored, dict) or not stored.keys() & _ACTIVE.keys():
        return stored
    kept = {name: value for name, value in stored.items() if name not in _ACTIVE}
    active = {new: stored[old] for old, new in _ACTIVE.items() if old in stored}
    runs = [{"role": "active", **active}] if active.get("generation") or "revision" in active else []
    generations = [stored.get("generation"), stored.get("lastGeneration")]
    upgrade = stored.get("upgrade")
    if isinstance(upgrade, dict):
        kept["upgrade"] = {
            name: value for name, value in upgrade.items() if name not in ("generation", "uid")
        }
        runs += [_build_standby(upgrade, active)] if str(upgrade.get("phase")) in _NOT_RUNNING_YET else []
        generations.append(upgrade.get("generation"))
    highest = max((each for each in generations if isinstance(each, int)), default=0)
    return {**kept, "runs": runs, "lastGeneration": highest}


def _build_standby(upgrade: Json, active: Json) -> Json:
    new = upgrade.get("newCheckpoint")
    place = new if isinstance(new, dict) else active
    found = {
        "generation": upgrade.get("generation"),
        "revision": upgrade.get("revision"),
        "checkpoint": place.get("checkpoint"),
        "driverUid": upgrade.get("uid"),
    }
    return {"role": "standby", **{name: value for name, value in found.items() if value is not None}}


def _move(value: Any, old: list[str], new: list[str]) -> Any:
    """Return the value with the field at `old` at `new`. If both are set the old one counts: the other is a default of the CRD."""
    if not isinstance(value, dict):
        return value
    if len(old) > 1 and old[0] == new[0]:
        return _change_child(value, old[0], lambda child: _move(child, old[1:], new[1:]))
    if old[0] not in value:
        return value
    rest = {name: child for name, child in value.items() if name != old[0]}
    return _put(rest, new, value[old[0]])


def _put(value: Json, path: list[str], item: Any) -> Json:
    if len(path) == 1:
        return {**value, path[0]: item}
    below = value.get(path[0])
    return {**value, path[0]: _put(below if isinstance(below, dict) else {}, path[1:], item)}


def _replace(value: Any, path: list[str], words: Mapping[str, str]) -> Any:
    if not path:
        return words.get(value, value) if isinstance(value, str) else value
    return _change_child(value, path[0], lambda child: _replace(child, path[1:], words))


def _change_child(value: Any, step: str, change: Any) -> Any:
    """Return the value with one child changed, or each item of it; the same value where nothing changed."""
    name = step.removesuffix("[]")
    if not isinstance(value, dict) or name not in value:
        return value
    child = value[name]
    if step.endswith("[]"):
        items = [change(item) for item in child] if isinstance(child, list) else child
        return value if items == child else {**value, name: items}
    changed = change(child)
    return value if changed is child else {**value, name: changed}


def build_spec_patch(stored: Json) -> Json:
    """Return the merge patch that brings the stored spec to the present names; it fails where the object has changed meanwhile."""
    version = {"resourceVersion": stored["metadata"]["resourceVersion"]}
    return {
        "metadata": version,
        "spec": _build_patch(stored["spec"], convert(stored["kind"], stored)["spec"]),
    }


def _build_patch(before: Json, after: Json) -> Json:
    """Return the JSON merge patch between two objects (RFC 7396)."""
    gone = dict.fromkeys(before.keys() - after.keys())
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    return {
        **gone,
        **{
            name: _build_patch(before[name], value)
            if isinstance(value, dict) and isinstance(before.get(name), dict)
            else value
            for name, value in changed.items()
        },
    }
