"""The base of all models, and how a model carries the validation rules of the API server.

Every model is frozen and refuses unknown fields. Python names are snake_case, manifests camelCase. A rule that the
API server evaluates (Common Expression Language, `x-kubernetes-validations`) is written once, beside the field or on
the class, with a message that has the fix; `kappa_crds.schema` carries it into the CRD.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from kappa_crds.field_docs import read_field_docs
from kappa_crds.quantities import (
    CPU_PATTERN,
    DURATION_PATTERN,
    SIZE_PATTERN,
    parse_cpu,
    parse_duration,
    parse_size,
)

VALIDATIONS = "x-kubernetes-validations"
LIST_TYPE = "x-kubernetes-list-type"
MAP_TYPE = "x-kubernetes-map-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
UNIQUE = Field(json_schema_extra={LIST_TYPE: "set"})
"""For a list without duplicates."""


@dataclass(frozen=True)
class Rule:
    """One CEL rule. As field metadata it sees the field as `self`; in `Model.rules` it sees the whole object.

    `detail` is a CEL expression for a message that names the problem; `message` is for the documentation.
    """

    cel: str
    message: str
    detail: str = ""

    def as_schema(self) -> dict[str, str]:
        """Return the rule as the API server reads it."""
        schema = {"rule": self.cel, "message": self.message}
        return schema | ({"messageExpression": self.detail} if self.detail else {})

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Attach the rule to the field's JSON schema."""
        schema = handler(core)
        schema[VALIDATIONS] = [*schema.get(VALIDATIONS, []), self.as_schema()]
        return schema


@dataclass(frozen=True)
class IntOrText:
    """A text that a manifest may also give as a whole number, as in `cpu: 1`. Python sees text only."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Turn whole numbers into text before they are checked."""
        return core_schema.no_info_before_validator_function(_write_number, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Report it in the form of the API server, which names no type."""
        schema = {key: value for key, value in handler(core).items() if key != "type"}
        return {**schema, INT_OR_STRING: True}


def _write_number(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Model(BaseModel):
    """A frozen part of a resource."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_enum_values=False,
        serialize_by_alias=True,
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Attach the class's rules and the docstrings of its fields to its JSON schema."""
        schema = handler.resolve_ref_schema(handler(core))
        if cls.rules:
            schema[VALIDATIONS] = [rule.as_schema() for rule in cls.rules]
        docs = read_field_docs(cls)
        for name, field in cls.model_fields.items():
            if name in docs:
                schema["properties"][field.alias or name]["description"] = docs[name]
        return schema

    def replace(self, **fields: Any) -> Self:
        """Return a copy with some fields changed; raise TypeError for a field that there is not."""
        unknown = set(fields) - set(type(self).model_fields)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        return self.model_copy(update=fields)

    def to_manifest(self) -> dict[str, Any]:
        """Return the JSON form with camelCase names, without absent values."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Status(Model):
    """A status as read back. Fields that another version wrote are kept as they are, so that writing the status loses none."""

    model_config = ConfigDict(extra="allow")


def _checked(parse: Callable[[str], object]) -> AfterValidator:
    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


Duration = Annotated[
    str,
    Field(max_length=32),
    _checked(parse_duration),
    Rule(f"self.matches('{DURATION_PATTERN}')", "must be a duration such as 30s, 10m, 12h or 7d"),
]
PositiveDuration = Annotated[
    Duration,
    Rule("self.matches('[1-9]')", "must be longer than nothing, such as 30s or 10m"),
]
Size = Annotated[
    str,
    Field(max_length=32),
    _checked(parse_size),
    Rule(f"self.matches('{SIZE_PATTERN}')".replace("\\", "\\\\"), "must be a size such as 512Mi, 10Gi or 1G"),
]
PositiveSize = Annotated[
    Size,
    Rule("self.matches('[1-9]')", "must be more than nothing, such as 512Mi or 10Gi"),
]
Memory = Annotated[
    Size,
    Rule(
        "!isQuantity(self) || quantity(self).compareTo(quantity('768Mi')) >= 0",
        "must be at least 768Mi, or Spark does not start; a number without a unit counts bytes, so write 2Gi, not 2",
    ),
]
Cpu = Annotated[
    str,
    Field(max_length=16),
    _checked(parse_cpu),
    IntOrText(),
    Rule(
        f"type(self) == int || self.matches('{CPU_PATTERN}')".replace("\\", "\\\\"),
        "must be a number of cores such as 500m, 1 or 1.5",
    ),
    Rule(
        "type(self) == int ? self > 0 : self.matches('[1-9]')",
        "must be more than nothing, such as 500m or 1",
    ),
]
ResourceName = Annotated[
    str,
    Field(min_length=1, max_length=253),
    Rule(
        "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
        "must be the name of a resource: lower-case letters, digits, '-' and '.'",
    ),
]
TopicName = Annotated[
    str,
    Field(min_length=1, max_length=249),
    Rule(
        "self.matches('^[a-zA-Z0-9._-]+$') && self != '.' && self != '..'",
        "must be a Kafka topic name: letters, digits, '.', '_' and '-'",
    ),
]
TopicPattern = Annotated[
    str,
    Field(min_length=1, max_length=249),
    Rule(
        r"self.matches('^[a-zA-Z0-9._*+?|()\\[\\]-]+$')",
        "must be a pattern of topic names: letters, digits, '.', '_', '-', and of the signs of regular expressions * + ? | ( ) [ ]",
    ),
]
SqlName = Annotated[
    str,
    Field(min_length=1, max_length=63),
    Rule(
        "self.matches('^[a-z][a-z0-9_]*$')",
        "must start with a lower-case letter and hold only lower-case letters, digits and '_', so that SQL can name it",
    ),
]
ColumnName = Annotated[
    str,
    Field(min_length=1, max_length=127),
    Rule(
        "self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",
        "must be a column name: letters, digits and '_', no digit first",
    ),
]
COLUMN_KEYS = Rule(
    "self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",
    "each name must be a column name: letters, digits and '_', no digit first",
)
"""For a map from new columns."""
FunctionName = Annotated[
    str,
    Field(max_length=253),
    Rule(
        "self.matches('^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$')",
        "must be a module and a function in it, such as delays.views:enrich",
    ),
]
