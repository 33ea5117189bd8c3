"""`kappa reprocess check`: whether the log of a pipeline is whole, and what is missing."""

from typing import Annotated, Any

import typer

from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.options import Context, Namespace, OperatorNamespace, OutputFormat
from kappa_operator.cli.output import Output, name_resource, print_result
from kappa_operator.cli.report_read import OperatorUnavailable, request_answer
from kappa_operator.cli.reprocess_check_view import build_check_view
from kappa_operator.cli.requests import call, choose_namespace
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.log.proof import LogProof, Verdict
from kappa_operator.log.uses import read_start
from kappa_operator.report.address import PROOF_PATH

EXITS = {Verdict.WHOLE: Exit.OK, Verdict.MISSING: Exit.UNHEALTHY, Verdict.UNKNOWN: Exit.UNKNOWN}
"""Exit codes by the verdict on a log."""


def check(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The Pipeline.")],
    *,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="START",
            show_default=False,
            help="Where the run would start: earliest, or a time such as 2013-01-01T00:00:00Z. Default: startingOffsets of each source.",
        ),
    ] = "",
    namespace: Namespace = "",
    operator_namespace: OperatorNamespace = "kappa-system",
    output: OutputFormat = Output.TABLE,
    context: Context = None,
) -> None:
    """Prove that the topics of a pipeline still have all records that a reprocessing needs.

    Nothing is changed and no record is read. Exit code 0: the log is whole; 3: records are missing; 4: unknown.
    """
    query = {"namespace": choose_namespace(namespace, context), "pipeline": pipeline}
    if start:
        _check_start(start)
        query["start"] = start

    async def ask(api: ApiCluster) -> LogProof:
        return await request_answer(api, operator_namespace, PROOF_PATH, query, LogProof)

    try:
        proof = call(context, ask)
    except OperatorUnavailable as error:
        raise CommandError(str(error), Exit.UNKNOWN) from None
    if proof.problem:
        raise CommandError(proof.problem, Exit.UNKNOWN)
    print_result(
        output,
        lambda: build_check_view(proof, wide=output is Output.WIDE),
        lambda: build_data(proof),
        lambda: (name_resource("Pipeline", pipeline),),
    )
    raise typer.Exit(EXITS[proof.verdict])


def build_data(proof: LogProof) -> dict[str, Any]:
    """Return the proof with its verdict as JSON-compatible values."""
    return {"verdict": proof.verdict.value, **proof.to_manifest()}


def _check_start(text: str) -> None:
    try:
        read_start(text)
    except ValueError as error:
        raise CommandError(f"--from: {error}", Exit.USAGE) from None
