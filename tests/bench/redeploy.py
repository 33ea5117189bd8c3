"""How long a change of a pipeline keeps it from committing: `python tests/bench/redeploy.py [--quick]` on the local cluster.

A pipeline counts records that come in all the time, at a batch each half second. Its spec is changed again and again, in turns with
`upgrade.handover: Warm` and `Cold`. The downtime is the time from the last commit of the old driver to the first of the new one, by the
times of the files in the checkpoint: what a new driver makes first is its link (ADR 13), so commits before that are the old one's.
After each change all counts are compared with what was written.

The last line is one JSON object: the median of the warm downtimes in seconds, and how many times longer the cold ones are.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.paths import KUBECONFIG  # isort: skip

os.environ["KUBECONFIG"] = str(KUBECONFIG)  # the Kubernetes client reads it when it is imported

import platform_switch
from e2e.counting import Counting
from e2e.driver_watch import DriverWatch
from e2e.installation import install, remove_places
from e2e.ledger import Ledger
from e2e.place import Place
from kappa_crds.pipeline_status import PipelineState, PipelineStatus, UpgradePhase
from kappa_crds.upgrade import Handover
from lab import kafka

CHANGES = 20
"""Of each kind."""
QUICK = 3


@contextmanager
def run_pipeline() -> Iterator[Counting]:
    """Give the counting pipeline, Ready, with records coming in."""
    place = Place.create("redeploy")
    with DriverWatch(place.name) as drivers:
        place.apply(place.render("counting.yaml").replace("interval: 1s}", "interval: 500ms}"))
        for topic in ("events", "counted"):
            place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
        with Ledger(
            kafka.host_bootstrap(), f"{place.name}-events", f"{place.name}-counted", pause=0.02
        ) as ledger:
            place.await_ready("pipeline/counts")
            yield Counting(place, ledger, drivers)
    place.empty()


def find_checkpoint(place: Place) -> Path:
    """Return the checkpoint of the pipeline, on this machine's disk."""
    claim = place.find("pvc")[0]["spec"]["volumeName"]
    volume = json.loads(place.kubectl("get", "pv", claim, "-o", "json"))["spec"]
    root = Path((volume.get("hostPath") or volume["local"])["path"])
    return next(iter(root.glob(f"{place.name}/counts/*/_kappa"))).parent


def measure_gap(checkpoint: Path, generation: int) -> float:
    """Return the seconds from the last commit before a generation to its first one."""
    taken = (checkpoint / f"_kappa/g{generation}").lstat().st_mtime
    commits = sorted(
        path.stat().st_mtime for path in (checkpoint / "log/commits").iterdir() if path.name.isdigit()
    )
    return min(at for at in commits if at > taken) - max(at for at in commits if at <= taken)


def change(counting: Counting, checkpoint: Path, number: int, handover: Handover) -> float:
    """Change the pipeline, wait until the change is done, check all counts, and return the downtime in seconds."""
    before = counting.place.pipeline()
    counting.place.patch(
        "kpp/counts", {"trigger": {"maxRecords": 50_000 + number}, "upgrade": {"handover": handover.value}}
    )
    after = counting.place.await_pipeline(
        lambda status: is_done(status, before, handover), f"is changed for the {number}th time"
    )
    counting.check()
    return measure_gap(checkpoint, after.active.generation)


def is_done(status: PipelineStatus, before: PipelineStatus, handover: Handover) -> bool:
    """Return whether a driver with the changed spec has committed a batch."""
    if (status.state, status.active.revision == before.active.revision) != (PipelineState.RUNNING, False):
        return False
    if handover is Handover.COLD:
        return status.batch is not None and status.batch > (before.batch or 0) and bool(status.records)
    done = status.upgrade is not None and status.upgrade.phase is UpgradePhase.DONE
    if done and status.upgrade is not None and status.upgrade.handover is not Handover.WARM:
        raise SystemExit(f"there was no room for a warm change: {status.upgrade.message}")
    return done and status.upgrade is not None and status.upgrade.revision == status.active.revision


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--quick", action="store_true", help=f"{QUICK} changes of each kind instead of {CHANGES}"
    )
    count = QUICK if arguments.parse_args().quick else CHANGES
    gaps: dict[Handover, list[float]] = {Handover.WARM: [], Handover.COLD: []}
    with platform_switch.with_operator():
        install()
        try:
            with run_pipeline() as counting:
                checkpoint = find_checkpoint(counting.place)
                for number in range(2 * count):
                    handover = (Handover.WARM, Handover.COLD)[number % 2]
                    gaps[handover].append(change(counting, checkpoint, number, handover))
                    print(f"{handover.value}: {gaps[handover][-1]:.2f} s", flush=True)
        finally:
            remove_places(of_this_session=True)
    warm, cold = median(gaps[Handover.WARM]), median(gaps[Handover.COLD])
    print(
        json.dumps({"warm_p50_s": round(warm, 2), "cold_over_warm": round(cold / warm, 1), "changes": count})
    )


if __name__ == "__main__":
    main()
