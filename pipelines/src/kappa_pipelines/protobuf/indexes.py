"""The message type of a value: the array of indexes that Confluent's format has between the schema's id and the message.

The length and each index are varints in zigzag; the array `[0]`, the first message, is written as a single 0. Source: Confluent
Schema Registry, "Formats, Serializers, and Deserializers: Wire format".
"""

FIRST = (0,)
_MOST = 100  # messages in messages; protoc takes fewer

_LONGEST_NUMBER = 10  # bytes of a varint

Indexes = tuple[int, ...]


class WireError(ValueError):
    """Bytes are not an array of message indexes."""


def read_indexes(data: bytes, at: int) -> tuple[Indexes, int]:
    """Return the array at a position, and the position after it; WireError if it is invalid."""
    count, at = _read_number(data, at)
    if not 0 <= count <= _MOST:
        raise WireError(f"the array of message indexes has a length of {count}")
    indexes = []
    for _ in range(count):
        index, at = _read_number(data, at)
        indexes.append(index)
    return tuple(indexes) or FIRST, at


def write_indexes(indexes: Indexes) -> bytes:
    """Return the bytes of an array."""
    if indexes == FIRST:
        return b"\0"
    return b"".join(_write_number(number) for number in (len(indexes), *indexes))


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + _LONGEST_NUMBER]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + index + 1
    raise WireError("the array of message indexes does not end")


def _write_number(number: int) -> bytes:
    value, out = number << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
