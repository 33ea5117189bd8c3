"""`kappa resolve`: the topic in Kafka that an output of a pipeline is in now, and where its readers moved."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kappa_crds import API_VERSION
from kappa_crds.alias import Alias, Move, resolve_alias
from kappa_crds.kinds import find_kind
from kappa_crds.reprocessing import ReprocessingStatus
from kappa_operator.cli.errors import CommandError
from kappa_operator.cli.options import Context, Namespace, OutputFormat
from kappa_operator.cli.output import Output, print_result, start_table
from kappa_operator.cli.requests import call, choose_namespace
from kappa_operator.engine.cluster import ApiCluster

if TYPE_CHECKING:  # the help must not load it
    from rich.console import RenderableType

Body = dict[str, Any]
_COLUMNS = ("MOVED", "FROM", "PARTITION", "UNTIL", "TO", "BEGIN", "REPROCESSING")


def resolve(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, as the Pipeline names it.")],
    *,
    namespace: Namespace = "",
    output: OutputFormat = Output.TABLE,
    context: Context = None,
) -> None:
    """Print the topic in Kafka that holds an output of a pipeline now, and where its readers moved.

    After a move, a reader of the old topic reads up to UNTIL, which is exclusive, and continues in the new one at BEGIN: nothing is lost,
    repeated or mixed. `-o name` prints the topic alone.
    """
    where = choose_namespace(namespace, context)
    alias = call(context, lambda api: read_alias(api, where, topic))
    print_result(output, lambda: build_view(alias), lambda: build_data(alias), lambda: (alias.topic,))


async def read_alias(api: ApiCluster, namespace: str, topic: str) -> Alias:
    """Return the alias of a topic; CommandError where no Pipeline of the namespace writes it, or two do."""
    bodies = await api.list_objects(API_VERSION, "Pipeline", namespace)
    writers = [body for body in bodies if _writes(body, topic)]
    if len(writers) != 1:
        raise CommandError(_explain(topic, namespace, [body["metadata"]["name"] for body in writers]))
    writer = find_kind("Pipeline").parse(writers[0])
    # After the Pipelines: a move of one that was read is then known too.
    bodies = await api.list_objects(API_VERSION, "Reprocessing", namespace)
    found = list(list_statuses(bodies, writer.metadata.name))
    alias = resolve_alias(topic, writer.status, found)
    if alias is None:
        raise AssertionError("the writer has an output of that name")
    return alias


def list_statuses(bodies: Iterable[Body], pipeline: str) -> Iterator[tuple[str, ReprocessingStatus]]:
    """Yield the Reprocessings of a Pipeline, by name, with the status as it is for it."""
    for body in bodies:
        status: ReprocessingStatus = find_kind("Reprocessing").parse(body).status
        is_own = body["spec"].get("pipelineRef") == pipeline
        found = status if is_own else status.view_member(pipeline)
        if found is not None:
            yield body["metadata"]["name"], found


def _writes(pipeline: Body, topic: str) -> bool:
    return any(each["name"] == topic for each in (pipeline.get("status") or {}).get("outputs") or ())


def _explain(topic: str, namespace: str, writers: list[str]) -> str:
    if writers:
        return (
            f"topic {topic} is written by several Pipelines: {', '.join(writers)}; each has topics of its own"
        )
    return (
        f"no Pipeline in namespace {namespace} writes topic {topic}, or none has started yet; use the name in spec.sinks, and see"
        " `kubectl get pipelines -o wide`"
    )


def build_view(alias: Alias) -> "RenderableType":
    """Return the present topic and the moves as a table, one line for each partition."""
    from rich.console import Group  # noqa: PLC0415 - see above

    if not alias.moves:
        return alias.topic
    table = start_table(_COLUMNS, right=("PARTITION", "UNTIL", "BEGIN"))
    for move in alias.moves:
        for partition in sorted(move.begin):
            table.add_row(
                f"{move.at:%Y-%m-%d %H:%M:%S}", move.old, str(partition), _render(move.until.get(partition)), move.new,
                str(move.begin[partition]), move.reprocessing,
            )  # fmt: skip
    return Group(alias.topic, table)


def _render(offset: int | None) -> str:
    return "-" if offset is None else str(offset)


def build_data(alias: Alias) -> dict[str, Any]:
    """Return the alias as JSON-compatible values, which `kappa_client` reads."""
    pending = {} if alias.pending is None else {"pending": _build_move(alias.pending)}
    moves = [_build_move(move) for move in alias.moves]
    return {"name": alias.name, "topic": alias.topic, "moves": moves, **pending}


def _build_move(move: Move) -> dict[str, Any]:
    return {**asdict(move), "at": move.at.isoformat()}
