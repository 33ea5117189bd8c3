"""The schemas that the records of a revision's sources may have."""

import structlog

from kappa_crds.format import SchemaRegistry
from kappa_crds.reasons import Reason
from kappa_crds.revision import RegistrySecrets, Revision
from kappa_crds.source import Source
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import DriverError, SpecError
from kappa_pipelines.registry.client import RegistryClient
from kappa_pipelines.registry.pins import Pin, read_pin, write_pin
from kappa_pipelines.registry.subject import Subject, fetch_subject

log = structlog.get_logger()

Subjects = dict[str, Subject]
"""The subject of each source that has a registry."""


def fetch_subjects(revision: Revision) -> Subjects:
    """Fetch the subjects from the registries; DriverError names the source."""
    return {
        source.name: _fetch(revision, source, registry, None, ())
        for source, registry in _find_registries(revision)
    }


def resolve_subjects(revision: Revision, files: Folder) -> Subjects:
    """Fetch the subjects, with the reader's version that the checkpoint was created with.

    A version in the spec has precedence. The chosen version is stored with the checkpoint and logged.
    """
    subjects: Subjects = {}
    for source, registry in _find_registries(revision):
        pin = read_pin(files, source.name, name_subject(revision.topics, source, registry))
        ids = pin.asked if pin else ()
        found = _fetch(revision, source, registry, pin.version if pin else None, ids)
        wanted = Pin(found.name, found.reader.version, ids)
        if wanted != pin:
            write_pin(files, source.name, wanted)
        _log_subject(source, found)
        subjects[source.name] = found
    return subjects


def name_subject(topics: dict[str, str], source: Source, registry: SchemaRegistry) -> str:
    """Return the subject of a source's values, by default the topic's (Confluent's TopicNameStrategy).

    `topics` are the names in Kafka. SpecError if the source may read several topics, which have no such default.
    """
    if registry.subject is not None:
        return registry.subject
    if source.topic is None:
        raise SpecError(
            Reason.INVALID_SPEC,
            f"source {source.name!r} reads {source.reads}, so the subject of its values is not known from a topic;"
            " set `subject` of its format's registry",
        )
    return f"{topics.get(source.topic, source.topic)}-value"


def _find_registries(revision: Revision) -> list[tuple[Source, SchemaRegistry]]:
    found = [(source, source.format.registry) for source in revision.spec.sources]
    return [(source, registry) for source, registry in found if registry is not None]


def _fetch(
    revision: Revision, source: Source, registry: SchemaRegistry, version: int | None, ids: tuple[int, ...]
) -> Subject:
    name = name_subject(revision.topics, source, registry)
    client = RegistryClient(registry, revision.registries.get(source.name, RegistrySecrets()))
    try:
        return fetch_subject(client, name, registry.version or version, ids, source.format.schema_type)
    except DriverError as error:
        raise type(error)(error.reason, f"source {source.name!r}: {error.message}") from error


def _log_subject(source: Source, subject: Subject) -> None:
    log.info(
        "schema",
        source=source.name,
        subject=subject.name,
        version=subject.reader.version,
        id=subject.reader.id,
        reads={registered.version: registered.id for registered in subject.versions},
        unknown=subject.unknown,
    )
