"""A subject as a registry has it: all versions of a schema, with what they refer to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError, UnavailableError
from kappa_pipelines.registry.client import NotRegisteredError, RegistryClient

_MOST = 500
"""Versions of a subject, and schemas that one refers to."""
Counted = TypeVar("Counted", bound=Sequence[Any])
_TYPES = ("AVRO", "PROTOBUF", "JSON")


@dataclass(frozen=True)
class Reference:
    """A schema that another one references, by its name there: in Protobuf the path of an import."""

    name: str
    text: str


@dataclass(frozen=True)
class Registered:
    """One version of a subject. `references` are the schemas that `text` references, in the order to parse them."""

    id: int
    version: int
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True)
class Subject:
    """The versions of a subject, oldest first, and the one whose fields become columns.

    `unknown` are ids in records that the subject did not have when it was fetched.
    """

    name: str
    versions: tuple[Registered, ...]
    reader: Registered
    unknown: tuple[int, ...] = ()


def fetch_subject(
    client: RegistryClient, name: str, version: int | None, ids: tuple[int, ...], kind: str
) -> Subject:
    """Return the subject with the given version, or the latest, as reader.

    Deleted versions are included: records that were written with them may still be in the topic. `ids` were found in records.
    UnavailableError if the registry does not respond or lacks the subject or version, SpecError for schemas that are not of the
    kind (AVRO, PROTOBUF).
    """
    try:
        live = client.get(list, "subjects", name, "versions")
        numbers = client.get(list, "subjects", name, "versions", deleted="true")
    except NotRegisteredError as error:
        raise UnavailableError(
            Reason.SCHEMA_NOT_FOUND,
            f"the schema registry at {client.url} has no subject {name!r}; register a schema, or correct"
            " `subject` of the source",
        ) from error
    if not all(isinstance(number, int) for number in (*numbers, *live)):
        raise client.unusable()
    known = _check_count(f"subject {name!r}", sorted({*numbers, *live}), "versions")
    versions = tuple(_fetch_version(client, name, number, kind) for number in known)
    reader = _choose(client, name, versions, version or max(live, default=0))
    unknown = set(ids) - {registered.id for registered in versions}
    return Subject(name, versions, reader, tuple(sorted(unknown)))


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
    found = client.get(dict, "subjects", name, "versions", str(number), deleted="true")
    schema_type = found.get("schemaType", "AVRO")
    if schema_type != kind:
        known = schema_type if schema_type in _TYPES else "another kind"
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"version {number} of subject {name!r} is a schema of type {known}, and the source's"
            f" format is {kind.lower()}; correct the format, or `subject`",
        )
    try:
        references: dict[tuple[str, int], Reference] = {}
        _fetch_references(client, found.get("references") or [], frozenset(), references)
        return Registered(int(found["id"]), number, str(found["schema"]), tuple(references.values()))
    except (KeyError, TypeError, ValueError):
        raise client.unusable() from None
    except NotRegisteredError as error:
        raise UnavailableError(
            Reason.SCHEMA_NOT_FOUND,
            f"the schema registry at {client.url} lacks a schema that version {number} of subject {name!r} refers to; register it",
        ) from error


def _fetch_references(
    client: RegistryClient,
    references: list[dict[str, Any]],
    above: frozenset[tuple[str, int]],
    known: dict[tuple[str, int], Reference],
) -> None:
    """Add the referenced schemas, each once and after its own references."""
    for reference in references:
        key = (str(reference["subject"]), int(reference["version"]))
        if key in above:
            raise SpecError(Reason.INVALID_SCHEMA, "schemas that the subject references refer to each other")
        if key in known:
            continue
        found = client.get(dict, "subjects", key[0], "versions", str(key[1]), deleted="true")
        _check_count("a schema of the source", (*known, *above, key), "references")
        _fetch_references(client, found.get("references") or [], above | {key}, known)
        known[key] = Reference(str(reference["name"]), str(found["schema"]))


def _check_count(subject: str, found: Counted, what: str) -> Counted:
    """Return what was found; SpecError if it is more than a driver reads when it starts."""
    if len(found) > _MOST:
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"{subject} has more than {_MOST} {what}, and a driver reads all of them; use another subject",
        )
    return found
