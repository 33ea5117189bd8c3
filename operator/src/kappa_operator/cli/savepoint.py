"""`kappa savepoint …`: requests that kubectl can make as well, with one word each, and with a result to wait for."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from kappa_crds.savepoint import Export, Import, SavepointSpec, Verify
from kappa_crds.savepoint_work import VerifyBy
from kappa_crds.topic import DeletionPolicy
from kappa_operator.cli.errors import CommandGroup
from kappa_operator.cli.options import AllNamespaces, Context, Namespace, OutputFormat
from kappa_operator.cli.output import Output, name_resource, print_result
from kappa_operator.cli.requests import Request, call, choose_namespace, choose_scope, waiting
from kappa_operator.cli.savepoint_requests import (
    create_savepoint,
    list_savepoints,
    read_resource,
    request_collection,
    request_export,
    request_restore,
    request_verification,
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
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Take, list and verify savepoints, and restore from them.",
)

Savepoint = Annotated[str, typer.Argument(metavar="NAME", help="The Savepoint.")]
NewName = Annotated[
    str | None, typer.Option("--name", help="Name of the Savepoint. Default: pipeline and time.")
]


@savepoint.command()
@waiting
def create(
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="The Pipeline; it may be running, suspended or failed.")
    ],
    *,
    name: NewName = None,
    retain: Annotated[
        bool, typer.Option("--retain", help="Keep the files when the Savepoint is deleted.")
    ] = False,
    verify: Annotated[VerifyBy | None, typer.Option(help="Verify it after it is taken.")] = None,
    namespace: Namespace = "",
) -> Request:
    """Take a savepoint of a pipeline."""
    policy = DeletionPolicy.RETAIN if retain else DeletionPolicy.DELETE
    by = None if verify is None else Verify(by=verify)
    spec = SavepointSpec(pipeline_ref=pipeline, deletion_policy=policy, verify=by)
    key = Key("Savepoint", namespace, name or _name(pipeline))
    judge = judge_verified if by else judge_taken
    return Request(lambda api: create_savepoint(api, key, spec), "savepoint {name} requested", judge)


@savepoint.command("list")
def list_(
    *,
    pipeline: Annotated[str | None, typer.Option(help="Only those of this Pipeline.")] = None,
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    output: OutputFormat = Output.TABLE,
    context: Context = None,
) -> None:
    """List savepoints, the newest first."""
    scope = choose_scope(namespace, context, all_namespaces=all_namespaces)
    found = call(context, lambda api: list_savepoints(api, scope, pipeline))
    wide = output is Output.WIDE
    print_result(
        output,
        lambda: (
            build_table(found, with_namespace=scope is None, wide=wide) if found else "no savepoints found"
        ),
        lambda: [each.to_manifest() for each in found],
        lambda: (name_resource("Savepoint", each.metadata.name) for each in found),
    )


@savepoint.command()
def show(
    name: Savepoint,
    *,
    namespace: Namespace = "",
    output: OutputFormat = Output.TABLE,
    context: Context = None,
) -> None:
    """Show a savepoint: what it holds, where it is stored, and its conditions."""
    key = Key("Savepoint", choose_namespace(namespace, context), name)
    found = call(context, lambda api: read_resource(api, key))
    print_result(
        output, lambda: build_view(found), found.to_manifest, lambda: [name_resource("Savepoint", name)]
    )


@savepoint.command()
@waiting
def verify(
    name: Savepoint,
    by: Annotated[VerifyBy, typer.Option(help="How to verify it.")] = VerifyBy.CHECKSUMS,
    namespace: Namespace = "",
) -> Request:
    """Verify a savepoint: its files, or also every row of its state."""
    key = Key("Savepoint", namespace, name)
    begun = f"verification of savepoint {{name}} by {by} requested"
    return Request(lambda api: request_verification(api, key, by, _now()), begun, judge_verified)


@savepoint.command()
@waiting
def export(
    name: Savepoint,
    to: Annotated[str, typer.Option(help="The StateStore to copy it to.")],
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the copy together with the Savepoint. Default: keep it.")
    ] = False,
    namespace: Namespace = "",
) -> Request:
    """Copy a savepoint to another state store."""
    policy = DeletionPolicy.DELETE if delete else DeletionPolicy.RETAIN
    key, copy = Key("Savepoint", namespace, name), Export(store_ref=to, deletion_policy=policy)
    begun = f"copy of savepoint {{name}} to state store {to} requested"
    return Request(lambda api: request_export(api, key, copy, _now()), begun, judge_exported(to))


@savepoint.command("import")
@waiting
def import_(
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="The Pipeline that it is for; it may not exist yet.")
    ],
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="Name of the savepoint's folder, the last part of its URI."),
    ],
    *,
    store: Annotated[str | None, typer.Option("--from", help="The StateStore that holds it.")] = None,
    of: Annotated[str | None, typer.Option(help="The Pipeline that it was taken from, if another.")] = None,
    of_namespace: Annotated[
        str | None, typer.Option(help="The namespace of that Pipeline, if another.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="The StateStore to copy it to. Default: the Pipeline's."),
    ] = None,
    name: NewName = None,
    namespace: Namespace = "",
) -> Request:
    """Create a Savepoint from files in a state store; copy them from another one if needed."""
    source = Import(name=folder, store_ref=store, pipeline=of, namespace=of_namespace, target_store_ref=to)
    spec = SavepointSpec.model_validate({"pipelineRef": pipeline, "import": source})
    key = Key("Savepoint", namespace, name or _name(pipeline))
    return Request(
        lambda api: create_savepoint(api, key, spec), f"import of {folder} as {{name}} requested", judge_taken
    )


@savepoint.command()
@waiting
def restore(
    name: Savepoint,
    to: Annotated[
        str | None,
        typer.Option(help="The Pipeline to restore. Default: the one it was taken from."),
    ] = None,
    namespace: Namespace = "",
) -> Request:
    """Restore a pipeline from a savepoint. Records after it are processed again; topics are not changed."""
    source = Key("Savepoint", namespace, name)
    begun = f"restore of pipeline {{name}} from savepoint {name} requested"
    return Request(lambda api: request_restore(api, source, to, _now()), begun, judge_restored)


@savepoint.command()
@waiting
def gc(
    store: Annotated[
        str | None,
        typer.Argument(metavar="STORE", help="The StateStore. Default: the only one of the namespace."),
    ] = None,
    namespace: Namespace = "",
) -> Request:
    """Remove unneeded files from a state store, as its spec.collection allows."""
    begun = "collection of state store {name} requested"
    return Request(lambda api: request_collection(api, namespace, store, _now()), begun, judge_collected)


def _name(pipeline: str) -> str:
    return f"{pipeline}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
