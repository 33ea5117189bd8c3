"""Access to a bucket of an S3-compatible store, by the operator and by pods, and the errors of such stores."""

import re
from collections.abc import Iterable

from kappa_crds.model import Model

DEFAULT_KEYS = "AWS"
"""Prefix of the variables in which the Python and JVM clients expect keys by default."""
_TEXT_LIMIT = 400


def name_key_variables(keys: str = DEFAULT_KEYS) -> dict[str, str]:
    """Return the variables in which a pod finds a bucket's keys, and the keys of the Secret that they come from."""
    return {f"{keys}_ACCESS_KEY_ID": "accessKeyId", f"{keys}_SECRET_ACCESS_KEY": "secretAccessKey"}


class BucketConnection(Model):
    """Where a bucket's store is. Keys are variables of the pod, see `name_key_variables`; without them it is the pod's own identity.

    A pod that reaches two stores finds the keys of each in variables of their own, whose names begin with `keys`.
    """

    endpoint: str | None = None
    """URL of the store; Amazon S3 where left out."""
    region: str
    path_style: bool = True
    has_keys: bool = True
    keys: str | None = None


def explain_refusal(text: str, secrets: Iterable[str] = ()) -> tuple[str | None, str]:
    """Return the code in a client error, if the store returned one, and its message, without any secret."""
    code = _find(text, "Code")
    message = f"{code}: {_find(text, 'Message') or ''}" if code else _shorten(text)
    for secret in filter(None, secrets):
        message = message.replace(secret, "(hidden)")
    return code, message


def _find(text: str, tag: str) -> str | None:
    found = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found[1].strip() if found else None


def _shorten(text: str) -> str:
    """Drop the library's debug dump, which follows the message after an empty line."""
    return " ".join(text.split("\n\nDebug source", maxsplit=1)[0].split())[:_TEXT_LIMIT]
