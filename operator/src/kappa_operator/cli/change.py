"""What `kappa plan` says of a change: what is another than in the revision that runs, and what that means for the state.

Where the runtime is installed on this machine, both revisions are compiled by Spark here, and compared as a driver compares them; else
their texts are. What
needs the state itself, such as whether the records that are still to be read are there, a dry start beside the driver shows.
"""

import asyncio
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points

from kappa_crds.revision import Revision
from kappa_crds.upgrade import UpgradeMode, UpgradeVerdict
from kappa_operator.engine.context import OperatorContext
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.observe import read_revision
from kappa_operator.pipeline.upgrade.change import choose_mode, want_revision
from kappa_operator.verdict.difference import compare_revisions, explain_mode
from kappa_operator.verdict.forecast import explain_forecast, forecast

_JUDGED = "  ? before anything stops, a dry start on a copy of the last batch judges it with the state itself"
Judge = Callable[[Revision, Revision], UpgradeVerdict]
"""Compares two revisions on this machine; RuntimeError says why that cannot be done."""


def find_judge() -> Judge | None:
    """Return what compares revisions on this machine, None where the runtime is not installed."""
    found = list(entry_points(group="kappa.verdicts", name="local"))
    return found[0].load() if found else None


async def describe_change(
    context: OperatorContext, observed: PipelineObserved, judge: Judge | None
) -> list[str]:
    """Return the lines about the change of a pipeline, none where there is none."""
    wanted, runs = want_revision(observed), observed.status.revision
    if wanted is None or runs is None or wanted.name == runs:
        return []
    old = await read_revision(context, observed.resource.metadata.namespace, runs)
    if old is None:
        return [f"  ~ revision {runs} cannot be read any more, so what is changed is not known"]
    changes = [f"  ~ {each}" for each in compare_revisions(old, wanted)]
    mode = choose_mode(observed, wanted)
    if old.content == wanted.content:
        return [*changes, "  ? a new driver goes on from the last batch"]
    verdict = await _judge(judge, old, wanted)
    if isinstance(verdict, str):
        found = forecast(old.spec, wanted.spec, observed.status.shuffle_partitions)
        changes += [f"  ? {verdict}", *(f"  ? {line}" for line in explain_forecast(found))]
    else:
        changes += _say(verdict, mode)
    if mode is not UpgradeMode.STATELESS:
        changes.append(_JUDGED)
    return changes


async def _judge(judge: Judge | None, old: Revision, new: Revision) -> UpgradeVerdict | str:
    """Return the verdict of this machine, or why there is none."""
    if judge is None:
        return "the runtime is not on this machine (install kappa-pipelines), so no verdict is made here"
    try:
        return await asyncio.to_thread(judge, old, new)
    except RuntimeError as error:
        return f"no verdict can be made on this machine: {error}"


def _say(verdict: UpgradeVerdict, mode: UpgradeMode) -> Iterator[str]:
    yield f"  ? verdict of this machine: {verdict.kind.value}"
    yield from (f"    · {reason}" for reason in verdict.reasons)
    yield f"  ? {explain_mode(mode, verdict.kind)}"
