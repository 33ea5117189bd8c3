"""Writes messages from JSON objects, for rows of files and test cases. Source of the mapping: Protocol Buffers, ProtoJSON Format."""

from google.protobuf.json_format import Parse, ParseError

from kappa_pipelines.protobuf.schema import Types


def encode_object(types: Types, text: bytes) -> bytes:
    """Return the message for a JSON object; ValueError if it does not fit."""
    try:
        message = Parse(text, types.message(), descriptor_pool=types.descriptor.file.pool)
    except (ParseError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not message.IsInitialized():
        raise ValueError(
            f"there is no value for the required {', '.join(message.FindInitializationErrors())}"
        )
    written: bytes = message.SerializeToString()
    return written
