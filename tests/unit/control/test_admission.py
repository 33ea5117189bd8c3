"""The webhook as the API server calls it: it always says yes, and tells what it knows."""

import asyncio
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from fakes.cluster import FakeCluster
from fakes.context import Operator, build_resource
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.verdict.admission import build_admission_app, find_warnings
from unit.control.pipelines import SPEC

BODY = build_resource("Pipeline", "delays", **SPEC)
REVIEW = {"kind": "AdmissionReview", "request": {"uid": "u1", "operation": "CREATE", "object": BODY}}


async def ask(operator: Operator, path: str, review: Any) -> tuple[int, Any]:
    async with TestClient(TestServer(build_admission_app(operator.context, "s3cret"))) as client:
        response = await client.post(path, json=review)
        is_json = response.content_type == "application/json"
        return response.status, await response.json() if is_json else await response.text()


async def test_a_pipeline_is_accepted_with_warnings() -> None:
    status, answer = await ask(Operator(KIND_TABLE), "/pipelines/s3cret", REVIEW)
    assert status == 200
    assert answer["response"] == {
        "uid": "u1",
        "allowed": True,
        "warnings": [
            'delays: no driver starts until this is fixed: namespace "shop" has no KafkaCluster; create one'
        ],
    }


async def test_without_the_secret_path_nothing_is_returned() -> None:
    assert (await ask(Operator(KIND_TABLE), "/pipelines/guess", REVIEW))[0] == 404
    assert (await ask(Operator(KIND_TABLE), "/pipelines/", REVIEW))[0] == 404


async def test_what_is_no_review_is_refused_without_being_repeated() -> None:
    status, text = await ask(Operator(KIND_TABLE), "/pipelines/s3cret", {"request": "password"})
    assert (status, "password" in text) == (400, False)


class Hanging(FakeCluster):
    """An API server that does not answer."""

    async def get(self, ref: ObjectRef) -> dict[str, Any] | None:
        await asyncio.Event().wait()
        raise AssertionError("nobody waits so long")


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    applied = {**BODY, "status": {"revision": "delays-1"}}
    said = await find_warnings(Operator(KIND_TABLE, cluster=Hanging()).context, applied, patience=0.05)
    assert said == ("delays: what this means could not be found out in time; see `kappa plan`",)


async def test_what_cannot_be_judged_is_taken_all_the_same() -> None:
    status, answer = await ask(
        Operator(KIND_TABLE),
        "/pipelines/s3cret",
        {"request": {"uid": "u2", "object": {**BODY, "spec": {"sources": 7}}}},
    )
    assert (status, answer["response"]["allowed"]) == (200, True)
    assert "could not be found out" in answer["response"]["warnings"][0]
