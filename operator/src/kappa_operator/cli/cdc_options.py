"""The options of `kappa cdc` about the database: its address, its password, and TLS."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cli.errors import CommandError, Exit

_VARIABLES = {DatabaseKind.POSTGRESQL: "PGPASSWORD", DatabaseKind.MYSQL: "MYSQL_PWD"}
file_option = partial(typer.Option, metavar="FILE", exists=True, dir_okay=False, show_default=False)

PasswordFile = Annotated[
    Path | None,
    file_option(help="File with the password. Otherwise it is read from the variable PGPASSWORD or MYSQL_PWD."),
]  # fmt: skip
CaFile = Annotated[
    Path | None,
    file_option(help="CA certificates in PEM. The certificate and the name of the server are verified with them."),
]  # fmt: skip
PlainText = Annotated[
    bool,
    typer.Option("--plain-text", help="Allow a connection without TLS to a host that is not loopback."),
]


def complete_address(
    address: Address, password_file: Path | None, ca_file: Path | None, *, plain_text: bool
) -> Address:
    """Return the address with its password, and with TLS unless that is allowed to be missing."""
    return replace(
        address,
        password=_read_password(address.kind, password_file),
        tls=ca_file is not None or not (plain_text or address.is_loopback),
        ca_file=str(ca_file or ""),
    )


def _read_password(kind: DatabaseKind, file: Path | None) -> str:
    return os.environ.get(_VARIABLES[kind], "") if file is None else read_text(file).rstrip("\r\n")


def read_text(file: Path) -> str:
    """Return the text of a file; CommandError where it is none."""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        raise CommandError(f"{file}: cannot be read as text", Exit.USAGE) from None
