"""Reads and changes users of Kafka with SCRAM passwords, and their ACLs.

confluent-kafka's client reads responses of at most 24 KiB here (see `kafka.config`), which is too little for the ACLs of a large pipeline.
Any broker answers these requests and forwards changes to the controller. Reading needs Describe on the cluster, and changes need Alter.
Source of the messages: KIP-140 and KIP-554.
"""

import hashlib
import secrets
from collections.abc import Iterable
from typing import Any

from aiokafka.errors import for_code
from aiokafka.protocol.types import CompactBytes, Int8, Int16, Int32

from kappa_crds.reasons import Reason
from kappa_operator.engine import actions as act
from kappa_operator.errors import AuthorizationFailed, KafkaFailure, KafkaRefused
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.messages import NO_TAGS, TEXT, Call, array, declare, flexible
from kappa_operator.kafka.model import Acl, UserView

MOST_ACLS = 2000
_READ, _CHANGE = "the user cannot be read", "the user cannot be changed"
_ITERATIONS = 8192
_MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_KINDS = {"Topic": 2, "Group": 3, "Cluster": 4, "TransactionalId": 5, "DelegationToken": 6, "User": 7}
_PATTERNS = {"Literal": 3, "Prefixed": 4}
_OPERATIONS = {
    "All": 2, "Read": 3, "Write": 4, "Create": 5, "Delete": 6, "Alter": 7, "Describe": 8, "ClusterAction": 9,
    "DescribeConfigs": 10, "AlterConfigs": 11, "IdempotentWrite": 12,
}  # fmt: skip
_EFFECTS = {"Deny": 2, "Allow": 3}
_ANY = 1
_NO_USER, _NO_AUTHORIZER, _UNAUTHORIZED = 91, 54, (29, 30, 31)

_ACL = {"principal": TEXT, "host": TEXT, "operation": Int8, "effect": Int8}
_RESOURCE = {"kind": Int8, "name": TEXT, "pattern": Int8}
_RESULT = {"error_code": Int16, "error_message": TEXT}
_DESCRIBE_ACLS = declare(
    29,
    2,
    flexible(**_RESOURCE, **_ACL),
    flexible(throttle_time_ms=Int32, **_RESULT, resources=array(**_RESOURCE, acls=array(**_ACL))),
)
_CREATE_ACLS = declare(
    30,
    2,
    flexible(creations=array(**_RESOURCE, **_ACL)),
    flexible(throttle_time_ms=Int32, results=array(**_RESULT)),
)
_DELETE_ACLS = declare(
    31,
    2,
    flexible(filters=array(**_RESOURCE, **_ACL)),
    flexible(
        throttle_time_ms=Int32, results=array(**_RESULT, matching=array(**_RESULT, **_RESOURCE, **_ACL))
    ),
)
_DESCRIBE_USERS = declare(
    50,
    0,
    flexible(users=array(name=TEXT)),
    flexible(
        throttle_time_ms=Int32,
        **_RESULT,
        results=array(user=TEXT, **_RESULT, credentials=array(mechanism=Int8, iterations=Int32)),
    ),
)
_ALTER_USERS = declare(
    51,
    0,
    flexible(
        deletions=array(name=TEXT, mechanism=Int8),
        upsertions=array(
            name=TEXT, mechanism=Int8, iterations=Int32, salt=CompactBytes, password=CompactBytes
        ),
    ),
    flexible(throttle_time_ms=Int32, results=array(user=TEXT, **_RESULT)),
)


class UserClient:
    """Reads and changes users over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, user: str) -> UserView:
        """Return the user; raise KafkaFailure."""
        return UserView(await self._read_mechanisms(user), await self._read_acls(user))

    async def put(self, user: str, mechanism: str, password: str) -> None:
        """Create the user, or give it this password; raise KafkaFailure."""
        code, algorithm = _MECHANISMS[mechanism]
        salt = secrets.token_bytes(24)
        salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, _ITERATIONS)
        await self._alter([], [(user, code, _ITERATIONS, salt, salted, NO_TAGS)])

    async def apply(self, action: act.UserAction) -> None:
        """Make the change; a repeated one changes nothing. Raise KafkaFailure."""
        match action:
            case act.GrantPermissions(_, user, acls):
                await self._change_acls(_CREATE_ACLS, user, acls)
            case act.RevokePermissions(_, user, acls):
                await self._change_acls(_DELETE_ACLS, user, acls)
            case act.DeleteUser(_, user):
                await self._delete(user)

    async def _delete(self, user: str) -> None:
        """Delete the passwords first, so that no client logs in while its ACLs are deleted."""
        found = await self.read(user)
        codes = [_MECHANISMS[each][0] for each in sorted(found.mechanisms)]
        if codes:
            await self._alter([(user, code, NO_TAGS) for code in codes], [])
        await self._change_acls(_DELETE_ACLS, user, found.acls)

    async def _read_mechanisms(self, user: str) -> frozenset[str]:
        answer = await self._connection.ask(Call(_DESCRIBE_USERS, [(user, NO_TAGS)]), _READ)
        self._check(answer.error_code, answer.error_message, _READ, "Describe")
        found: set[str] = set()
        names = {code: name for name, (code, _) in _MECHANISMS.items()}
        for name, code, message, credentials, *_ in answer.results:
            if name != user or code == _NO_USER:
                continue
            self._check(code, message, _READ, "Describe")
            found |= {names[mechanism] for mechanism, *_ in credentials if mechanism in names}
        return frozenset(found)

    async def _read_acls(self, user: str) -> frozenset[Acl]:
        request = Call(_DESCRIBE_ACLS, _ANY, None, _ANY, _name_principal(user), None, _ANY, _ANY)
        answer = await self._connection.ask(request, _READ)
        self._check(answer.error_code, answer.error_message, _READ, "Describe")
        found = frozenset(_list_acls(answer.resources, user))
        if len(found) > MOST_ACLS:
            raise KafkaFailure(
                f"Kafka reports {len(found)} ACLs of user {user}; the operator reads at most {MOST_ACLS}",
                retryable=False,
            )
        return found

    async def _alter(self, deletions: list[Any], upsertions: list[Any]) -> None:
        answer = await self._connection.ask(Call(_ALTER_USERS, deletions, upsertions), _CHANGE)
        for _, code, message, *_ in answer.results:
            if code != _NO_USER:
                self._check(code, message, _CHANGE, "Alter")

    async def _change_acls(self, struct: Any, user: str, acls: Iterable[Acl]) -> None:
        entries = [(*_encode(acl, user), NO_TAGS) for acl in sorted(acls)]
        if not entries:
            return
        answer = await self._connection.ask(Call(struct, entries), _CHANGE)
        for code, message, *_ in answer.results:
            self._check(code, message, _CHANGE, "Alter")

    def _check(self, code: int, message: str | None, problem: str, needs: str) -> None:
        if code == 0:
            return
        if code == _NO_AUTHORIZER:
            raise KafkaRefused(
                "the brokers have no authorizer, so every user may do everything; set authorizer.class.name of the brokers, or"
                " remove spec.pipelineUsers of the KafkaCluster",
                code="SECURITY_DISABLED",
                reason=Reason.KAFKA_WITHOUT_ACLS,
            )
        if code in _UNAUTHORIZED:
            raise AuthorizationFailed(
                f"{problem}: the operator's user in Kafka needs {needs} on the cluster", retryable=False
            )
        error = for_code(code)
        text = self._connection.hide(f"{problem}: {error.__name__} ({code}): {message or error.description}")
        raise KafkaFailure(text) if error.retriable else KafkaRefused(text, code=error.__name__)


def _name_principal(user: str) -> str:
    return f"User:{user}"


def _encode(acl: Acl, user: str) -> tuple[int | str, ...]:
    return (
        _KINDS[acl.kind], acl.name, _PATTERNS[acl.pattern],
        _name_principal(user), acl.host, _OPERATIONS[acl.operation], _EFFECTS[acl.effect],
    )  # fmt: skip


def _list_acls(resources: Iterable[Any], user: str) -> Iterable[Acl]:
    """Yield the ACLs of just this user. Those with codes that this release does not know are left out."""
    kinds, patterns, operations, effects = map(_invert, (_KINDS, _PATTERNS, _OPERATIONS, _EFFECTS))
    for kind, name, pattern, acls, _ in resources:
        for principal, host, operation, effect, _tags in acls:
            words = (kinds.get(kind), patterns.get(pattern), operations.get(operation), effects.get(effect))
            if principal == _name_principal(user) and all(words):
                yield Acl(*map(str, (words[0], name, words[1], words[2], host, words[3])))


def _invert(codes: dict[str, int]) -> dict[int, str]:
    return {code: word for word, code in codes.items()}
