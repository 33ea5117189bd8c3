"""`kappa savepoint`: what it asks of the API server, how it waits, and what it shows."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fakes.cluster import FakeCluster
from fakes.context import build_resource
from kappa_crds.savepoint import Export, SavepointSpec
from kappa_crds.savepoint_work import VerifyBy
from kappa_crds.topic import DeletionPolicy
from kappa_operator.cli.errors import CommandError
from kappa_operator.cli.savepoint import savepoint as app
from kappa_operator.cli.savepoint_requests import (
    create_savepoint,
    list_savepoints,
    read_resource,
    refer,
    request_collection,
    request_export,
    request_restore,
    request_verification,
)
from kappa_operator.cli.savepoint_view import build_table, build_view
from kappa_operator.cli.wait import (
    Judge,
    judge_collected,
    judge_exported,
    judge_restored,
    judge_taken,
    judge_verified,
    wait_for,
)
from kappa_operator.engine.keys import Key
from kappa_operator.errors import AlreadyExists

ONE = Key("Savepoint", "shop", "one")
DELAYS = Key("Pipeline", "shop", "delays")
STORE = Key("StateStore", "shop", "main")
TAKEN: dict[str, Any] = {
    "taken": "2026-01-01T00:00:00Z", "state": "Ready", "size": "3 MiB, 1 KiB copied",
    "queries": [{"sink": "log", "batch": 7}],
}  # fmt: skip


def condition(kind: str, status: str, message: str = "said") -> dict[str, str]:
    at = "2026-01-01T00:00:00Z"
    return {
        "type": kind,
        "status": status,
        "reason": "SavepointReady",
        "message": message,
        "lastTransitionTime": at,
    }


def told(ready: str, stalled: str = "False", message: str = "said", **status: Any) -> dict[str, Any]:
    conditions = [condition("Ready", ready, message), condition("Stalled", stalled, message)]
    return {"observedGeneration": 1, "conditions": conditions, **status}


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    source = {"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING"}}}
    spec: dict[str, Any] = {
        "sources": [source],
        "sinks": [{"name": "log", "from": "events", "kafka": {"topic": "out"}}],
    }
    made.put(build_resource("Pipeline", "delays", **spec))
    made.put(build_resource("StateStore", "main", pvc={"size": "1Gi"}))
    return made


async def make(cluster: FakeCluster, **status: Any) -> None:
    await create_savepoint(cluster, ONE, SavepointSpec(pipeline_ref="delays"))
    cluster.patch(refer(ONE), status=status)


def spec_of(cluster: FakeCluster, key: Key) -> dict[str, Any]:
    found: dict[str, Any] = (cluster.read(refer(key)) or {})["spec"]
    return found


async def test_a_savepoint_is_created_of_a_pipeline_that_is_there(cluster: FakeCluster) -> None:
    await make(cluster)
    assert spec_of(cluster, ONE) == {
        "pipelineRef": "delays",
        "exports": [],
        "cause": "Manual",
        "deletionPolicy": "Delete",
    }
    with pytest.raises(
        CommandError, match='Pipeline "dleays" not found in namespace "shop"; found there: delays'
    ):
        await create_savepoint(cluster, ONE, SavepointSpec(pipeline_ref="dleays"))
    with pytest.raises(AlreadyExists):
        await make(cluster)


async def test_each_verification_needs_a_new_request(cluster: FakeCluster) -> None:
    await make(cluster)
    await request_verification(cluster, ONE, VerifyBy.STATE_READER, "now")
    assert spec_of(cluster, ONE)["verify"] == {"by": "StateReader", "request": "now"}
    with pytest.raises(CommandError, match='Savepoint "two" not found in namespace "shop"; found there: one'):
        await request_verification(cluster, Key("Savepoint", "shop", "two"), VerifyBy.CHECKSUMS, "now")


async def test_going_back_to_one_again_is_another_request(cluster: FakeCluster) -> None:
    await make(cluster, **TAKEN)
    assert await request_restore(cluster, ONE, None, "now") == DELAYS
    assert spec_of(cluster, DELAYS)["restore"] == {"savepoint": "one", "request": ""}
    await request_restore(cluster, ONE, None, "again")
    assert spec_of(cluster, DELAYS)["restore"] == {"savepoint": "one", "request": "again"}


async def test_nothing_goes_back_to_what_is_not_there_yet(cluster: FakeCluster) -> None:
    await make(cluster)
    with pytest.raises(CommandError, match="one is not taken yet"):
        await request_restore(cluster, ONE, None, "now")
    assert "restore" not in spec_of(cluster, DELAYS)


async def test_what_is_imported_needs_its_stores_and_no_pipeline(cluster: FakeCluster) -> None:
    spec = SavepointSpec.model_validate(
        {"pipelineRef": "gone", "import": {"name": "old-1a2b", "storeRef": "main"}}
    )
    await create_savepoint(cluster, ONE, spec)
    assert spec_of(cluster, ONE)["import"] == {"name": "old-1a2b", "storeRef": "main"}
    spec = SavepointSpec.model_validate(
        {"pipelineRef": "gone", "import": {"name": "old-1a2b", "storeRef": "mian"}}
    )
    with pytest.raises(
        CommandError, match='StateStore "mian" not found in namespace "shop"; found there: main'
    ):
        await create_savepoint(cluster, Key("Savepoint", "shop", "two"), spec)


async def test_an_export_is_added_to_the_others_and_one_again_is_another_request(
    cluster: FakeCluster,
) -> None:
    await make(cluster)
    cluster.put(build_resource("StateStore", "far", s3={"bucket": "far"}))
    await request_export(cluster, ONE, Export(store_ref="main"), "now")
    leaving = Export(store_ref="far", deletion_policy=DeletionPolicy.DELETE)
    await request_export(cluster, ONE, leaving, "now")
    exports = [
        {"storeRef": "main", "deletionPolicy": "Retain", "request": ""},
        {"storeRef": "far", "deletionPolicy": "Delete", "request": ""},
    ]
    assert spec_of(cluster, ONE)["exports"] == exports
    await request_export(cluster, ONE, Export(store_ref="main"), "again")
    assert spec_of(cluster, ONE)["exports"] == [exports[1], {**exports[0], "request": "again"}]
    with pytest.raises(
        CommandError, match='StateStore "fra" not found in namespace "shop"; found there: far, main'
    ):
        await request_export(cluster, ONE, Export(store_ref="fra"), "now")


@pytest.mark.parametrize("ends_well", [True, False])
async def test_a_copy_is_waited_for_by_its_request(cluster: FakeCluster, ends_well: bool) -> None:
    await make(cluster)
    await request_export(cluster, ONE, Export(store_ref="main"), "now")
    await request_export(cluster, ONE, Export(store_ref="main"), "again")
    copy: dict[str, Any] = {
        "storeRef": "main",
        "request": "again",
        "location": "s3a://b/one",
        "copiedBytes": 2048,
    }
    end = {"state": "Exported"} if ends_well else {"state": "Abandoned", "message": "given up: no bucket"}
    statuses = (
        {"exports": [copy | {"state": "Exported", "request": ""}]},
        {"exports": [copy | {"state": "Copying", "message": "a pod copies"}]},
        {"exports": [copy | end]},
    )
    waiting = Waiting(cluster, ONE, *statuses)
    if ends_well:
        assert await waiting.end(judge_exported("main")) == "s3a://b/one in StateStore main; 2 KiB copied"
    else:
        with pytest.raises(CommandError, match="given up: no bucket"):
            await waiting.end(judge_exported("main"))
    assert waiting.shown == ["waiting for the copy", "a pod copies"]


COMMANDS = (
    "create delays --verify Checksums --wait --timeout 5m",
    "export one --to far --delete",
    "import delays old-1a2b --from far --of old --of-namespace prod --to main --name brought",
    "restore one --to other -n shop",
    "verify one --by StateReader --context lab",
    "gc main",
)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_understood_up_to_the_cluster_that_is_not_there(
    line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    ended = CliRunner().invoke(app, line.split())
    assert ended.exit_code == 1, ended.output
    assert ended.stderr.startswith("error: "), ended.output


async def test_the_only_store_need_not_be_named(cluster: FakeCluster) -> None:
    assert await request_collection(cluster, "shop", None, "now") == STORE
    assert spec_of(cluster, STORE)["collection"] == {"request": "now"}
    cluster.put(build_resource("StateStore", "other", pvc={"size": "1Gi"}))
    with pytest.raises(CommandError, match="has several StateStores \\(main, other\\); name one"):
        await request_collection(cluster, "shop", None, "now")
    with pytest.raises(CommandError, match="has no StateStore; create one"):
        await request_collection(cluster, "empty", None, "now")


class Waiting:
    """A wait in which the resource gets the next status each time that it is looked at again."""

    def __init__(self, cluster: FakeCluster, key: Key, *statuses: dict[str, Any]) -> None:
        self.cluster, self.key, self.statuses = cluster, key, list(statuses)
        self.time, self.shown = 0.0, list[str]()

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.statuses:
            self.cluster.patch(refer(self.key), status=self.statuses.pop(0))

    async def end(self, judge: Judge, seconds: float = 60) -> str:
        await self.sleep(0)
        show, now = self.shown.append, lambda: self.time
        return await wait_for(self.cluster, self.key, judge, seconds, show, sleep=self.sleep, now=now)


async def test_progress_is_shown_once_and_the_end_is_reported(cluster: FakeCluster) -> None:
    await make(cluster)
    under_way = told("False", message="1 of 2 files are kept")
    waiting = Waiting(cluster, ONE, {}, under_way, under_way, told("True", message="batch 7 of log"))
    assert await waiting.end(judge_taken) == "batch 7 of log"
    assert waiting.shown == ["waiting for the operator", "1 of 2 files are kept"]


async def test_a_failure_ends_the_wait(cluster: FakeCluster) -> None:
    await make(cluster)
    with pytest.raises(CommandError, match="given up after 5 attempts"):
        await Waiting(cluster, ONE, told("False", "True", "given up after 5 attempts")).end(judge_taken)


async def test_a_lost_wait_continues_automatically(cluster: FakeCluster) -> None:
    await make(cluster)
    with pytest.raises(
        CommandError, match="not done within 5s, it continues in the cluster; last status: 1 of 2"
    ):
        await Waiting(cluster, ONE, told("False", message="1 of 2")).end(judge_taken, 5)


async def test_damage_that_is_found_is_a_failure(cluster: FakeCluster) -> None:
    await make(cluster)
    await request_verification(cluster, ONE, VerifyBy.CHECKSUMS, "now")
    verified = {"by": "Checksums", "request": "now"}
    before = told("True", observedGeneration=2, **TAKEN)
    for status in ("True", "False"):
        after = {**before, "verified": verified}
        after["conditions"] = [*before["conditions"], condition("Verified", status, "3 files")]
        waiting = Waiting(cluster, ONE, before, after)
        if status == "True":
            assert await waiting.end(judge_verified) == "3 files"
        else:
            with pytest.raises(CommandError, match="3 files"):
                await waiting.end(judge_verified)
        cluster.patch(refer(ONE), status={"verified": None})


async def test_a_pipeline_starts_from_it_if_its_spec_names_it(cluster: FakeCluster) -> None:
    await make(cluster, **TAKEN)
    await request_restore(cluster, ONE, None, "now")
    old = told("True", message="running", observedGeneration=2)
    new = {**old, "restored": {"savepoint": "one", "request": ""}}
    waiting = Waiting(cluster, DELAYS, old, {**new, **told("False", message="starting")}, new)
    await waiting.end(judge_restored)
    assert waiting.shown[0] == "running"


async def test_a_store_is_collected_when_its_last_request_is(cluster: FakeCluster) -> None:
    await request_collection(cluster, "shop", None, "now")
    done = {"number": 1, "request": "now", "at": "2026-01-01T00:00:00Z", "message": "all is free"}
    statuses: tuple[dict[str, Any], ...] = (
        {},
        {"collection": {**done, "state": "Running"}},
        {"collection": {**done, "state": "Done"}},
    )
    assert await Waiting(cluster, STORE, *statuses).end(judge_collected) == "all is free"


async def test_the_list_and_the_view_fit_on_a_screen(cluster: FakeCluster) -> None:
    await make(cluster, **told("True", message="batch 7 of log", **TAKEN))
    found = await list_savepoints(cluster, "shop", "delays")
    assert await list_savepoints(cluster, "shop", "other") == []
    text = io.StringIO()
    console = Console(file=text, width=120)
    console.print(build_table(found))
    header, line = text.getvalue().splitlines()
    assert header.split() == ["NAME", "PIPELINE", "STATE", "CAUSE", "SIZE", "TAKEN", "VERIFIED"]
    assert line.split() == [
        "one", "delays", "Ready", "Manual", "3", "MiB,", "1", "KiB", "copied", "2026-01-01", "00:00:00", "-",
    ]  # fmt: skip
    console.print(build_view(await read_resource(cluster, ONE)))
    assert "7 of log" in text.getvalue()
    assert "True, SavepointReady: batch 7 of log" in text.getvalue()
