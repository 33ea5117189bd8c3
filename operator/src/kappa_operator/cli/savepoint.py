"""`kappa savepoint …`: what kubectl does to the same resources, in one word each, and with an end to wait for."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from kappa_crds.savepoint import SavepointSpec, Verify
from kappa_crds.savepoint_transfer import Export, Import
from kappa_crds.savepoint_work import VerifyBy
from kappa_crds.topic import DeletionPolicy
from kappa_operator.cli.asking import Context, Namespace, Request, call, console, waiting
from kappa_operator.cli.savepoint_calls import (
    ask_for_collection,
    ask_for_export,
    ask_for_restore,
    ask_for_verification,
    create_savepoint,
    list_savepoints,
    read_resource,
)
from kappa_operator.cli.savepoint_view import build_table, build_view
from kappa_operator.cli.wait import (
    judge_collected,
    judge_exported,
    judge_restored,
    judge_taken,
    judge_verified,
)
from kappa_operator.engine.keys import Key

savepoint = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Take, list and verify savepoints, and restore from them.",
)

Savepoint = Annotated[str, typer.Argument(help="The Savepoint.")]
NewName = Annotated[
    str | None, typer.Option("--name", help="Name of the Savepoint; of pipeline and time where left out.")
]


@savepoint.command()
@waiting
def create(
    pipeline: Annotated[str, typer.Argument(help="The Pipeline; it may run, be suspended or have failed.")],
    *,
    name: NewName = None,
    retain: Annotated[bool, typer.Option("--retain", help="Leave the files when it is deleted.")] = False,
    verify: Annotated[VerifyBy | None, typer.Option(help="Read it back after it was taken.")] = None,
    namespace: Namespace = "default",
) -> Request:
    """Take a savepoint of a pipeline."""
    policy = DeletionPolicy.RETAIN if retain else DeletionPolicy.DELETE
    by = None if verify is None else Verify(by=verify)
    spec = SavepointSpec(pipeline_ref=pipeline, deletion_policy=policy, verify=by)
    key = Key("Savepoint", namespace, name or _name(pipeline))
    judge = judge_verified if by else judge_taken
    return Request(lambda desk: create_savepoint(desk, key, spec), "savepoint {name} is asked for", judge)


@savepoint.command("list")
def list_(
    pipeline: Annotated[str | None, typer.Option(help="Only those of this Pipeline.")] = None,
    namespace: Namespace = "default",
    context: Context = None,
) -> None:
    """List savepoints, the newest first."""
    found = call(context, lambda desk: list_savepoints(desk, namespace, pipeline))
    console.print(build_table(found) if found else f"there are no savepoints in namespace {namespace}")


@savepoint.command()
def show(name: Savepoint, namespace: Namespace = "default", context: Context = None) -> None:
    """Show a savepoint: what it holds, where it is, and how it is."""
    key = Key("Savepoint", namespace, name)
    console.print(build_view(call(context, lambda desk: read_resource(desk, key))))


@savepoint.command()
@waiting
def verify(
    name: Savepoint,
    by: Annotated[VerifyBy, typer.Option(help="How thoroughly it is read.")] = VerifyBy.CHECKSUMS,
    namespace: Namespace = "default",
) -> Request:
    """Read a savepoint back: its files, or also every row of its state."""
    key = Key("Savepoint", namespace, name)
    begun = f"savepoint {{name}} is read back by {by}"
    return Request(lambda desk: ask_for_verification(desk, key, by, _now()), begun, judge_verified)


@savepoint.command()
@waiting
def export(
    name: Savepoint,
    to: Annotated[str, typer.Option(help="The StateStore that it is copied to.")],
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Have the copy go when the Savepoint is deleted; it stays else.")
    ] = False,
    namespace: Namespace = "default",
) -> Request:
    """Copy a savepoint to another state store."""
    policy = DeletionPolicy.DELETE if delete else DeletionPolicy.RETAIN
    key, copy = Key("Savepoint", namespace, name), Export(store_ref=to, deletion_policy=policy)
    begun = f"savepoint {{name}} is copied to state store {to}"
    return Request(lambda desk: ask_for_export(desk, key, copy, _now()), begun, judge_exported(to))


@savepoint.command("import")
@waiting
def import_(
    pipeline: Annotated[str, typer.Argument(help="The Pipeline that it is for; it need not be there yet.")],
    folder: Annotated[str, typer.Argument(help="Name of the savepoint's folder, the last part of its URI.")],
    *,
    store: Annotated[str | None, typer.Option("--from", help="The StateStore that it is in.")] = None,
    of: Annotated[str | None, typer.Option(help="The Pipeline that it was taken of, if another.")] = None,
    of_namespace: Annotated[str | None, typer.Option(help="The namespace of that, if another.")] = None,
    to: Annotated[
        str | None, typer.Option(help="The StateStore to bring it to; the Pipeline's where left out.")
    ] = None,
    name: NewName = None,
    namespace: Namespace = "default",
) -> Request:
    """Make a savepoint of what is in a state store already, or bring it in from another one."""
    source = Import(name=folder, store_ref=store, pipeline=of, namespace=of_namespace, target_store_ref=to)
    spec = SavepointSpec.model_validate({"pipelineRef": pipeline, "import": source})
    key = Key("Savepoint", namespace, name or _name(pipeline))
    return Request(
        lambda desk: create_savepoint(desk, key, spec), f"{folder} is imported as {{name}}", judge_taken
    )


@savepoint.command()
@waiting
def restore(
    name: Savepoint,
    to: Annotated[
        str | None, typer.Option(help="The Pipeline that is to go on from it; its own where left out.")
    ] = None,
    namespace: Namespace = "default",
) -> Request:
    """Have a pipeline go on from a savepoint. Records after it are processed again; topics are not set back."""
    source, begun = Key("Savepoint", namespace, name), f"pipeline {{name}} goes on from {name}"
    return Request(lambda desk: ask_for_restore(desk, source, to, _now()), begun, judge_restored)


@savepoint.command()
@waiting
def gc(
    store: Annotated[
        str | None, typer.Argument(help="The StateStore; may be left out where there is one.")
    ] = None,
    namespace: Namespace = "default",
) -> Request:
    """Remove from a state store what nothing needs any more, as its spec.collection says."""
    begun = "state store {name} is looked through"
    return Request(lambda desk: ask_for_collection(desk, namespace, store, _now()), begun, judge_collected)


def _name(pipeline: str) -> str:
    return f"{pipeline}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
