"""Which names a pipeline knows, and what an unknown one may have meant. Pure."""

import difflib
from collections.abc import Sequence

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError


def names_before(spec: PipelineSpec, view: str) -> tuple[str, ...]:
    """Return the names that a view may use: all sources, then the views before it, in order."""
    views = [v.name for v in spec.views]
    return (*(s.name for s in spec.sources), *views[: views.index(view)])


def explain_unknown_name(spec: PipelineSpec, view: str, unknown: str) -> SpecError:
    """Return the error for a view whose SQL names something that is neither a source nor an earlier view."""
    known = names_before(spec, view)
    later = [v.name for v in spec.views if v.name not in known]
    if unknown == view:
        hint = "a view cannot refer to itself"
    elif unknown in later:
        hint = f"it is defined after {view!r}; move it before"
    else:
        hint = _suggest(unknown, known)
    return SpecError(
        Reason.UNKNOWN_VIEW,
        f"view {view!r}: there is no source or earlier view {unknown!r}; {hint}",
    )


def check_names(spec: PipelineSpec) -> None:
    """Raise SpecError unless names are unique and every sink's `from` is known (as the API server demands too)."""
    names = [s.name for s in spec.sources] + [v.name for v in spec.views]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(Reason.INVALID_SPEC, f"these names are used twice: {', '.join(twice)}")
    for sink in spec.sinks:
        if sink.from_ not in names:
            raise SpecError(
                Reason.UNKNOWN_VIEW,
                f"sink {sink.name!r}: there is no view or source {sink.from_!r}; {_suggest(sink.from_, names)}",
            )


def _suggest(unknown: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(unknown, known, n=3)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"known are {', '.join(known)}"


def assign_owners(sinks: Sequence[str], reads: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Return, for each source, the one sink whose query takes its dead letters: the first that reads it."""
    owners: dict[str, str] = {}
    for sink in sinks:
        for source in reads.get(sink, ()):
            owners.setdefault(source, sink)
    return owners
