"""Whether queries may begin at a time, without the records before it (ADR 86).

A query without state gives for each record the same rows, wherever it began. One whose state is removed by the watermark gives the same
results after a while. Every other result depends on all earlier records, and so does a table of the last row of each group.
"""

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.replay import ReplayProfile
from kappa_pipelines.analysis.state import State
from kappa_pipelines.errors import SpecError
from kappa_pipelines.plan.compile import Compiled, CompiledSink

_TABLES = frozenset({"lookup", "tableJoin", "search"})
"""Views that keep rows until they are deleted, however old they are."""


def check_start(spec: PipelineSpec, compiled: Compiled, replay: ReplayProfile | None) -> None:
    """Raise SpecError for a sink whose results need records from before the start of a replay."""
    if replay is None or replay.start is None:
        return
    kinds = {view.name: view.kind for view in spec.views}
    for each in compiled.sinks:
        why = _find_obstacle(each, kinds, warms_up=replay.warms_up)
        if why:
            raise SpecError(
                Reason.UNSUPPORTED_QUERY,
                f"sink {each.sink.name!r} cannot start at {replay.start:%Y-%m-%dT%H:%M:%SZ} (reprocessing.from): {why}",
            )


def _find_obstacle(each: CompiledSink, kinds: dict[str, str], *, warms_up: bool) -> str:
    for state in each.states:
        if state.until is None or kinds.get(state.view or "") in _TABLES:
            return f"the {_name(state)} may need records of any age; remove reprocessing.from to read the whole log"
        if not warms_up:
            return (
                f"the {_name(state)} needs earlier records; set reprocessing.warmUp to the time after which none is needed"
                " (of a window its length, of a join its bound), or remove reprocessing.from to read the whole log"
            )
    if each.states and each.sink.is_table:
        return "its rows replace each other, so no window of them can be left out of the comparison; remove reprocessing.from to read the whole log"
    return ""


def _name(state: State) -> str:
    return state.operator if state.view is None else f"{state.operator} of view {state.view!r}"
