"""The stored form of state in Python: JSON, which cannot run code when it is read.

A value is None, a boolean, a number, text, bytes, a Decimal, a list of values, or a dictionary of values by text. Tuples come back as
lists. NaN and infinite numbers are written as Python does. Earlier releases stored pickles, which are read but never written.
"""

import io
import json
import pickle
from decimal import Decimal
from typing import Any

Kept = dict[str, Any]
"""The state of an operator by key. A key without state is not in it."""

_TAG = "\0"
"""The only key of an object that is bytes or a Decimal. Keys of state are JSON or names, so they differ from it."""


def encode(kept: Kept) -> bytes:
    """Return state as bytes; TypeError for other types of values."""
    return _ENCODER.encode(kept).encode(errors="surrogatepass")


def decode(content: bytes) -> Kept:
    """Return the state that was encoded."""
    kept: Kept = _DECODER.decode(content.decode(errors="surrogatepass")) if content else {}
    return kept


def _tag(value: object) -> dict[str, str | list[str]]:
    if isinstance(value, bytes):
        return {_TAG: value.decode("latin-1")}
    if isinstance(value, Decimal):
        return {_TAG: [str(value)]}
    raise TypeError(f"{type(value).__name__} cannot be stored in state")


def _untag(found: dict[str, Any]) -> Any:
    if len(found) != 1 or _TAG not in found:
        return found
    value = found[_TAG]
    return value.encode("latin-1") if isinstance(value, str) else Decimal(value[0])


_ENCODER = json.JSONEncoder(default=_tag, ensure_ascii=False, check_circular=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(object_hook=_untag)


def is_pickled(content: bytes) -> bool:
    """Return whether an earlier release stored the state."""
    return content.startswith(pickle.PROTO)


def read_pickled(content: bytes) -> Kept:
    """Return state that an earlier release stored; pickle.UnpicklingError if it names anything but data."""
    kept: Kept = _DataUnpickler(io.BytesIO(content)).load()
    return kept


class _DataUnpickler(pickle.Unpickler):
    """Reads data: of all names that a pickle can contain, only Decimal exists."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) != ("decimal", "Decimal"):
            raise pickle.UnpicklingError(f"state may not name {module}.{name}")
        return Decimal
