"""Reads an output of a Kappa pipeline across reprocessings: every result once, and no mix of two versions.

    reader = OutputReader({"bootstrap.servers": "kafka:9092"}, CommandResolver("delays-hourly", "flights"))
    while True:
        message = reader.poll(1.0)
        if message is not None:
            handle(message)
            store(reader.position.to_data())

It needs confluent-kafka and nothing else of Kappa.
"""

from kappa_client.alias import Alias, Move, Position, parse_alias
from kappa_client.command import CommandResolver
from kappa_client.errors import NoPathError, ReadBeyondCutError, ReaderError, ResolveError
from kappa_client.reader import OutputReader

__all__ = [
    "Alias",
    "CommandResolver",
    "Move",
    "NoPathError",
    "OutputReader",
    "Position",
    "ReadBeyondCutError",
    "ReaderError",
    "ResolveError",
    "parse_alias",
]
