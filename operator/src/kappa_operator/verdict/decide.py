"""Warnings about a Pipeline while it is applied, before anything happens: pure, one warning per line.

It repeats what the operator will decide, as far as that is known already. The rest is marked as known to a driver only.
"""

from collections.abc import Iterator

from kappa_crds.pipeline_status import PipelineState
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.upgrade import SHADOW_MODES, Handover, Upgrade, UpgradeMode, VerdictKind
from kappa_operator.engine.plan import Verdict
from kappa_operator.pipeline.backfill import find_backfill
from kappa_operator.pipeline.model import PipelineObserved, choose_mode, is_taken_back
from kappa_operator.pipeline.upgrade.change import REPROCESSING_MODES
from kappa_operator.verdict.difference import compare_revisions, explain_mode
from kappa_operator.verdict.forecast import Forecast, explain_forecast, forecast
from kappa_operator.verdict.row_condition import find_condition_problems
from kappa_operator.verdict.view_names import find_name_problems

LONGEST_WARNING = 250
"""The API server may cut a warning after 256 characters."""
_MOST = 12
_COMES_BY_ITSELF = {Reason.CLUSTER_NOT_READY, Reason.STATE_STORE_NOT_READY, Reason.TOPIC_NOT_READY}
_WARM = (
    "warm: a driver with the new revision makes a dry run on a copy of the last batch while the active driver continues; only"
    " the dry run knows whether the state and the remaining log fit"
)
_COLD = (
    "cold, because of spec.upgrade.handover: the active driver ends its batch before the new one starts and compares its plan with"
    " the state"
)
_AT_REST = (
    "no driver runs, so there is no dry run: the next driver compares its plan with the state when it starts"
)


def explain_applying(observed: PipelineObserved, old: Revision | None) -> tuple[str, ...]:
    """Return warnings on a Pipeline as it would be stored; `old` is the revision that runs, None where none does or it is lost."""
    name = observed.resource.metadata.name
    texts = dict.fromkeys(" ".join(line.split()) for line in _explain(observed, old))
    lines = [_shorten(f"{name}: {line}") for line in texts]
    if len(lines) > _MOST:
        lines = [*lines[: _MOST - 1], f"{name}: and {len(lines) - _MOST + 1} more; see `kappa plan`"]
    return tuple(lines)


def _explain(observed: PipelineObserved, old: Revision | None) -> Iterator[str]:
    for problem in find_name_problems(observed.resource.spec):
        yield f"no driver can run this: {problem}"
    for problem in find_condition_problems(observed.resource.spec):
        yield f"a Reprocessing would fail: {problem}"
    found = observed.dependencies
    if isinstance(found, Verdict):
        if found.reason not in _COMES_BY_ITSELF:
            waits = (
                "the active driver continues, and the change waits" if _runs(observed) else "no driver starts"
            )
            yield f"{waits} until this is fixed: {found.message}"
        return
    if found.savepoint is not None:
        yield (
            f"spec.restore: the driver ends its batch, and the next one is restored from savepoint {found.savepoint.metadata.name};"
            " records after it are processed again, and topics are not rolled back"
        )
    elif observed.status.active.revision is not None:
        yield from _explain_change(observed, old)


def _runs(observed: PipelineObserved) -> bool:
    return observed.status.active.driver is not None and observed.status.state == PipelineState.RUNNING


def _explain_change(observed: PipelineObserved, old: Revision | None) -> Iterator[str]:
    wanted = observed.requested
    if wanted is None or wanted.name == observed.status.active.revision:
        return
    if old is None:
        yield f"revision {observed.status.active.revision} is no longer readable, so the effects of the change are unknown"
        return
    change = observed.status.upgrade
    if change is not None and is_taken_back(observed, wanted):
        why = change.message or "no reason was given"
        yield f"this change was rolled back and is not tried again: {why}; change spec.restartNonce to retry"
        return
    yield f"changed: {'; '.join(compare_revisions(old, wanted))}"
    if old.content == wanted.content:
        yield "a new driver continues from the last batch"
        return
    found = forecast(old.spec, wanted.spec, observed.status.shuffle_partitions)
    mode = choose_mode(observed, wanted)
    added = find_backfill(old, wanted) if mode in SHADOW_MODES else ()
    if added:
        yield f"sink {', '.join(added)}: its query reads the log from the start, beside the others; nothing else is computed again"
    yield from explain_forecast(found)
    yield from _explain_mode(observed.resource.spec.upgrade, mode, found)
    yield _explain_handover(observed, mode, found)


def _explain_mode(upgrade: Upgrade, mode: UpgradeMode, found: Forecast | None) -> Iterator[str]:
    """Yield what the mode does, where it does more than continue."""
    if found is None or (found.kind is not VerdictKind.REPROCESS and mode is not UpgradeMode.STATELESS):
        return
    yield explain_mode(upgrade, mode, found.kind)
    if mode not in (*REPROCESSING_MODES, UpgradeMode.STATELESS):
        yield "to start with empty state and read the sources from the start instead, set spec.upgrade.mode to Reprocess"


def _explain_handover(observed: PipelineObserved, mode: UpgradeMode, found: Forecast | None) -> str:
    spec = observed.resource.spec
    if spec.suspend:
        return "the change takes effect when spec.suspend is false; the next driver then compares its plan with the state"
    if not _runs(observed):
        return _AT_REST
    if mode is UpgradeMode.STATELESS:
        return "the change is cold: the active driver ends its batch, and the new one starts with empty state"
    if spec.upgrade.handover is Handover.COLD:
        return f"the change is {_COLD}"
    return f"the change is {_WARM}"


def _shorten(line: str) -> str:
    return line if len(line) <= LONGEST_WARNING else f"{line[: LONGEST_WARNING - 2]} …"
