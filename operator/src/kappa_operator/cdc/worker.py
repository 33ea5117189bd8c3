"""The program of a pod that works in a database: `python -m kappa_operator.cdc.worker REQUEST LOGIN RESULT`.

REQUEST is the file with the request, LOGIN the folder with username, password and, with TLS, ca.crt, and RESULT the file for the answer.
Texts of the server are in neither the answer nor the log.
"""

import asyncio
import sys
from pathlib import Path

from kappa_operator.cdc import send, send_mysql
from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cdc.check import gather_facts
from kappa_operator.cdc.drop import drop_replication
from kappa_operator.cdc.errors import ConnectDenied, DatabaseProblem
from kappa_operator.cdc.login import build_address
from kappa_operator.cdc.outcome import build_request, judge
from kappa_operator.cdc.rules import describe_connect_denied
from kappa_operator.cdc.work import DatabaseRequest, DatabaseResult, DatabaseTask, FoundProblem


async def work(request: DatabaseRequest, login: Path) -> DatabaseResult:
    """Do what is requested, and return what was found or done."""
    address = build_address(request, login, DatabaseKind(request.kind))
    try:
        if request.signal is not None:
            is_mysql = address.kind is DatabaseKind.MYSQL
            send_signal = send_mysql.send_signal if is_mysql else send.send_signal
            return await send_signal(address, request.signal)
        if request.task is not DatabaseTask.CHECK:
            publication = request.publication if request.drop_publication else ""
            dropped = await drop_replication(
                address, request.slot, publication, least_retained=request.least_retained
            )
            return DatabaseResult(dropped=dropped)
        return judge(await gather_facts(address, build_request(request)), request)
    except ConnectDenied:
        return _describe_denied(address)
    except DatabaseProblem as problem:
        return DatabaseResult(problem=str(problem))


def _describe_denied(address: Address) -> DatabaseResult:
    finding = describe_connect_denied(address.user, address.database)
    problem = FoundProblem(
        severity=finding.severity, rule=finding.rule, subject=finding.subject,
        message=f"{finding.message} {finding.why}", statement=" ".join(finding.statements),
    )  # fmt: skip
    return DatabaseResult(errors=1, findings=(problem,))


def main(arguments: list[str]) -> int:
    """Run the program; return 0, or 1 where the answer has a problem."""
    request_file, login, result_file = map(Path, arguments)
    request = DatabaseRequest.model_validate_json(request_file.read_text())
    result = asyncio.run(work(request, login))
    result_file.write_text(result.model_dump_json(by_alias=True, exclude_none=True))
    return 1 if result.problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
