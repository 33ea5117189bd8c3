"""Fields of another wire type than their schema declares.

Google's runtime keeps such a field as an unknown one and leaves the declared one unset; here it is a fault of the message.
A field number that the schema does not have is not.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

VARINT, FIXED64, LENGTH, GROUP, FIXED32 = 0, 1, 2, 3, 5
WIRE_NAMES = {
    VARINT: "a varint",
    FIXED64: "8 bytes",
    LENGTH: "bytes with a length",
    GROUP: "a group",
    FIXED32: "4 bytes",
}
_WIRE_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: FIXED64,
    FieldDescriptor.TYPE_FIXED64: FIXED64,
    FieldDescriptor.TYPE_SFIXED64: FIXED64,
    FieldDescriptor.TYPE_FLOAT: FIXED32,
    FieldDescriptor.TYPE_FIXED32: FIXED32,
    FieldDescriptor.TYPE_SFIXED32: FIXED32,
    FieldDescriptor.TYPE_STRING: LENGTH,
    FieldDescriptor.TYPE_BYTES: LENGTH,
    FieldDescriptor.TYPE_MESSAGE: LENGTH,
    FieldDescriptor.TYPE_GROUP: GROUP,
}


class _Nested(NamedTuple):
    """A field with messages: how to list them, and the checker of their type."""

    field: FieldDescriptor
    list: Callable[[Any], Iterable[Any]]
    checker: "FaultFinder"


class FaultFinder:
    """Checks messages of one type and the messages in them. `known` are the checkers of the types above, which may recur."""

    def __init__(self, message: Descriptor, known: dict[str, "FaultFinder"] | None = None) -> None:
        known = {} if known is None else known
        known[message.full_name] = self
        self._fields = dict(message.fields_by_number)
        self._nested = [
            _Nested(
                field, _build_list(message, field), known.get(inner.full_name) or FaultFinder(inner, known)
            )
            for field in message.fields
            if (inner := _find_inner(field)) is not None
        ]

    def find(self, message: Any) -> str | None:
        """Return the first fault of a message, None if it has none."""
        for unknown in UnknownFieldSet(message):  # type: ignore[attr-defined]
            field = self._fields.get(unknown.field_number)
            fault = None if field is None else _find_field_fault(field, unknown)
            if fault is not None:
                return fault
        for nested in self._nested:
            for inner in nested.list(message):
                fault = nested.checker.find(inner)
                if fault is not None:
                    return _name_inner(nested.field, fault)
        return None


def _find_field_fault(field: FieldDescriptor, unknown: Any) -> str | None:
    """Return the fault of an unknown field with the number of a declared one. A value that its enum does not have is none."""
    wanted, found = _WIRE_TYPES.get(field.type, VARINT), unknown.wire_type
    is_packed = field.is_repeated and found == LENGTH and wanted in (VARINT, FIXED32, FIXED64)
    if found != wanted and not is_packed:
        return f"field {field.name} ({field.number}) is {WIRE_NAMES[found]}, and the schema wants {WIRE_NAMES[wanted]}"
    entry = _find_entry(field)
    if entry is None:
        return None
    # The runtime keeps the whole entry as unknown.
    fault = FaultFinder(entry).find(GetMessageClass(entry).FromString(unknown.data))
    return None if fault is None else _name_inner(field, fault)


def _name_inner(field: FieldDescriptor, fault: str) -> str:
    return f"in field {field.name} ({field.number}): {fault}"


def _find_entry(field: FieldDescriptor) -> Descriptor | None:
    """Return the type of a map's entries, None for a field that is no map."""
    message = field.message_type
    return message if message is not None and message.GetOptions().map_entry else None


def _find_inner(field: FieldDescriptor) -> Descriptor | None:
    """Return the type of the messages in a field; those of a map are its values."""
    entry = _find_entry(field)
    return field.message_type if entry is None else entry.fields_by_name["value"].message_type


def _build_list(owner: Descriptor, field: FieldDescriptor) -> Callable[[Any], Iterable[Any]]:
    get, name, has = attrgetter(field.name), field.name, GetMessageClass(owner).HasField
    if _find_entry(field) is not None:
        return lambda message: get(message).values()
    if field.is_repeated:
        return get
    return lambda message: (get(message),) if has(message, name) else ()
