"""Varints and wire types. Messages are decoded by Google's runtime. Source: Protocol Buffers, Encoding."""

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)
WIRE_NAMES = {
    VARINT: "a varint",
    FIXED64: "8 bytes",
    LENGTH: "bytes with a length",
    GROUP: "a group",
    FIXED32: "4 bytes",
}
_LONGEST_VARINT = 10  # bytes


class WireError(ValueError):
    """Bytes are not a varint."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a position, and the position after it."""
    value = 0
    for index in range(_LONGEST_VARINT):
        if at + index >= len(data):
            raise WireError("a number is truncated")
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
