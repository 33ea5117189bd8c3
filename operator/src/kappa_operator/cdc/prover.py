"""The program of a pod that compares tables with their topics: `python -m kappa_operator.cdc.prover REQUEST LOGIN KAFKA RESULT`.

REQUEST is the file with the request, LOGIN the folder with the log-in of the database, KAFKA the one of Kafka, and RESULT the file for the
answer. Tables are compared one after another. When the time is over, the others are undecided, and the answer has what was found by then.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kappa_crds.cdcsource_proof import ProofResult
from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cdc.errors import DatabaseProblem
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.login import build_address, read_text
from kappa_operator.cdc.mysql import gather_mysql
from kappa_operator.cdc.postgresql import gather_postgresql
from kappa_operator.cdc.proof import Compared, build_request, choose_tables, parse_patterns, summarize
from kappa_operator.cdc.proof_work import (
    KAFKA_CA,
    KAFKA_CERTIFICATE,
    KAFKA_KEY,
    KAFKA_PASSWORD,
    KAFKA_USER,
    ProofRequest,
)
from kappa_operator.cdc.reconcile.model import Proof, Request
from kappa_operator.cdc.reconcile.run import has_rows, reconcile
from kappa_operator.cdc.rules import Request as Rules
from kappa_operator.cdc.rules.postgresql_tables import list_published
from kappa_operator.errors import KafkaFailure, TopicMissing

_WITHOUT_ROWS = ("VIEW", "SEQUENCE")
"""Kinds of MariaDB that a connector does not read. Others are compared, or reported as undecided."""
_LATE = "the time of spec.proof.timeout was over"


class OutOfTime(KeyboardInterrupt):
    """The time for all tables is over. As an interruption, it has the client library cancel the query that is waited for."""


def prove(request: ProofRequest, login: Path, kafka: Path) -> ProofResult:
    """Compare the tables, and return what was found."""
    began = time.monotonic()
    address = build_address(request, login, request.kind)
    try:
        settings = build_settings(request, kafka)
        with _limit(request.seconds):
            tables = _list_tables(address, request)
        if not tables:
            return ProofResult(problem="no table matches spec.tables and spec.proof.tables")
    except OutOfTime:
        return ProofResult(problem=_LATE)
    except DatabaseProblem as problem:
        return ProofResult(problem=str(problem))
    compared = [_compare(address, request, each, settings, began + request.seconds) for each in tables]
    return summarize(compared, time.monotonic() - began)


def _list_tables(address: Address, request: ProofRequest) -> tuple[TableName, ...]:
    patterns = parse_patterns(request.include)
    if request.kind is DatabaseKind.MYSQL:
        stored = asyncio.run(gather_mysql(address, patterns)).tables
        return choose_tables((each.name for each in stored if each.kind not in _WITHOUT_ROWS), request)
    facts = asyncio.run(gather_postgresql(address, patterns, request.publication))
    published = list_published(facts, Rules(patterns, request.publication, slot=request.slot))
    return choose_tables((each.name for each in published), request)


def _compare(
    address: Address, request: ProofRequest, table: TableName, settings: Mapping[str, str], until: float
) -> Compared:
    """Compare a table, unless the time is over."""
    wanted = build_request(request, table)
    try:
        with _limit(until - time.monotonic()):
            return Compared(table, _reconcile(address, wanted, settings))
    except OutOfTime:
        return Compared(table, problem=_LATE)
    except (DatabaseProblem, KafkaFailure) as problem:
        return Compared(table, problem=str(problem))
    except OSError as error:
        return Compared(table, problem=f"a temporary file cannot be used: {error.strerror}")


def _reconcile(address: Address, request: Request, settings: Mapping[str, str]) -> Proof:
    """Compare a table. Debezium creates a topic with its first record, so a table without rows may have none."""
    try:
        return reconcile(address, request, settings, lambda _text: None)[1]
    except TopicMissing as missing:
        position, at, found = has_rows(address, request)
        proof = Proof(request.table, request.topic, position, at, rows=0, records=0)
        if not found:
            return proof
        return replace(proof, undecided_count=1, notes=(f"the table has rows, but {missing.message}",))


def build_settings(request: ProofRequest, folder: Path) -> dict[str, str]:
    """Return the settings of the client library; certificates stay in their files."""
    kafka = request.kafka
    settings = {"bootstrap.servers": ",".join(kafka.bootstrap), "security.protocol": kafka.protocol}
    if "ssl" in kafka.protocol:
        settings["ssl.endpoint.identification.algorithm"] = "https" if kafka.verify_hostname else "none"
        files = {
            "ssl.ca.location": KAFKA_CA,
            "ssl.certificate.location": KAFKA_CERTIFICATE,
            "ssl.key.location": KAFKA_KEY,
        }
        settings |= {name: str(folder / file) for name, file in files.items() if (folder / file).exists()}
    if kafka.mechanism:
        user, password = (read_text(folder / each) for each in (KAFKA_USER, KAFKA_PASSWORD))
        settings |= {"sasl.mechanism": kafka.mechanism, "sasl.username": user, "sasl.password": password}
    return settings


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the main thread after so many seconds; at once where there are none."""
    if seconds <= 0:
        raise OutOfTime
    before = signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise OutOfTime


def main(arguments: list[str]) -> int:
    """Run the program; return 0, or 1 where the answer has a problem."""
    request_file, login, kafka, result_file = map(Path, arguments)
    request = ProofRequest.model_validate_json(request_file.read_text())
    result = prove(request, login, kafka)
    result_file.write_text(result.model_dump_json(by_alias=True, exclude_none=True))
    return 1 if result.problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
