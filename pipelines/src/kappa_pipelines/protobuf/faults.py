"""Why bytes are no message of a schema, for people.

Google's runtime keeps a field that has another wire type than the schema says as an unknown one and leaves the declared one unset;
here it is a fault. A field that the schema does not know is none.
"""

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from kappa_pipelines.protobuf.wire import (
    FIXED32,
    FIXED64,
    GROUP,
    LENGTH,
    VARINT,
    WIRE_NAMES,
    WireError,
    read_fields,
)

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


def find_fault(data: bytes, message: Descriptor) -> str | None:
    """Return what is wrong with the bytes of a message, None if nothing is."""
    try:
        for number, wire, content in read_fields(data):
            field = message.fields_by_number.get(number)
            fault = None if field is None else _find_field_fault(field, wire, content)
            if fault is not None:
                return fault
    except WireError as error:
        return str(error)
    return None


def _find_field_fault(field: FieldDescriptor, wire: int, content: bytes) -> str | None:
    wanted = _WIRE_TYPES.get(field.type, VARINT)
    is_packed = field.is_repeated and wire == LENGTH and wanted in (VARINT, FIXED32, FIXED64)
    if wire != wanted and not is_packed:
        return f"field {field.name} ({field.number}) is {WIRE_NAMES[wire]}, and the schema wants {WIRE_NAMES[wanted]}"
    if field.type == FieldDescriptor.TYPE_STRING and not _is_text(content):
        return f"field {field.name} ({field.number}) is not text in UTF-8"
    if field.message_type is not None:
        fault = find_fault(content, field.message_type)
        return None if fault is None else f"in field {field.name} ({field.number}): {fault}"
    return None


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
