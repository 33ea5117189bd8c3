"""Compiled schemas: descriptors as bytes for executors, and their classes there."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

MAIN_FILE = "kappa_schema.proto"
"""The name of the file for a schema's own text."""
_PACKAGE, _BATCH, _PAYLOADS = "kappa_batch", "Batch", "Payloads"


@dataclass(frozen=True)
class Schema:
    """A message type: its full name, and the file with all that it imports (a serialized FileDescriptorSet, imports first)."""

    files: bytes
    message: str


@dataclass(frozen=True)
class Types:
    """The classes of a schema in Google's runtime.

    `batch` has the message as its repeated field `rows`. `payloads` has bytes as that field: it writes what `batch` reads.
    """

    message: type[Any]
    batch: type[Any]
    payloads: type[Any]

    @property
    def descriptor(self) -> Descriptor:
        """Return the message's descriptor."""
        return cast(Descriptor, self.message.DESCRIPTOR)


@lru_cache(maxsize=64)
def load_types(schema: Schema) -> Types:
    """Return the classes of a schema, built once in a process; KeyError if it has no such message."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(schema.files).file:
        pool.Add(file)
    found = pool.FindMessageTypeByName(schema.message)
    pool.Add(_build_batches(found))
    batches = [pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in (_BATCH, _PAYLOADS)]
    return Types(*map(GetMessageClass, (found, *batches)))


def _build_batches(message: Descriptor) -> FileDescriptorProto:
    file = FileDescriptorProto(
        name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3", dependency=[message.file.name]
    )
    kind = FieldDescriptorProto
    for name, field_type in ((_BATCH, kind.TYPE_MESSAGE), (_PAYLOADS, kind.TYPE_BYTES)):
        rows = file.message_type.add(name=name).field.add(
            name="rows", number=1, label=kind.LABEL_REPEATED, type=field_type
        )
        if field_type == kind.TYPE_MESSAGE:
            rows.type_name = f".{message.full_name}"
    return file


def list_messages(files: bytes) -> dict[tuple[int, ...], str]:
    """Return the full names of the messages in a schema's own text, by their indexes in Confluent's format.

    The indexes are those in the file, then in each enclosing message. Entries of maps are messages for the compiler only and have
    no index, as in Confluent's own serializer.
    """
    (main,) = [file for file in FileDescriptorSet.FromString(files).file if file.name == MAIN_FILE]
    return dict(_walk(main.message_type, (), main.package))


def _walk(messages: Any, above: tuple[int, ...], scope: str) -> Iterator[tuple[tuple[int, ...], str]]:
    written = [message for message in messages if not message.options.map_entry]
    for index, message in enumerate(written):
        name = f"{scope}.{message.name}" if scope else message.name
        yield (*above, index), name
        yield from _walk(message.nested_type, (*above, index), name)
