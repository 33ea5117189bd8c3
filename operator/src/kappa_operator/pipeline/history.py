"""What goes when a change has shown that it works: revisions beyond `spec.revisionHistoryLimit`, and pods of drivers before the last one.

Revisions are looked at while a change is watched, for at its end one more has become an old one; whoever dies amid it finds the change
watched still, and does it again. A revision that is wanted again is made again, with the same name. The pod of the driver that was taken
over from stays to be looked at until the next change is done.
"""

from collections.abc import Iterator

from kappa_crds.pipeline_status import UpgradePhase, UpgradeStatus
from kappa_operator.engine.actions import DeleteObject
from kappa_operator.pipeline.model import PipelineObserved


def drop_history(observed: PipelineObserved, change: UpgradeStatus | None) -> tuple[DeleteObject, ...]:
    """Return what deletes all that is not to be kept, where this change is done."""
    if change is None or change.phase is not UpgradePhase.DONE:
        return ()
    return (*_drop_pods(observed), *_drop_revisions(observed))


def _drop_pods(observed: PipelineObserved) -> Iterator[DeleteObject]:
    ended = [pod for pod in observed.pods if pod.finished and pod is not observed.current]
    for pod in ended[:-1]:
        if not pod.deleting:
            yield DeleteObject(pod.ref, pod.uid, "it has ended, as has one after it")


def _drop_revisions(observed: PipelineObserved) -> Iterator[DeleteObject]:
    used = {observed.status.active.revision, *(pod.revision for pod in observed.pods if not pod.finished)}
    others = [each for each in observed.revisions if each.ref.name not in used]
    others.sort(key=lambda each: (each.created, each.ref.name), reverse=True)
    limit = observed.resource.spec.revision_history_limit
    for each in others[limit:]:
        yield DeleteObject(each.ref, each.uid, f"spec.revisionHistoryLimit is {limit}")
