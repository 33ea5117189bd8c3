"""`kappa reprocess start`: the change of a Pipeline that a Reprocessing makes, and what it will do."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from kappa_crds.manifests import ManifestError, read_manifests
from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.options import Context, Namespace, OperatorNamespace, OutputFormat
from kappa_operator.cli.output import Output, name_resource, print_result
from kappa_operator.cli.reprocess_check import EXITS
from kappa_operator.cli.reprocess_forecast import Forecast, describe_forecast, forecast_start
from kappa_operator.cli.reprocess_plan import RequestedPolicy, Start, plan_start
from kappa_operator.cli.requests import call, choose_namespace
from kappa_operator.engine.cluster import ApiCluster

Body = dict[str, Any]


def start(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The Pipeline.")],
    *,
    filename: Annotated[
        Path | None,
        typer.Option("-f", "--filename", metavar="FILE", allow_dash=True, show_default=False, help="Manifest with the changed Pipeline. Default: the present version again."),
    ] = None,
    what_if: Annotated[bool, typer.Option("--what-if", help="Compare only: it never cuts over.")] = False,
    begin_at: Annotated[str, typer.Option("--from", metavar="TIME", show_default=False, help="Compare only, over the records from this time on, such as 2026-01-01T00:00:00Z.")] = "",
    warm_up: Annotated[str, typer.Option("--warm-up", metavar="DURATION", show_default=False, help="With --from: compare no results of this time after it, because they may need earlier records.")] = "",
    only: Annotated[str, typer.Option("--only", metavar="CONDITION", show_default=False, help="Compare only, for the rows of the outputs for which this condition in SQL is true, such as \"customer_id IN ('a', 'b')\".")] = "",
    downstream: Annotated[bool, typer.Option("--downstream", help="Reprocess the Pipelines that read its outputs with it, and cut all over as one.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")] = False,
    namespace: Namespace = "",
    operator_namespace: OperatorNamespace = "kappa-system",
    output: OutputFormat = Output.TABLE,
    context: Context = None,
) -> None:  # fmt: skip
    """Compute the whole log of a pipeline again, beside the active version: a changed one, or the same.

    It changes the spec of the Pipeline, as kubectl would. With --dry-run the exit code is 0 if the log is whole, 3 if records are missing,
    4 if that is unknown.
    """
    where = choose_namespace(namespace, context)
    policy = RequestedPolicy(what_if, downstream, begin_at, warm_up, only)
    changed = None if filename is None else _read_spec(filename, where, pipeline)
    nonce = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

    async def look(api: ApiCluster) -> Forecast:
        planned = await plan_start(api, where, pipeline, changed, nonce, policy=policy)
        return await forecast_start(api, operator_namespace, planned)

    async def begin(api: ApiCluster) -> Start:
        planned = await plan_start(api, where, pipeline, changed, nonce, policy=policy)
        await api.merge(planned.ref, planned.patch)
        return planned

    if dry_run:
        found = call(context, look)
        print_result(
            output,
            lambda: "\n".join(describe_forecast(found)),
            found.to_data,
            lambda: (name_resource("Pipeline", pipeline),),
        )
        raise typer.Exit(EXITS[found.verdict])
    call(context, begin)
    typer.echo(
        f"a reprocessing of Pipeline {pipeline} was requested; follow it: kappa reprocess watch {pipeline} -n {where}"
    )


def _read_spec(file: Path, namespace: str, pipeline: str) -> Body:
    """Return the spec of the Pipeline in a file; CommandError without one."""
    try:
        manifests = read_manifests(str(file), namespace)
        found = [
            each for each in manifests if each["kind"] == "Pipeline" and each["metadata"]["name"] == pipeline
        ]
    except ManifestError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    if len(found) != 1:
        raise CommandError(
            f"{file} has {len(found) or 'no'} Pipelines {pipeline!r}; it needs one", Exit.USAGE
        )
    spec: Body = found[0]["spec"]
    return spec
