"""The names in a pipeline, and suggestions for unknown ones. Pure."""

from collections.abc import Mapping

from kappa_crds.names import describe_circle, describe_unknown_name, suggest
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.errors import SpecError
from kappa_pipelines.kafka.subscription import build_subscription


def explain_unknown_name(spec: PipelineSpec, view: str, unknown: str) -> SpecError:
    """Return the error for a view whose SQL has a name that is neither a source nor a view."""
    known = [*(s.name for s in spec.sources), *(v.name for v in spec.views if v.name != view)]
    return SpecError(Reason.UNKNOWN_VIEW, describe_unknown_name(view, unknown, known))


def explain_cycle(waits: Mapping[str, str]) -> SpecError:
    """Return the error for views that read each other; `waits` has, for each, one that it reads."""
    return SpecError(Reason.VIEW_CYCLE, describe_circle(waits))


def check_names(spec: PipelineSpec) -> None:
    """Raise SpecError for what the API server refuses too: a duplicate name, a view without exactly one kind, an unknown `from`."""
    names = [s.name for s in spec.sources] + [v.name for v in spec.views]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(Reason.INVALID_SPEC, f"these names are used twice: {', '.join(twice)}")
    for view in spec.views:
        if len(view.kinds) != 1:
            raise SpecError(Reason.INVALID_SPEC, f"view {view.name!r}: {view.rules[0].message}")
    for sink in spec.sinks:
        if sink.from_ not in names:
            raise SpecError(
                Reason.UNKNOWN_VIEW,
                f"sink {sink.name!r}: there is no view or source {sink.from_!r}; {suggest(sink.from_, names)}",
            )


def check_loops(revision: Revision) -> None:
    """Raise SpecError if a source's pattern matches a topic that the pipeline writes: it would read its own output."""
    spec = revision.spec
    for source in spec.sources:
        reads = build_subscription(revision, source)
        for role, name in spec.written:
            topic = revision.topics.get(name, name)
            if reads.covers(topic):
                raise SpecError(
                    Reason.INVALID_SPEC,
                    f"{role} writes to topic {topic}, which source {source.name!r} reads ({source.reads}); that is"
                    " an endless loop; write to another topic",
                )


def assign_owners(reads: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return, for each source, the one sink whose query takes its dead letters: the first that reads it."""
    owners: dict[str, str] = {}
    for sink, sources in reads.items():
        for source in sources:
            owners.setdefault(source, sink)
    return owners
