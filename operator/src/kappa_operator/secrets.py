"""Values of Secrets, read from the API server. What is missing is a SecretProblem that names the Secret and the key.

A Secret that a resource names is read for a purpose only, which the Secret has to allow. The operator's own Secrets need no consent.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping

from kappa_operator.consent import WEBHOOK, Purpose, check_clear_text, check_consent
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import SecretProblem

_URL = re.compile(r"https?://[^/@?# ]+([/?][^# ]*)?")
"""As the rule of spec.remediation.webhook.url has it."""


async def read_secret(
    context: OperatorContext, ref: ObjectRef, keys: Iterable[str], purpose: Purpose, age: float = 0.0
) -> dict[str, str]:
    """Return these keys of a Secret as text, as they were at most `age` seconds ago; raise SecretProblem, also where it may not be used."""
    check_clear_text(purpose, context.settings)
    body = await _read(context, ref, age)
    try:
        check_consent(body, purpose, context.settings)
        return _decode_all(ref.name, keys, body)
    except SecretProblem:
        context.reads.drop(ref)  # a user may correct it
        raise


async def read_webhook_url(context: OperatorContext, ref: ObjectRef, key: str) -> str:
    """Return the address of a webhook in a Secret, which allows its use for the host in it; raise SecretProblem, which does not show it."""
    url = (await read_own_key(context, ref, key)).strip()
    if not is_webhook_url(url):
        raise SecretProblem.incomplete(
            ref.name, key, "is not an http or https address without user and password"
        )
    await read_secret(context, ref, (key,), Purpose.of_url(WEBHOOK, url, "an address with a token"))
    return url


def is_webhook_url(text: str) -> bool:
    """Return whether a text is the address of a webhook, without user and password."""
    return _URL.fullmatch(text) is not None


def decode(name: str, key: str, body: Body) -> str:
    """Return one value of a Secret as text; raise SecretProblem."""
    return _decode(name, key, body.get("data") or {})


async def read_own_key(context: OperatorContext, ref: ObjectRef, key: str, age: float = 0.0) -> str:
    """Return one value of a Secret that the operator created, as it was at most `age` seconds ago; raise SecretProblem."""
    body = await _read(context, ref, age)
    try:
        return _decode_all(ref.name, (key,), body)[key]
    except SecretProblem:
        context.reads.drop(ref)
        raise


def encode(text: str) -> str:
    """Return a text as the data of a Secret."""
    return base64.b64encode(text.encode()).decode()


async def _read(context: OperatorContext, ref: ObjectRef, age: float) -> Body:
    body = await context.read_recent(ref, age)
    if body is None:
        raise SecretProblem(f'Secret "{ref.name}" not found in namespace "{ref.namespace}"; create it')
    return body


def _decode_all(name: str, keys: Iterable[str], body: Body) -> dict[str, str]:
    data = body.get("data") or {}
    return {key: _decode(name, key, data) for key in keys}


def _decode(name: str, key: str, data: Mapping[str, str]) -> str:
    if not data.get(key):
        raise SecretProblem.incomplete(name, key, "is missing or empty")
    try:
        return base64.b64decode(data[key], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise SecretProblem.incomplete(name, key, "is not UTF-8 text") from None
