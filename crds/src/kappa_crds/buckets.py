"""How a bucket of an S3-compatible store is reached, by the operator and by pods; and what such stores say when they refuse."""

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model

SECRET_VARIABLE = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable
KEY_VARIABLES = {"AWS_ACCESS_KEY_ID": "accessKeyId", SECRET_VARIABLE: "secretAccessKey"}
"""The variables in which pods find a bucket's keys, and the keys of the Secret that they come from."""
_TEXT_LIMIT = 400


class BucketConnection(Model):
    """Where a bucket's store is. Keys are variables of the pod, see `KEY_VARIABLES`; without them it is the pod's own identity."""

    endpoint: Annotated[str | None, Field(description="URL of the store; Amazon S3 where left out.")] = None
    region: str
    path_style: bool = True
    has_keys: bool = True


def explain_refusal(text: str, secrets: Iterable[str] = ()) -> tuple[str | None, str]:
    """Return the code in a client's error, where the store gave one, and what it said, without any secret."""
    code = _find(text, "Code")
    said = f"{code}: {_find(text, 'Message') or ''}" if code else _shorten(text)
    for secret in secrets:
        said = said.replace(secret, "(hidden)")
    return code, said


def _find(text: str, tag: str) -> str | None:
    found = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found[1].strip() if found else None


def _shorten(text: str) -> str:
    """Drop the library's debug dump, which follows the message after an empty line."""
    return " ".join(text.split("\n\nDebug source", maxsplit=1)[0].split())[:_TEXT_LIMIT]
