"""The bytes of Protobuf messages, read field by field without a schema: to say what is wrong with those that are none.

Messages that are right are never read by this, but by Google's runtime. Source: Protocol Buffers, Encoding.
"""

from collections.abc import Iterator

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)
WIRE_NAMES = {
    VARINT: "a varint",
    FIXED64: "8 bytes",
    LENGTH: "bytes with a length",
    GROUP: "a group",
    FIXED32: "4 bytes",
}
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT = 10  # bytes
_DEEPEST = 100  # groups in groups; Google's runtime refuses more too
_CUT = "they end within a field"

Field = tuple[int, int, bytes]
"""Number, wire type, and content: without length, and without the tag that ends a group."""


class WireError(ValueError):
    """Bytes are no fields; the text says why."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a position, and the position after it."""
    value = 0
    for index in range(_LONGEST_VARINT):
        if at + index >= len(data):
            raise WireError(_CUT)
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise WireError(f"a number has more than {_LONGEST_VARINT} bytes")


def write_varint(value: int) -> bytes:
    """Return the bytes of a number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message; WireError where the bytes are none."""
    at = 0
    while at < len(data):
        number, wire, at = _read_tag(data, at)
        if wire == END_GROUP:
            raise WireError(f"group {number} ends and has not begun")
        start, end, at = _find_content(data, at, number, wire, 1)
        yield number, wire, data[start:end]


def _read_tag(data: bytes, at: int) -> tuple[int, int, int]:
    tag, at = read_varint(data, at)
    number, wire = tag >> 3, tag & 7
    if number == 0 or wire > FIXED32:
        raise WireError(f"there is no field with number {number} and wire type {wire}")
    return number, wire, at


def _find_content(data: bytes, at: int, number: int, wire: int, depth: int) -> tuple[int, int, int]:
    """Return where a field's content begins and ends, and where the next field begins."""
    if wire == GROUP:
        end, after = _find_group_end(data, at, number, depth)
        return at, end, after
    if wire == VARINT:
        _, end = read_varint(data, at)
    elif wire == LENGTH:
        size, at = read_varint(data, at)
        end = at + size
    else:
        end = at + _FIXED_BYTES[wire]
    if end > len(data):
        raise WireError(_CUT)
    return at, end, end


def _find_group_end(data: bytes, at: int, number: int, depth: int) -> tuple[int, int]:
    if depth > _DEEPEST:
        raise WireError(f"groups are more than {_DEEPEST} deep")
    while at < len(data):
        end = at
        inner, wire, at = _read_tag(data, at)
        if wire == END_GROUP:
            if inner != number:
                raise WireError(f"group {number} ends as group {inner}")
            return end, at
        _, _, at = _find_content(data, at, inner, wire, depth + 1)
    raise WireError(_CUT)
