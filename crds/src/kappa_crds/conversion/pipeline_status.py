"""The status of a Pipeline, from the form of release 0.1 to a list of runs.

Release 0.1 had one driver in the status itself, and the standby driver of a change in `upgrade`. The status is the write-ahead log of
the operator, so each of its steps has to continue after the conversion. A field that this module does not know stays where it is.
"""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_ACTIVE = {
    "generation": "generation", "revision": "revision", "content": "content", "runningCheckpoint": "checkpoint", "driver": "driver",
    "driverUid": "driverUid", "runningSince": "runningSince", "stoppingSince": "stoppingSince",
}  # fmt: skip
"""Fields of the active run, by their names in the status of release 0.1."""
_RENAMED = {"stragglers": "lateRecords"}
_RENAMED_RESTARTS = {"hopelessRevision": "nonRetryableRevision"}
_RENAMED_UPGRADE = {"anew": "newCheckpoint"}
_RENAMED_PHASES = {"Rehearsing": "DryRun"}
_NOT_RUNNING_YET = ("DryRun", "Saving", "HandingOver")
"""Phases in which the driver of the change is not the active one."""


def convert_pipeline_status(stored: Json) -> Json:
    """Return the status in the present form; one that has it already is returned as it is.

    A field of release 0.1 beside runs shows that an operator of that release wrote last, after a rollback: its fields are the newer ones.
    """
    if not stored.keys() & _ACTIVE.keys():
        return stored
    kept = {name: value for name, value in _rename(stored, _RENAMED).items() if name not in _ACTIVE}
    active = {new: stored[old] for old, new in _ACTIVE.items() if old in stored}
    upgrade, restarts = stored.get("upgrade"), stored.get("restarts")
    runs = [{"role": "active", **active}] if active.get("generation") or "revision" in active else []
    generations = [stored.get("generation"), stored.get("lastGeneration")]
    if isinstance(restarts, dict):
        kept["restarts"] = _rename(restarts, _RENAMED_RESTARTS)
    if isinstance(upgrade, dict):
        change = kept["upgrade"] = _convert_upgrade(upgrade)
        runs += [_build_standby(upgrade, change, active)] if _is_at_work(change) else []
        generations.append(upgrade.get("generation"))
    highest = max((each for each in generations if isinstance(each, int)), default=0)
    return {**kept, "runs": runs, "lastGeneration": highest}


def _is_at_work(change: Json) -> bool:
    return str(change.get("phase")) in _NOT_RUNNING_YET


def _convert_upgrade(upgrade: Json) -> Json:
    kept = {name: value for name, value in upgrade.items() if name not in ("generation", "uid")}
    change = _rename(kept, _RENAMED_UPGRADE)
    renamed = _RENAMED_PHASES.get(str(change.get("phase")))
    return change | ({} if renamed is None else {"phase": renamed})


def _build_standby(upgrade: Json, change: Json, active: Json) -> Json:
    new = change.get("newCheckpoint")
    place = new if isinstance(new, dict) else active
    found = {
        "generation": upgrade.get("generation"),
        "revision": upgrade.get("revision"),
        "checkpoint": place.get("checkpoint"),
        "driverUid": upgrade.get("uid"),
    }
    return {"role": "standby", **{name: value for name, value in found.items() if value is not None}}


def _rename(fields: Json, names: Mapping[str, str]) -> Json:
    return {names.get(name, name): value for name, value in fields.items()}
