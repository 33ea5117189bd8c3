"""The columns of a message type: a tree of kinds, which reads the fields of many messages, field by field."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import StructField, StructType

from kappa_pipelines.protobuf.kinds import (
    EMPTY,
    SCALARS,
    WELL_KNOWN,
    BadValueError,
    Kind,
    build_enum,
    build_list,
    build_map,
)

MAX_COLUMNS = 10_000
"""Columns of a message, with those of nested messages; a few lines of schema can declare millions."""


class BadSchemaError(ValueError):
    """A message type cannot become columns."""


def check_columns(message: Descriptor) -> None:
    """Raise BadSchemaError unless a message has columns, not too many, and is not recursive."""
    if not message.fields:
        raise BadSchemaError(f"message {message.full_name} has no fields, so there are no columns")
    if _count_columns(message, (), {}) > MAX_COLUMNS:
        raise BadSchemaError(
            f"message {message.full_name} has more than {MAX_COLUMNS} columns, with those of nested messages; remove fields that no view needs"
        )


def _count_columns(message: Descriptor, above: tuple[Descriptor, ...], known: dict[str, int]) -> int:
    if message.full_name in WELL_KNOWN:
        return 0
    if message in above:
        path = " → ".join(each.full_name for each in (*above[above.index(message) :], message))
        raise BadSchemaError(
            f"message {message.full_name} is recursive ({path}) and cannot become a column; remove a field of this cycle"
        )
    if message.full_name not in known:
        inner = [field.message_type for field in message.fields if field.message_type is not None]
        nested = sum(_count_columns(each, (*above, message), known) for each in inner)
        known[message.full_name] = len(message.fields) + nested
    return known[message.full_name]


def build_columns(message: Descriptor) -> Kind:
    """Return the kind of a message that passed `check_columns`: a struct of its fields, NULL if there is no message."""
    owner = GetMessageClass(message)
    fields = [(field.name, _build_kind(field), _build_read(owner, field)) for field in message.fields]
    names = [name for name, _, _ in fields]
    nothing = owner()

    def build(messages: list[Any]) -> pa.Array:
        absent = [each is None for each in messages]
        filled = [nothing if each is None else each for each in messages] if any(absent) else messages
        arrays = [_build_array(name, kind, read(filled)) for name, kind, read in fields]
        return pa.StructArray.from_arrays(arrays, names=names, mask=pa.array(absent, pa.bool_()))

    return Kind(StructType([StructField(name, kind.type) for name, kind, _ in fields]), build)


def _build_array(name: str, kind: Kind, values: list[Any]) -> pa.Array:
    """Return a field's values in an array; BadValueError names the field."""
    try:
        return kind.build(values)
    except BadValueError as error:
        raise BadValueError(f"{name}: {error}") from error


def _build_kind(field: FieldDescriptor) -> Kind:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return build_map(_build_item(key), _build_item(value))
    return build_list(_build_item(field)) if field.is_repeated else _build_item(field)


def _build_item(field: FieldDescriptor) -> Kind:
    """Return the kind of one value of a field."""
    if field.enum_type is not None:
        return build_enum(field.enum_type)
    message = field.message_type
    if message is None:
        return SCALARS[field.type]
    return WELL_KNOWN.get(message.full_name) or (build_columns(message) if message.fields else EMPTY)


def _build_read(owner: type[Message], field: FieldDescriptor) -> Callable[[list[Any]], list[Any]]:
    """Return the function that reads a field of many messages: None where it has presence, is not set and has no declared default."""
    get, has, name = attrgetter(field.name), owner.HasField, field.name
    if field.has_presence and not field.has_default_value:
        return lambda messages: [get(each) if has(each, name) else None for each in messages]
    return lambda messages: list(map(get, messages))
