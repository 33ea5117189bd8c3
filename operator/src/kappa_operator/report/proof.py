"""Serves the proof that the log of a pipeline is whole: it is made on request, by a few requests to the brokers."""

from collections.abc import Callable

from aiohttp import web

from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.references import read_referred
from kappa_operator.errors import ReferenceProblem
from kappa_operator.fair import FairSlots
from kappa_operator.log.proof import LogProof
from kappa_operator.log.uses import read_start
from kappa_operator.pipeline.log import prove_pipeline
from kappa_operator.report.address import PROOF_PATH
from kappa_operator.report.serve import NOT_ACTING

_SLOTS = 4
"""Proofs at the same time."""


def add_proof(app: web.Application, context: OperatorContext, is_acting: Callable[[], bool]) -> None:
    """Serve GET /report/log while `is_acting`; `namespace` and `pipeline` name the pipeline, `start` is earliest, latest or a time."""
    slots = FairSlots(_SLOTS)

    async def respond(request: web.Request) -> web.Response:
        if not is_acting():
            return web.Response(
                text="this replica is not the leader; retry at another one", status=NOT_ACTING
            )
        query = request.query
        key = Key("Pipeline", query.get("namespace", ""), query.get("pipeline", ""))
        async with slots.hold(key.namespace):
            proof = await _prove(context, key, query.get("start"))
        return web.Response(
            text=proof.model_dump_json(by_alias=True, exclude_none=True), content_type="application/json"
        )

    app.add_routes([web.get(PROOF_PATH, respond)])


async def _prove(context: OperatorContext, key: Key, start: str | None) -> LogProof:
    """Return the proof; what is wrong with the request is its problem."""
    try:
        begin = None if start is None else read_start(start)
        return await prove_pipeline(context, read_referred(context.cache, key), begin)
    except (ReferenceProblem, ValueError) as error:
        return LogProof(at=context.now(), problem=str(error))
