"""The versions of a registered schema, and whether one can be read as another: by field numbers, as in Protobuf.

A missing field is unset, an additional one is ignored. Types with the same wire format can be read as each other. Source: Protocol
Buffers, Updating A Message Type.
"""

from dataclasses import dataclass
from functools import cached_property

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from kappa_pipelines.protobuf.indexes import Indexes
from kappa_pipelines.protobuf.kinds import WELL_KNOWN
from kappa_pipelines.protobuf.schema import Schema, list_messages, load_types

_TYPE_NAMES = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}
_FAMILIES = [
    {"int32", "int64", "uint32", "uint64", "bool", "enum"},
    {"sint32", "sint64"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
    {"string", "bytes"},
]
_MERGED = {"string", "bytes", "message", "group"}  # the last of several values counts


@dataclass(frozen=True)
class Version:
    """A schema that values may be written with: the id in the values, its name in messages, and its files.

    `conflict` is the reason why values cannot be read as the version whose fields are the columns.
    """

    id: int
    name: str
    files: bytes
    conflict: str | None = None

    @cached_property
    def messages(self) -> dict[Indexes, str]:
        """Return the full names of its messages by their indexes."""
        return list_messages(self.files)


def find_version_conflict(files: bytes, read: Schema) -> str | None:
    """Return why a schema's message in other files cannot be read as the schema; None if it can, or is not in the files."""
    if read.message not in list_messages(files).values():
        return None
    return find_conflict(load_types(Schema(files, read.message)).descriptor, load_types(read).descriptor)


def find_conflict(written: Descriptor, read: Descriptor) -> str | None:
    """Return why values of one message cannot be read as another, None if they can."""
    if read.full_name in WELL_KNOWN and read.full_name == written.full_name:
        return None
    for field in read.fields:
        other = written.fields_by_number.get(field.number)
        conflict = None if other is None else _find_field_conflict(other, field)
        if conflict is not None:
            return conflict
    return None


def _find_field_conflict(written: FieldDescriptor, read: FieldDescriptor) -> str | None:
    kinds = {_TYPE_NAMES[written.type], _TYPE_NAMES[read.type]}
    is_same = len(kinds) == 1 or any(kinds <= family for family in _FAMILIES)
    if not is_same or (written.is_repeated != read.is_repeated and not kinds <= _MERGED):
        return (
            f"field {read.number} is {_describe(written)}, and in the version that is read {_describe(read)}"
        )
    if written.message_type is None or read.message_type is None:
        return None
    inner = find_conflict(written.message_type, read.message_type)
    return None if inner is None else f"in field {read.name} ({read.number}): {inner}"


def _describe(field: FieldDescriptor) -> str:
    return ("repeated " if field.is_repeated else "") + _TYPE_NAMES[field.type]
