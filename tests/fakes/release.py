"""The status of a Pipeline in the form of release 0.1, from the present one: the inverse of the conversion, as far as there is one."""

from fakes.cluster import Body

_PHASES = {"DryRun": "Rehearsing"}
_RUN = {"checkpoint": "runningCheckpoint"}
_LATER = ("outputs", "dropsOutputs", "reprocessing", "place", "backfill")
"""What release 0.1 did not have of a run."""


def write_as_release_0_1(status: Body) -> Body:
    """Return the status as an operator of release 0.1 would have written it at the same step."""
    runs = {run["role"]: run for run in status["runs"]}
    old = {name: value for name, value in status.items() if name not in ("runs", "lastGeneration", "upgrade")}
    old |= {
        _RUN.get(name, name): value
        for name, value in runs.get("active", {}).items()
        if name not in ("role", *_LATER)
    }
    old = {"generation": 0, "runningCheckpoint": 0, **old}
    if "lateRecords" in old:
        old["stragglers"] = old.pop("lateRecords")
    restarts = old["restarts"] = dict(status["restarts"])
    if "nonRetryableRevision" in restarts:
        restarts["hopelessRevision"] = restarts.pop("nonRetryableRevision")
    if "upgrade" in status:
        old["upgrade"] = _write_upgrade(status["upgrade"], runs.get("standby", {}), status["lastGeneration"])
    return old


def _write_upgrade(change: Body, standby: Body, last_generation: int) -> Body:
    old = {**change, "phase": _PHASES.get(change["phase"], change["phase"])}
    old["generation"] = standby.get("generation", last_generation)
    if "driverUid" in standby:
        old["uid"] = standby["driverUid"]
    if "newCheckpoint" in old:
        old["anew"] = old.pop("newCheckpoint")
    return old
