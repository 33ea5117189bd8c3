"""Descriptions of fields come from the docstrings below them."""

from kappa_crds.field_docs import read_field_docs
from kappa_crds.model import Model
from kappa_crds.schema import build_structural_schema


class Base(Model):
    """A model."""

    first_field: int = 1
    """The first,
    on two lines."""
    second: str = ""


class Derived(Base):
    """A model with a field of its own."""

    second: str = "x"
    """Described here."""


def test_a_docstring_on_two_lines_is_one_description_and_is_inherited() -> None:
    assert read_field_docs(Derived) == {
        "first_field": "The first, on two lines.",
        "second": "Described here.",
    }
    properties = build_structural_schema(Derived)["properties"]
    assert properties["firstField"]["description"] == "The first, on two lines."


def test_a_field_without_a_docstring_has_no_description() -> None:
    assert "description" not in build_structural_schema(Base)["properties"]["second"]
