"""The status of a Pipeline, from the form of release 0.1 to a list of runs.

Release 0.1 had one driver in the status itself, and the standby driver of a change in `upgrade`. The status is the write-ahead log of
the operator, so each of its steps has to continue after the conversion. A field that this module does not know stays where it is.
"""

from typing import Any

Json = dict[str, Any]

_ACTIVE = {
    "generation": "generation", "revision": "revision", "content": "content", "runningCheckpoint": "checkpoint", "driver": "driver",
    "driverUid": "driverUid", "runningSince": "runningSince", "stoppingSince": "stoppingSince",
}  # fmt: skip
"""Fields of the active run, by their names in the status of release 0.1."""
_NOT_RUNNING_YET = ("DryRun", "Saving", "HandingOver")
"""Phases in which the driver of the change is not the active one."""


def convert_pipeline_status(stored: Json) -> Json:
    """Return the status, which has the present names, with a list of runs; one that has it already is returned as it is.

    A field of release 0.1 beside runs shows that an operator of that release wrote last, after a rollback: its fields are the newer ones.
    """
    if not stored.keys() & _ACTIVE.keys():
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
