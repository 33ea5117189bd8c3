"""Which messages may hold a field of another wire type than their schema says: a quick look, before the bytes are read field by field.

Google's runtime keeps such a field as an unknown one. So a message is suspect that has an unknown field with a number that its
schema knows, itself or in a message that it holds.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

Held = Callable[[Any], Iterable[Any]]
"""The messages that a message holds in one of its fields."""


class Suspicion:
    """Judges messages of one type, and of those that they hold. `known` are the judges of types that were met before."""

    def __init__(self, message: Descriptor, known: dict[str, "Suspicion"] | None = None) -> None:
        judges = {} if known is None else known
        judges[message.full_name] = self
        self._numbers = frozenset(message.fields_by_number)
        self._held = [
            (_build_held(message, field), judges.get(held.full_name) or Suspicion(held, judges))
            for field in message.fields
            if (held := _find_held(field)) is not None
        ]

    def is_suspect(self, message: Any) -> bool:
        """Return whether a message has to be looked at more closely."""
        if any(each.field_number in self._numbers for each in UnknownFieldSet(message)):  # type: ignore[attr-defined]
            return True
        return any(judge.is_suspect(each) for held, judge in self._held for each in held(message))


def _find_held(field: FieldDescriptor) -> Descriptor | None:
    """Return the type of the messages that a field holds; those of a map are its values."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return message.fields_by_name["value"].message_type
    return message


def _build_held(owner: Descriptor, field: FieldDescriptor) -> Held:
    get, name, has = attrgetter(field.name), field.name, GetMessageClass(owner).HasField
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return lambda message: get(message).values()
    if field.is_repeated:
        return get
    return lambda message: (get(message),) if has(message, name) else ()
