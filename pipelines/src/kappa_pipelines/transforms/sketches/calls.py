"""Calls of functions in a statement, found by its tokens and brackets. Pure."""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/|\s+|\w+|.""",
    re.DOTALL,
)
_UNREAD = ("--", "/*")


@dataclass(frozen=True)
class Call:
    """A call: its function in lower case, the position of its name, its arguments as text, and the next word."""

    function: str
    start: int
    arguments: tuple[str, ...]
    after: str = ""

    @property
    def text(self) -> str:
        """Return the call as SQL."""
        return f"{self.function}({', '.join(self.arguments)})"


@dataclass(frozen=True)
class _Token:
    text: str
    start: int

    @property
    def is_read(self) -> bool:
        return not self.text.isspace() and not self.text.startswith(_UNREAD)


def replace_calls(sql: str, functions: Collection[str], write: Callable[[Call], str]) -> str:
    """Return the text with each call of the functions replaced by the result of `write`, inner calls first.

    Text after a call stays in its line. A call without a closing bracket is left to the SQL parser.
    """
    tokens = [_Token(match[0], match.start()) for match in _TOKEN.finditer(sql)]
    return "".join(_rewrite(tokens, functions, write))


def _rewrite(tokens: list[_Token], functions: Collection[str], write: Callable[[Call], str]) -> Iterator[str]:
    at = 0
    while at < len(tokens):
        token = tokens[at]
        end = _find_end(tokens, at) if token.text.lower() in functions else None
        if end is None:
            yield token.text
            at += 1
            continue
        opening = _next_read(tokens, at + 1)
        parts = _split(tokens[opening + 1 : end])
        arguments = ("".join(_rewrite(_flatten(part), functions, write)).strip() for part in parts)
        following = _next_read(tokens, end + 1)
        after = tokens[following].text.lower() if following < len(tokens) else ""
        yield write(Call(token.text.lower(), token.start, tuple(arguments), after))
        yield "\n" * sum(each.text.count("\n") for each in tokens[at:end])
        at = end + 1


def _find_end(tokens: list[_Token], name: int) -> int | None:
    """Return the position of the closing bracket after a name; None if there is no bracket, or it is not closed."""
    opening = _next_read(tokens, name + 1)
    if opening == len(tokens) or tokens[opening].text != "(":
        return None
    depth = 0
    for at in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[at].text, 0)
        if depth == 0:
            return at
    return None


def _next_read(tokens: list[_Token], at: int) -> int:
    return next((place for place in range(at, len(tokens)) if tokens[place].is_read), len(tokens))


def _split(tokens: list[_Token]) -> list[list[_Token]]:
    """Return the arguments between a call's brackets."""
    if not any(token.is_read for token in tokens):
        return []
    parts: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _flatten(tokens: list[_Token]) -> list[_Token]:
    """Return the tokens on one line, without comments."""
    return [token if token.is_read else _Token(" ", token.start) for token in tokens]
