"""Documents for queries: words of text columns, and numbers.

Text consists of words: runs of Unicode letters, digits and `_`, after NFKC normalization and case folding.
Documents and queries are split by the same function, so "Łódź" finds "ŁÓDŹ", and "New-York" is two words.
"""

import re
import unicodedata
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

ANY = ""
"""Stands for all text columns together; no column has this name."""

_WORD = re.compile(r"\w+")

Number = int | float | Decimal
Feature = tuple[str, str, str | Number]
"""A key in the index: `word`, `prefix` or `number`, a field, and the word, prefix or number."""


class Kind(StrEnum):
    """How queries use a column."""

    WORDS = "words"
    EXACT = "exact"
    FLOAT = "float"


@dataclass(frozen=True)
class Fields:
    """The searchable columns with their kinds, by names in lower case; `text` are the columns of words without a field."""

    text: tuple[str, ...]
    kinds: tuple[tuple[str, Kind], ...]

    def find_kind(self, field: str) -> Kind | None:
        """Return the kind of a field, None if it is unknown."""
        return Kind.WORDS if field == ANY else dict(self.kinds).get(field)


@dataclass(frozen=True, slots=True)
class Document:
    """A document: for each field its text and the words in it, and numbers that are not NULL.

    `texts` and `words` have ANY besides the fields. A text is its words in order with a space around each, so that a
    phrase can be searched as text; NULL is the empty text. Texts of several columns are separated by newlines.
    """

    texts: Mapping[str, str]
    words: Mapping[str, frozenset[str]]
    numbers: Mapping[str, Number]

    def find_values(self, kind: str, field: str, length: int) -> AbstractSet[str | Number]:
        """Return the values of the features of a kind in a field; `length` is that of prefixes."""
        if kind == "word":
            return self.words[field]
        if kind == "prefix":
            return {word[:length] for word in self.words[field]}
        return {self.numbers[field]} if field in self.numbers else frozenset()


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in order."""
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def read_document(fields: Fields, columns: Mapping[str, Any]) -> Document:
    """Return the document of columns by names in lower case; numbers come as text, so that they are exact."""
    texts: dict[str, str] = {}
    words: dict[str, frozenset[str]] = {}
    numbers: dict[str, Number] = {}
    for field, kind in fields.kinds:
        value = columns.get(field)
        if kind is Kind.WORDS:
            found = () if value is None else split_words(str(value))
            texts[field] = "" if value is None else f" {' '.join(found)} "
            words[field] = frozenset(found)
        elif value is not None:
            numbers[field] = read_number(kind, str(value))
    texts[ANY] = "\n".join(texts[field] for field in fields.text)
    words[ANY] = frozenset().union(*(words[field] for field in fields.text))
    return Document(texts, words, numbers)


def read_number(kind: Kind, text: str) -> Number:
    """Return a number for comparisons with columns of this kind; ValueError if the text is not a number."""
    if kind is Kind.FLOAT:
        return float(text)
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(text) from None
