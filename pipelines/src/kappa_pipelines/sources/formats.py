"""From the format that a source declares to the code that reads it."""

from kappa_crds.reasons import Reason
from kappa_crds.source import Source
from kappa_pipelines.errors import SpecError
from kappa_pipelines.sources.csv import build_csv
from kappa_pipelines.sources.json import build_json
from kappa_pipelines.sources.raw import build_raw
from kappa_pipelines.sources.values import Values


def build_values(source: Source) -> Values:
    """Return the source's format, checked; SpecError names what is wrong. Needs an active Spark session."""
    declared = source.format
    if declared.json_ is not None:
        return build_json(source.name, declared.json_)
    if declared.csv is not None:
        return build_csv(source.name, declared.csv)
    if declared.raw is not None:
        return build_raw(declared.raw)
    raise SpecError(Reason.INVALID_SPEC, f"source {source.name!r}: format is empty; set json, csv or raw")
