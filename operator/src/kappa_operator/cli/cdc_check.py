"""`kappa cdc check`: whether a database is ready for change data capture, and what fixes what is not."""

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from kappa_operator.cdc.address import Address, DatabaseKind, parse_address
from kappa_operator.cdc.check import check_address
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.findings import Finding, is_ready
from kappa_operator.cdc.patterns import TablePattern, parse_patterns
from kappa_operator.cdc.rules import Request
from kappa_operator.cli.cdc_options import CaFile, PasswordFile, PlainText, complete_address
from kappa_operator.cli.cdc_view import build_view
from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.options import OutputFormat, parse_duration_option
from kappa_operator.cli.output import Output, print_result


def check(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            show_default=False,
            help="postgresql://USER@HOST[:PORT]/DATABASE, mysql://… or mariadb://…, with the user of the connector and without a password.",
        ),
    ],
    *,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Tables, as SCHEMA.TABLE with * and ?. Default: all of public, or of DATABASE in MySQL.",
        ),
    ] = None,
    kind: Annotated[
        DatabaseKind | None,
        typer.Option(help="Kind of the database, for a URL without a scheme.", show_default=False),
    ] = None,
    publication: Annotated[
        str, typer.Option(metavar="NAME", help="Publication of the connector (PostgreSQL).")
    ] = "kappa",
    retention: Annotated[
        str,
        typer.Option(metavar="DURATION", help="How long the binary log must be kept (MySQL)."),
    ] = "3d",
    failover_slot: Annotated[
        bool,
        typer.Option("--failover-slot", help="Check whether a slot can survive a failover (PostgreSQL)."),
    ] = False,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    plain_text: PlainText = False,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Check whether a database is ready for change data capture, and print the statements that fix what is not.

    Nothing is written. Exit code 0: ready; 1: a finding is an error; 2: the database cannot be reached.
    """
    try:
        address = parse_address(url, kind)
        request = _build_request(address, table or [], publication, retention)
        request = replace(request, failover=failover_slot)
    except ValueError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    address = complete_address(address, password_file, ca_file, plain_text=plain_text)
    try:
        findings = asyncio.run(check_address(address, request))
    except DatabaseProblem as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from None
    _print(address, findings, output)
    if not is_ready(findings):
        raise typer.Exit(Exit.FAILED)


def _build_request(address: Address, table: list[str], publication: str, retention: str) -> Request:
    schema = "public" if address.kind is DatabaseKind.POSTGRESQL else address.database
    if not schema and not table:
        raise ValueError("the URL lacks a database: add it, or name tables with --table DATABASE.TABLE")
    patterns: tuple[TablePattern, ...] = parse_patterns(table, schema)
    return Request(patterns, publication, round(parse_duration_option(retention, "--retention")))


def _print(address: Address, findings: tuple[Finding, ...], output: Output) -> None:
    def build() -> dict[str, object]:
        manifests = [each.to_manifest() for each in findings]
        return {"kind": address.kind.value, "ready": is_ready(findings), "findings": manifests}

    print_result(output, lambda: build_view(findings), build, lambda: dict.fromkeys(x.rule for x in findings))
