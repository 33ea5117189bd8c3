"""Declares requests of Kafka's protocol that aiokafka lacks, with its own types.

Fields have a name and a type, in order. In a flexible version (KIP-482) each structure ends with tagged fields, which the helpers here
add. Source of the fields: the message definitions in Kafka's `clients/src/main/resources/common/message`.
"""

from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import AbstractType, CompactArray, CompactString, Schema, TaggedFields

from kappa_operator.kafka.frames import MOST_BYTES, SMALL_FRAME

NO_TAGS: dict[int, bytes] = {}
TEXT = CompactString("utf-8")
_TAGS = ("tags", TaggedFields)


def flexible(**fields: AbstractType[Any]) -> Schema:
    """Return the schema of a message in a flexible version."""
    return Schema(*fields.items(), _TAGS)


def array(**fields: AbstractType[Any]) -> CompactArray:
    """Return an array of structures in a flexible version."""
    return CompactArray(*fields.items(), _TAGS)


def declare(
    api_key: int, version: int, request: Schema, response: Schema, *, most_bytes: int = SMALL_FRAME
) -> type[RequestStruct]:
    """Return one version of a request, which knows the schema of its response, and how large that may be."""
    common = {"API_KEY": api_key, "API_VERSION": version}
    return type(
        "Struct",
        (RequestStruct,),
        {
            **common,
            "SCHEMA": request,
            MOST_BYTES: most_bytes,
            "RESPONSE_TYPE": type("Answer", (Response,), {**common, "SCHEMA": response}),
            "FLEXIBLE_VERSION": request.names[-1] == _TAGS[0],
        },
    )


class Call(Request[RequestStruct]):  # type: ignore[misc]
    """A request in one version with the values of its fields, in the order of its schema and without the last tags."""

    API_KEY = -1

    def __init__(self, struct: type[RequestStruct], *values: object) -> None:
        self.API_KEY = struct.API_KEY
        self._CLASSES = (struct,)
        self._values = values

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        """Return the message as aiokafka sends it."""
        tags = (NO_TAGS,) if request_struct_class.FLEXIBLE_VERSION else ()
        return request_struct_class(*self._values, *tags)
