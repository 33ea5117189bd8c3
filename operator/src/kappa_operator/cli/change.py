"""The part of `kappa plan` about a change: how the new revision differs from the running one, and what that means for the state.

With the runtime on this machine, Spark compiles both revisions here and compares them as a driver does; without it their texts are
compared. The dry run beside the driver checks what needs the state itself, such as whether unread records still exist.
"""

import asyncio
from collections.abc import Callable
from importlib.metadata import entry_points

from kappa_crds.revision import Revision
from kappa_crds.upgrade import SHADOW_MODES, UpgradeMode, UpgradeVerdict
from kappa_operator.engine.context import OperatorContext
from kappa_operator.pipeline.model import PipelineObserved, choose_mode
from kappa_operator.pipeline.observe import read_revision
from kappa_operator.verdict.difference import compare_revisions, explain_mode
from kappa_operator.verdict.forecast import explain_forecast, forecast
from kappa_operator.verdict.row_condition import find_condition_problems

_JUDGED = "  ? before the driver stops, a dry run on a copy of the last batch checks it with the state itself"
Judge = Callable[[Revision, Revision], UpgradeVerdict]
"""Compares two revisions on this machine; RuntimeError has the cause if it cannot."""


def find_judge() -> Judge | None:
    """Return the comparison of revisions on this machine, None without the runtime."""
    found = list(entry_points(group="kappa.verdicts", name="local"))
    return found[0].load() if found else None


async def describe_change(
    context: OperatorContext, observed: PipelineObserved, judge: Judge | None
) -> list[str]:
    """Return the lines about the change of a pipeline; none without a change."""
    wanted, runs = observed.wanted, observed.status.active.revision
    if wanted is None or runs is None or wanted.name == runs:
        return []
    old = await read_revision(context, observed.resource.metadata.namespace, runs)
    if old is None:
        return [f"  ~ revision {runs} cannot be read, so the change is unknown"]
    changes = [f"  ~ {each}" for each in compare_revisions(old, wanted)]
    mode = choose_mode(observed, wanted)
    if old.content == wanted.content:
        return [*changes, "  ? a new driver continues from the last batch"]
    verdict = await _judge(judge, old, wanted)
    if isinstance(verdict, str):
        found = forecast(old.spec, wanted.spec, observed.status.shuffle_partitions)
        changes += [f"  ? {verdict}", *(f"  ? {line}" for line in explain_forecast(found))]
    else:
        changes.append(f"  ? verdict of this machine: {verdict.kind.value}")
        changes += [f"    · {reason}" for reason in verdict.reasons]
        changes.append(f"  ? {explain_mode(observed.resource.spec.upgrade, mode, verdict.kind)}")
    if mode in SHADOW_MODES:
        spec = observed.resource.spec
        changes += [f"  ? a Reprocessing would fail: {each}" for each in find_condition_problems(spec)]
    if mode is not UpgradeMode.STATELESS:
        changes.append(_JUDGED)
    return changes


async def _judge(judge: Judge | None, old: Revision, new: Revision) -> UpgradeVerdict | str:
    """Return the verdict of this machine, or why it has none."""
    if judge is None:
        return "no verdict on this machine: install the package kappa-pipelines"
    try:
        return await asyncio.to_thread(judge, old, new)
    except RuntimeError as error:
        return f"no verdict on this machine: {error}"
