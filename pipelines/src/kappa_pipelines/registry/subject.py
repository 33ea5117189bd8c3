"""A subject as a registry has it: all versions of a schema, with what they refer to."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError, UnavailableError
from kappa_pipelines.registry.client import NotRegisteredError, RegistryClient


@dataclass(frozen=True)
class Reference:
    """A schema that another one refers to, by the name that it is called there: in Protobuf the path of an import."""

    name: str
    text: str


@dataclass(frozen=True)
class Registered:
    """One version of a subject. `references` are what `text` refers to, in the order to read them."""

    id: int
    version: int
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class Subject:
    """The versions of a subject, oldest first, and the one whose fields become columns.

    `refused` are ids that records came with and that were not the subject's when the registry was asked.
    """

    name: str
    versions: tuple[Registered, ...]
    reader: Registered
    refused: tuple[int, ...] = ()


def fetch_subject(
    client: RegistryClient, name: str, version: int | None, asked: tuple[int, ...], kind: str
) -> Subject:
    """Return the subject with the given version, or the latest, as reader.

    Deleted versions count too: records that were written with them may still be in the topic. `asked` are ids that
    records came with; those that the subject lacks are refused. UnavailableError if the registry does not answer or
    does not know the subject or version, SpecError for schemas that are not of the kind (AVRO, PROTOBUF).
    """
    try:
        live = client.get_list("subjects", name, "versions")
        numbers = client.get_list("subjects", name, "versions", deleted="true")
    except NotRegisteredError as error:
        raise UnavailableError(
            Reason.SCHEMA_NOT_FOUND,
            f"the schema registry at {client.url} has no subject {name!r}; register a schema, or correct"
            " `subject` of the source",
        ) from error
    versions = tuple(_fetch_version(client, name, number, kind) for number in sorted({*numbers, *live}))
    reader = _choose(client, name, versions, version or max(live, default=0))
    refused = set(asked) - {registered.id for registered in versions}
    return Subject(name, versions, reader, tuple(sorted(refused)))


def _choose(client: RegistryClient, name: str, versions: tuple[Registered, ...], version: int) -> Registered:
    for registered in versions:
        if registered.version == version:
            return registered
    there = ", ".join(str(registered.version) for registered in versions) or "none"
    raise UnavailableError(
        Reason.SCHEMA_NOT_FOUND,
        f"the schema registry at {client.url} has no version {version} of subject {name!r}, it has: {there};"
        " register it, or correct `version` of the source",
    )


def _fetch_version(client: RegistryClient, name: str, number: int, kind: str) -> Registered:
    found = client.get("subjects", name, "versions", str(number), deleted="true")
    if found.get("schemaType", "AVRO") != kind:
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"version {number} of subject {name!r} is a schema of type {found['schemaType']}, and the source's"
            f" format is {kind.lower()}; correct the format, or `subject`",
        )
    references = dict(_fetch_references(client, found.get("references") or [], frozenset()))
    return Registered(int(found["id"]), number, str(found["schema"]), tuple(references.values()))


def _fetch_references(
    client: RegistryClient, references: list[dict[str, Any]], above: frozenset[tuple[str, int]]
) -> Iterator[tuple[tuple[str, int], Reference]]:
    """Yield the schemas referred to, each after those that it refers to itself."""
    for reference in references:
        key = (str(reference["subject"]), int(reference["version"]))
        if key in above:
            raise SpecError(Reason.INVALID_SCHEMA, f"the schemas of subject {key[0]!r} refer to each other")
        found = client.get("subjects", key[0], "versions", str(key[1]), deleted="true")
        yield from _fetch_references(client, found.get("references") or [], above | {key})
        yield key, Reference(str(reference["name"]), str(found["schema"]))
