"""From the format that a source declares to the code that reads it."""

from kappa_crds.format import AvroFormat, ProtobufFormat
from kappa_crds.reasons import Reason
from kappa_crds.source import Source
from kappa_pipelines.errors import SpecError
from kappa_pipelines.registry.subject import Subject
from kappa_pipelines.sources import avro
from kappa_pipelines.sources.change_events import build_change_events
from kappa_pipelines.sources.text import build_csv, build_json, build_raw
from kappa_pipelines.sources.values import Values


def build_values(source: Source, subject: Subject | None) -> Values:
    """Return the source's format, checked; SpecError if it is invalid. Needs an active Spark session."""
    declared = source.format
    if declared.json_ is not None:
        if source.envelope is not None:
            return build_change_events(source.name, declared.json_.schema_, source.envelope.debezium)
        return build_json(source.name, declared.json_)
    if declared.csv is not None:
        return build_csv(source.name, declared.csv)
    if declared.avro is not None:
        return _build_avro(source.name, declared.avro, subject)
    if declared.protobuf is not None:
        return _build_protobuf(source.name, declared.protobuf, subject)
    if declared.raw is not None:
        return build_raw(declared.raw)
    raise SpecError(
        Reason.INVALID_SPEC, f"source {source.name!r}: format is empty; set json, csv, avro, protobuf or raw"
    )


def _build_avro(source: str, declared: AvroFormat, subject: Subject | None) -> Values:
    if subject is not None:
        return avro.build_framed(source, subject)
    if declared.schema_ is not None:
        return avro.build_bare(source, declared.schema_)
    raise SpecError(Reason.INVALID_SPEC, f"source {source!r}: format.avro is empty; set schema or registry")


def _build_protobuf(source: str, declared: ProtobufFormat, subject: Subject | None) -> Values:
    from kappa_pipelines.sources import protobuf  # noqa: PLC0415 - brings Arrow and Google's library, for this format alone

    if subject is not None:
        return protobuf.build_framed(source, subject, declared.message)
    if declared.schema_ is not None and declared.message is not None:
        return protobuf.build_bare(source, declared.schema_, declared.message)
    raise SpecError(
        Reason.INVALID_SPEC,
        f"source {source!r}: format.protobuf is not complete; set schema and message, or registry",
    )
