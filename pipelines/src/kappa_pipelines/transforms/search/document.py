"""Documents as queries see them: words of text columns and numbers.

Text is made of words: runs of letters, digits and `_` as Unicode has them, after normalization to NFKC and folding of case.
Documents and queries are read by the same function, so "Łódź" finds "ŁÓDŹ", and "New-York" is two words.
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
"""What a document can be looked up by: `word`, `prefix` or `number`, a field, and a word, the beginning of one, or a number."""


class Kind(StrEnum):
    """What a column is for a query."""

    WORDS = "words"
    EXACT = "exact"
    FLOAT = "float"


@dataclass(frozen=True)
class Fields:
    """The columns that can be searched with their kinds, by names in small letters; `text` are those of a word without field."""

    text: tuple[str, ...]
    kinds: tuple[tuple[str, Kind], ...]

    def find_kind(self, field: str) -> Kind | None:
        """Return what a field is, None where there is none of this name."""
        return Kind.WORDS if field == ANY else dict(self.kinds).get(field)


@dataclass(frozen=True, slots=True)
class Document:
    """What queries can ask of a document: for each field its text and all words of it, and numbers that are not NULL.

    `texts` and `words` have ANY besides the fields. A text is its words in order with a space around each, so that a
    phrase can be searched as text; NULL is the empty one. Those of several columns stand on lines of their own.
    """

    texts: Mapping[str, str]
    words: Mapping[str, frozenset[str]]
    numbers: Mapping[str, Number]

    def find_values(self, kind: str, field: str, length: int) -> AbstractSet[str | Number]:
        """Return the values of its features of a kind in a field; `length` is that of the beginnings of words."""
        if kind == "word":
            return self.words[field]
        if kind == "prefix":
            return {word[:length] for word in self.words[field]}
        return {self.numbers[field]} if field in self.numbers else frozenset()


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in order."""
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def read_document(fields: Fields, columns: Mapping[str, Any]) -> Document:
    """Return the document of columns by names in small letters; numbers come as text, so that they are exact."""
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
    """Return a number as comparisons with columns of this kind want it; ValueError where the text is none."""
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
