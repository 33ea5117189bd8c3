"""Values of Secrets, read from the API server. What is missing is a SecretProblem that names the Secret and the key."""

import base64
import binascii
from collections.abc import Iterable, Mapping

from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import SecretProblem


async def read_secret(
    context: OperatorContext, namespace: str, name: str, keys: Iterable[str], age: float = 0.0
) -> dict[str, str]:
    """Return these keys of a Secret as text, as they were at most `age` seconds ago; raise SecretProblem."""
    ref = ObjectRef("v1", "Secret", namespace, name)
    body = await context.read_recent(ref, age)
    if body is None:
        raise SecretProblem(f'Secret "{name}" not found in namespace "{namespace}"; create it')
    data = body.get("data") or {}
    try:
        return {key: _decode(name, key, data) for key in keys}
    except SecretProblem:
        context.reads.drop(ref)  # a user may correct it
        raise


async def read_secret_key(context: OperatorContext, ref: ObjectRef, key: str, age: float = 0.0) -> str:
    """Return one value of a Secret, as it was at most `age` seconds ago; raise SecretProblem."""
    return (await read_secret(context, ref.namespace, ref.name, (key,), age))[key]


def _decode(name: str, key: str, data: Mapping[str, str]) -> str:
    if not data.get(key):
        raise SecretProblem.incomplete(name, key, "is missing or empty")
    try:
        return base64.b64decode(data[key], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise SecretProblem.incomplete(name, key, "is not UTF-8 text") from None
