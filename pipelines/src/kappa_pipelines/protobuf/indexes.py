"""The message type of a value: the array of indexes that Confluent's format has between the schema's id and the message.

The length and each index are varints in zigzag; the array `[0]`, the first message, is written as a single 0. Source: Confluent
Schema Registry, "Formats, Serializers, and Deserializers: Wire format".
"""

from kappa_pipelines.protobuf.wire import WireError, read_varint, write_varint

FIRST = (0,)
_MOST = 100  # messages in messages; protoc takes fewer

Indexes = tuple[int, ...]


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
    try:
        number, at = read_varint(data, at)
    except WireError as error:
        raise WireError("the array of message indexes does not end") from error
    return number >> 1 if number & 1 == 0 else -(number >> 1) - 1, at


def _write_number(number: int) -> bytes:
    return write_varint(number << 1)
