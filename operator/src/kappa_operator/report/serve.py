"""Serves reports, for requests through the API server: read-only, and only on the leader."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web

from kappa_operator.engine.context import OperatorContext
from kappa_operator.report.address import REPORT_PATH
from kappa_operator.report.build import ReportInput, build_report
from kappa_operator.report.gather import gather_report

NOT_ACTING = HTTPStatus.MISDIRECTED_REQUEST
"""The status for a replica that is not the leader."""


def add_report(app: web.Application, context: OperatorContext, is_acting: Callable[[], bool]) -> None:
    """Serve GET /report while `is_acting`; `namespace` limits it, `partitions=true` adds each partition of each group."""

    async def respond(request: web.Request) -> web.Response:
        if not is_acting():
            return web.Response(
                text="this replica is not the leader; retry at another one", status=NOT_ACTING
            )
        inputs = gather_report(context, request.query.get("namespace"))
        with_partitions = request.query.get("partitions") == "true"
        text = await asyncio.to_thread(_write, context, inputs, with_partitions)
        return web.Response(text=text, content_type="application/json")

    app.add_routes([web.get(REPORT_PATH, respond)])


def _write(context: OperatorContext, inputs: ReportInput, with_partitions: bool) -> str:
    report = build_report(inputs, context.now(), with_partitions=with_partitions)
    return report.model_dump_json(by_alias=True, exclude_none=True)
