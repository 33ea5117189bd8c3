"""What brokers answer about users: only what concerns the user counts, and an error says what is missing."""

from types import SimpleNamespace
from typing import Any

import pytest

from kappa_crds.reasons import Reason
from kappa_operator.engine import actions as act
from kappa_operator.engine.keys import Key
from kappa_operator.errors import AuthorizationFailed, KafkaFailure
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.model import Acl, KafkaAccess, UserView
from kappa_operator.kafka.users import MOST_ACLS, UserClient

CLUSTER = Key("KafkaCluster", "shop", "main")
READ = Acl("Topic", "in", "Literal", "Read")
ANSWERS: dict[int, dict[str, Any]] = {
    50: {"error_code": 0, "error_message": None, "results": [("u", 0, None, [(2, 4096, {})], {})]},
    29: {
        "error_code": 0,
        "error_message": None,
        "resources": [(2, "in", 3, [("User:u", "*", 3, 3, {})], {})],
    },
    30: {"results": [(0, None, {})]},
    31: {"results": [(0, None, [], {})]},
    51: {"results": [("u", 0, None, {})]},
}


class ScriptedConnection(Connection):
    """A connection to a broker that answers each kind of request with the same, and remembers what it was asked."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        super().__init__(KafkaAccess.of({}, ("s3cret",)))
        self.answers = ANSWERS | {int(key.removeprefix("api")): value for key, value in answers.items()}
        self.requests: list[int] = []

    async def ask(self, request: Any, problem: str) -> Any:
        """Return the answer."""
        self.requests.append(request.API_KEY)
        return SimpleNamespace(**self.answers[request.API_KEY])


async def test_a_user_is_its_mechanisms_and_its_acls() -> None:
    view = await UserClient(ScriptedConnection()).read("u")
    assert view == UserView(frozenset({"SCRAM-SHA-512"}), frozenset({READ}))


async def test_answers_about_others_and_unknown_codes_are_left_out() -> None:
    entries: list[Any] = [
        ("User:u", "*", 3, 3, {}),
        ("User:admin", "*", 4, 3, {}),
        ("User:u", "*", 99, 3, {}),
    ]
    users: list[Any] = [("admin", 0, None, [(1, 4096, {})], {}), ("u", 91, "not found", [], {})]
    connection = ScriptedConnection(
        api29={"error_code": 0, "error_message": None, "resources": [(2, "in", 3, entries, {})]},
        api50={"error_code": 0, "error_message": None, "results": users},
    )
    assert await UserClient(connection).read("u") == UserView(frozenset(), frozenset({READ}))


@pytest.mark.parametrize("code", [29, 30, 31])
async def test_a_missing_permission_is_named(code: int) -> None:
    described = ScriptedConnection(api50={"error_code": code, "error_message": "no", "results": []})
    with pytest.raises(AuthorizationFailed, match="needs Describe on the cluster"):
        await UserClient(described).read("u")
    granted = ScriptedConnection(api30={"results": [(code, "no", {})]})
    with pytest.raises(AuthorizationFailed, match="needs Alter on the cluster"):
        await UserClient(granted).apply(act.GrantPermissions(CLUSTER, "u", (READ,)))


async def test_a_broker_without_authorizer_is_told_apart() -> None:
    connection = ScriptedConnection(api29={"error_code": 54, "error_message": None, "resources": []})
    with pytest.raises(KafkaFailure) as refusal:
        await UserClient(connection).read("u")
    assert (refusal.value.reason, refusal.value.retryable) == (Reason.KAFKA_WITHOUT_ACLS, False)


async def test_a_message_of_a_broker_shows_no_secret() -> None:
    connection = ScriptedConnection(api51={"results": [("u", 42, "bad s3cret", {})]})
    with pytest.raises(KafkaFailure) as refusal:
        await UserClient(connection).put("u", "SCRAM-SHA-512", "new")
    assert "s3cret" not in refusal.value.message


async def test_more_acls_than_are_read_are_refused() -> None:
    entries: list[Any] = [("User:u", f"host-{number}", 3, 3, {}) for number in range(MOST_ACLS + 1)]
    connection = ScriptedConnection(
        api29={"error_code": 0, "error_message": None, "resources": [(2, "in", 3, entries, {})]}
    )
    with pytest.raises(KafkaFailure, match="reads at most"):
        await UserClient(connection).read("u")


async def test_a_user_is_deleted_before_its_acls_and_one_that_is_gone_is_fine() -> None:
    connection = ScriptedConnection()
    await UserClient(connection).apply(act.DeleteUser(CLUSTER, "u"))
    assert connection.requests == [50, 29, 51, 31]
    gone = ScriptedConnection(
        api50={"error_code": 0, "error_message": None, "results": [("u", 91, "not found", [], {})]},
        api29={"error_code": 0, "error_message": None, "resources": []},
    )
    await UserClient(gone).apply(act.DeleteUser(CLUSTER, "u"))
    assert gone.requests == [50, 29]
