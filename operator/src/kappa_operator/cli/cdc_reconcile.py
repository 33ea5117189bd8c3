"""`kappa cdc reconcile`: proves that a table and its topic are equal, and repairs rows that are not."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from kappa_operator.cdc import send, send_mysql
from kappa_operator.cdc.address import Address, DatabaseKind, parse_address
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.patterns import TablePattern
from kappa_operator.cdc.quoting import MYSQL, POSTGRESQL
from kappa_operator.cdc.reconcile.model import Proof, Request, Table, Verdict
from kappa_operator.cdc.reconcile.repair import build_signals
from kappa_operator.cdc.reconcile.run import reconcile as prove
from kappa_operator.cdc.reconcile.settings import parse_settings
from kappa_operator.cdc.reconcile.shape import DECIMALS, UNITS
from kappa_operator.cdc.signals import Signal
from kappa_operator.cli.cdc_options import (
    CaFile,
    PasswordFile,
    PlainText,
    complete_address,
    file_option,
    read_text,
)
from kappa_operator.cli.cdc_reconcile_view import build_reconcile_view
from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.options import OutputFormat, parse_duration_option
from kappa_operator.cli.output import Output, print_result
from kappa_operator.errors import KafkaFailure

_QUIET, _EVERY = 2.0, 2.0
"""Seconds until the first line about progress, and between two of them."""
_EXITS = {Verdict.EQUAL: Exit.OK, Verdict.DIFFERENT: Exit.FAILED, Verdict.UNDECIDED: Exit.UNKNOWN}


def reconcile(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            show_default=False,
            help="postgresql://USER@HOST[:PORT]/DATABASE of the primary server, or mariadb:// or mysql://USER@HOST[:PORT], without a password. SELECT on the table is enough; MySQL also needs LOCK TABLES and REPLICATION CLIENT, and RELOAD where transactions that write overlap.",
        ),
    ],
    *,
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="Topic of the table's change events.")],
    table: Annotated[str, typer.Option(metavar="SCHEMA.TABLE", help="The table.")],
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT", help="Brokers of Kafka, separated by commas.")],
    kafka_config: Annotated[
        Path | None,
        file_option(help="File with settings of the connection to Kafka, as NAME=VALUE with librdkafka's names."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column of the events' key; repeat it. Default: the primary key."),
    ] = None,
    ignore_column: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column that is excluded, masked or hashed by the connector; repeat it."),
    ] = None,
    time_precision_mode: Annotated[
        str, typer.Option(metavar="MODE", help=f"The connector's time.precision.mode: {', '.join(UNITS)}.")
    ] = "adaptive",
    decimal_handling_mode: Annotated[
        str, typer.Option(metavar="MODE", help=f"The connector's decimal.handling.mode: {', '.join(DECIMALS)}.")
    ] = "precise",
    slot: Annotated[
        str, typer.Option(metavar="NAME", help="Replication slot of the connector, if there are several.")
    ] = "",
    offsets_topic: Annotated[
        str,
        typer.Option(metavar="TOPIC", help="MariaDB and MySQL: topic of the offsets of Kafka Connect, to see how far the connector is in a database without changes.", show_default=False),
    ] = "",
    heartbeat_topic: Annotated[
        str,
        typer.Option(metavar="TOPIC", help="Topic of the connector's heartbeats. Default: __debezium-heartbeat.PREFIX.", show_default=False),
    ] = "",
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait for a connector that is behind.")
    ] = "5m",
    limit: Annotated[int, typer.Option(min=1, metavar="COUNT", help="Differences to list at most.")] = 100,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show values that differ; they may be personal data.")
    ] = False,
    signal_table: Annotated[
        str, typer.Option(metavar="SCHEMA.TABLE", help="Signal table of the connector, for the statements that repair.")
    ] = "",
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Write the signals to the signal table, so that the listed rows are read again."),
    ] = False,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    plain_text: PlainText = False,
    output: OutputFormat = Output.TABLE,
) -> None:  # fmt: skip
    """Prove that a table and the topic of its change events are equal, row for row, at one position of the database's log.

    Nothing is written without --repair. Exit code 0: equal; 1: rows differ; 2: the database or Kafka cannot be
    reached, or the table cannot be compared; 4: some rows could not be decided.
    """
    try:
        address = complete_address(parse_address(url), password_file, ca_file, plain_text=plain_text)
        signals_to = _parse_table(signal_table) if signal_table else None
        request = Request(
            table=_parse_table(
                table, "public" if address.kind is DatabaseKind.POSTGRESQL else address.database
            ),
            topic=topic,
            key=tuple(key or ()),
            ignored=frozenset(ignore_column or ()),
            units=_choose(time_precision_mode, UNITS, "--time-precision-mode"),
            decimals=_choose(decimal_handling_mode, DECIMALS, "--decimal-handling-mode"),
            slot=slot,
            heartbeats=heartbeat_topic,
            offsets=offsets_topic,
            wait=parse_duration_option(wait, "--wait"),
            listed=limit,
            show_values=show_values,
        )
        settings = parse_settings(read_text(kafka_config)) if kafka_config else {}
    except ValueError as error:
        raise CommandError(str(error), Exit.USAGE) from None
    if repair and signals_to is None:
        raise CommandError("--repair needs --signal-table", Exit.USAGE)
    found, proof = _prove(address, request, {**settings, "bootstrap.servers": bootstrap})
    dialect = POSTGRESQL if address.kind is DatabaseKind.POSTGRESQL else MYSQL
    name = f"kappa-{proof.position.replace('/', '-')}-{int(time.time())}"
    signals = build_signals(found, proof.differences, name, dialect)
    if repair and signals_to is not None and signals:
        _write(address, signals_to, signals)
    target = signals_to or TableName("SCHEMA", "SIGNAL_TABLE")
    statements = [each.build_statement(target, dialect) for each in signals]
    _print(proof, statements, output, is_written=repair)
    raise typer.Exit(_EXITS[proof.verdict])


def _parse_table(text: str, schema: str = "public") -> TableName:
    pattern = TablePattern.parse(text, schema)
    return TableName(pattern.schema, pattern.name)


def _choose(value: str, values: tuple[str, ...], option: str) -> str:
    if value not in values:
        raise ValueError(f"{option} is one of {', '.join(values)}")
    return value


def _prove(address: Address, request: Request, settings: Mapping[str, str]) -> tuple[Table, Proof]:
    try:
        return prove(address, request, settings, ProgressLines().report)
    except DatabaseProblem as error:
        raise CommandError(str(error), Exit.UNREACHABLE) from None
    except KafkaFailure as error:
        raise CommandError(f"Kafka: {error.message}", Exit.UNREACHABLE) from None
    except OSError as error:
        raise CommandError(f"a temporary file cannot be used: {error.strerror}", Exit.USAGE) from None


def _write(address: Address, table: TableName, signals: tuple[Signal, ...]) -> None:
    sender = send if address.kind is DatabaseKind.POSTGRESQL else send_mysql
    try:
        sender.write_signals(address, table, signals)
    except DatabaseProblem as error:
        raise CommandError(str(error)) from None


def _print(proof: Proof, statements: list[str], output: Output, *, is_written: bool) -> None:
    def build() -> dict[str, object]:
        return {
            **proof.to_manifest(),
            "repair": {"written": is_written and bool(statements), "statements": statements},
        }

    view = lambda: build_reconcile_view(proof, statements, is_written=is_written)  # noqa: E731
    print_result(output, view, build, lambda: (",".join(each.key) for each in proof.differences))


class ProgressLines:
    """Prints what a long command does, on stderr."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _QUIET

    def report(self, text: str) -> None:
        """Print a line, unless one was printed a moment ago."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY
            typer.echo(text, err=True)
