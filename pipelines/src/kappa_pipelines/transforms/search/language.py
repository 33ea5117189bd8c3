"""The language of stored queries: a subset of Lucene's, parsed by luqum, as conditions.

| | |
|---|---|
| `engine failure` | both words; `AND` has precedence over `OR`, and `OR` over adjacency |
| `"engine failure"` | the words in sequence, in one column |
| `engine AND (fire OR smoke) NOT test` | a Boolean combination; `-test` is `NOT test`, `+engine` is `engine` |
| `engin*` | a word with this prefix |
| `title:engine`, `title:(fire OR smoke)` | in this column |
| `delay:>60`, `delay:<=5`, `delay:[10 TO 20}`, `delay:{* TO -5]`, `delay:15` | numbers |
| `title:*` | the column is not NULL |

A word that is split into several, such as `New-York`, is a phrase. Other syntax of Lucene is refused with a reason: `~`, `^`, regular expressions, `*` and `?` elsewhere, `&&`, `||` and `!`, ranges of words.
"""

import math
from functools import lru_cache
from typing import Any

from luqum import tree
from luqum.exceptions import ParseError
from luqum.parser import parser

from kappa_pipelines.transforms.search.conditions import (
    All,
    Between,
    Condition,
    Either,
    Equals,
    Not,
    Phrase,
    Prefix,
    Present,
    Word,
)
from kappa_pipelines.transforms.search.document import ANY, Fields, Kind, Number, read_number, split_words

LONGEST = 10_000  # characters
DEEPEST = 50  # conditions within each other
_CACHED = 20_000  # parsed queries in a process


class QueryError(ValueError):
    """An invalid query; the text has the problem and the alternative, if there is one."""


@lru_cache(_CACHED)
def read_query(fields: Fields, text: str | None) -> Condition | QueryError:
    """Return the condition of a query, or its error."""
    try:
        return _convert(fields, _parse(text), ANY, 0)
    except QueryError as error:
        return error


def _parse(text: str | None) -> Any:
    if text is None or not text.strip():
        raise QueryError("the query is empty")
    if len(text) > LONGEST:
        raise QueryError(f"the query is longer than {LONGEST} characters")
    try:
        return parser.parse(text)
    except ParseError as error:
        raise QueryError(str(error).replace(" in input : ", ": ").rstrip("!")) from None


def _convert(fields: Fields, node: Any, field: str, depth: int) -> Condition:
    """Return the condition of a luqum node within a field."""
    if depth > DEEPEST:
        raise QueryError(f"the query is nested deeper than {DEEPEST}")

    def convert(part: Any, within: str = field) -> Condition:
        return _convert(fields, part, within, depth + 1)

    match node:
        case tree.AndOperation() | tree.UnknownOperation():
            return All(tuple(map(convert, node.children)))
        case tree.OrOperation():
            return Either(tuple(map(convert, node.children)))
        case tree.SearchField():
            return convert(node.expr, _find_field(fields, field, node.name))
        case tree.Group() | tree.FieldGroup() | tree.Plus():
            return convert(node.children[0])
    if fields.find_kind(field) is not Kind.WORDS:
        return _convert_number(fields, node, field, convert)
    if isinstance(node, tree.Not | tree.Prohibit):
        return Not(convert(node.a))
    return _convert_word(node, field)


def _find_field(fields: Fields, within: str, name: str) -> str:
    if within != ANY:
        raise QueryError(f"{within}:{name}: a field inside a field; quote a value that has a colon")
    if fields.find_kind(name.lower()) is None or name == ANY:
        raise QueryError(
            f"there is no field {name!r}; known are {', '.join(name for name, _ in fields.kinds)}"
        )
    return name.lower()


def _convert_word(node: Any, field: str) -> Condition:
    match node:
        case tree.Phrase():
            return _find_words(node.unescaped_value[1:-1], field, str(node))
        case tree.Word() if node.value == "*" and field != ANY:
            return Present(field)
        case tree.Word() if node.has_wildcard():
            return _find_prefix(node, field)
        case tree.Word() if node.value[0] in "!&|" or '"' in node.value:
            raise QueryError(f"{node.value}: write AND, OR and NOT, and a space before a quote")
        case tree.Word():
            return _find_words(node.unescaped_value, field, node.value)
        case tree.Range() | tree.From() | tree.To():
            raise QueryError(f"{node}: a range needs a field with numbers")
    raise QueryError(f"{node}: {type(node).__name__.lower()} is not part of the language")


def _find_prefix(node: Any, field: str) -> Condition:
    begin = split_words(node.value[:-1])
    if node.value[-1] != "*" or "*" in node.value[:-1] or "?" in node.value or len(begin) != 1:
        raise QueryError(f"{node.value}: a * can only be at the end of one word")
    return Prefix(field, begin[0])


def _find_words(text: str, field: str, written: str) -> Condition:
    words = split_words(text)
    if not words:
        raise QueryError(f"{written}: there is no word in it")
    return Word(field, words[0]) if len(words) == 1 else Phrase(field, words)


def _convert_number(fields: Fields, node: Any, field: str, convert: Any) -> Condition:
    kind = fields.find_kind(field)
    assert kind is not None  # noqa: S101 - the field was found
    match node:
        case tree.Word() if node.value == "*":
            return Present(field)
        case tree.Range():
            low, high = (_read_limit(kind, limit, field) for limit in node.children)
            return Between(field, low, high, node.include_low, node.include_high)
        case tree.From():
            return Between(field, _read(kind, node.a, field), None, node.include, False)
        case tree.To():
            return Between(field, None, _read(kind, node.a, field), False, node.include)
        case tree.Not():
            return Not(convert(node.a))
    return Equals(field, _read(kind, node, field))


def _read_limit(kind: Kind, node: Any, field: str) -> Number | None:
    return None if isinstance(node, tree.Word) and node.value == "*" else _read(kind, node, field)


def _read(kind: Kind, node: Any, field: str) -> Number:
    """Return the number in a node; luqum parses a minus sign as `Prohibit`."""
    try:
        number = read_number(kind, str(node).strip().strip('"').replace("\\", ""))
    except ValueError:
        raise QueryError(f"{field}:{node}: {field} is a number") from None
    if not math.isfinite(number):
        raise QueryError(f"{field}:{node}: this number cannot be compared")
    return number
