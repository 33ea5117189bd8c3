"""Names in views that can never be: unknown ones, and circles. Pure, as far as the text of the views shows."""

from collections.abc import Iterator, Mapping

from kappa_crds.names import describe_circle, describe_unknown_name
from kappa_crds.pipeline import PipelineSpec
from kappa_operator.verdict.view_text import LONGEST, find_reads


def find_name_problems(spec: PipelineSpec) -> Iterator[str]:
    """Yield what is wrong with the names that views read; nothing where there is too much SQL to be read here."""
    if sum(len(view.sql or "") for view in spec.views) > LONGEST:
        return
    known = [*(source.name for source in spec.sources), *(view.name for view in spec.views)]
    there = {name.lower(): name for name in known}
    reads = {view.name: find_reads(view) for view in spec.views}
    for view, names in reads.items():
        for name in names:
            if name.lower() not in there:
                yield describe_unknown_name(view, name, [each for each in known if each != view])
    circle = _find_circle({view: [there.get(name.lower(), name) for name in reads[view]] for view in reads})
    if circle:
        yield describe_circle(circle)


def _find_circle(reads: Mapping[str, list[str]]) -> dict[str, str]:
    """Return, for each view that waits for itself in the end, a view that it waits for; empty where there is none."""
    pending = dict(reads)
    while True:
        waits = {
            view: next((name for name in names if name in pending), None) for view, names in pending.items()
        }
        ready = [view for view, name in waits.items() if name is None]
        if not ready:
            return {view: name for view, name in waits.items() if name is not None}
        for view in ready:
            del pending[view]
