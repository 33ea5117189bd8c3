"""Texts of Python code for people: Vale checks comments and docstrings itself, string constants come from here."""

import ast
import re
from pathlib import Path

_WORDS = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}")


def find_strings(path: Path) -> list[tuple[int, str]]:
    """Return the line and text of each string constant of several words; values of an f-string become `…`."""
    tree = ast.parse(path.read_text())
    skipped = _find_docstrings(tree) | {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    texts = (
        (node.lineno, _join(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped
    )
    return sorted((line, text) for line, text in texts if _WORDS.search(text))


def _find_docstrings(tree: ast.Module) -> set[int]:
    """Return the strings that Vale reads itself: not those below a field."""
    first = (
        node.body[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body
    )
    return {id(each.value) for each in first if isinstance(each, ast.Expr)}


def _join(node: ast.Constant | ast.JoinedStr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
    return " ".join(text.split())
