"""Check prose with Vale, after a test that Vale finds the errors in `bad.md`; check that links lead to a file.

Vale is compiled from the sources that `go.sum` pins, once per version, into the cache. It parses Python with
tree-sitter, which takes a C compiler; a machine without one gets Zig's from the Python registry.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from lab.errors import LabError
from lab.gotool import find_tool
from lab.paths import REPOSITORY
from lab.toolchain import install_locked
from prose.strings import find_strings

HOME = Path(__file__).resolve().parent
_LINK = re.compile(r"\]\(([^)#\s]+)[^)\s]*\)")
SCOPE = (HOME / "scope.txt").read_text().split()


def vale() -> Path:
    """The program, compiled if the cache does not have it."""
    return find_tool("vale", HOME, _compiler)


def _compiler() -> dict[str, str]:
    if any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        return {}
    return {"CC": f"{install_locked('zig') / 'bin' / 'python'} -m ziglang cc"}


class Finding(NamedTuple):
    """A rule that a text breaks, and the place."""

    path: str
    line: int
    rule: str
    message: str


def check(paths: list[str]) -> list[Finding]:
    """Return the findings of Vale in files: documents, and comments and docstrings of code."""
    command = [str(vale()), "--config", str(HOME / "vale.ini"), "--output=JSON", "--no-exit", *paths]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"vale failed: {done.stderr or done.stdout}")
    return [
        Finding(path, each["Line"], each["Check"], each["Message"])
        for path, found in sorted(json.loads(done.stdout or "{}").items())
        for each in found
    ]


def check_strings(paths: list[str]) -> list[Finding]:
    """Return the findings in string constants of Python files, by way of a text file with one string per line."""
    places = [(path, *each) for path in paths for each in find_strings(REPOSITORY / path)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as texts:
        texts.write("\n\n".join(text for _, _, text in places))
        texts.flush()
        found = check([texts.name])
    return [
        each._replace(path=place[0], line=place[1]) for each in found for place in [places[each.line // 2]]
    ]


def find_broken_links(paths: list[str]) -> list[Finding]:
    """Return the relative links of documents that lead nowhere."""
    links = ((path, link) for path in paths for link in _LINK.findall((REPOSITORY / path).read_text()))
    return [
        Finding(path, 0, "links", f"{link} does not exist")
        for path, link in links
        if "://" not in link and not (REPOSITORY / path).parent.joinpath(link).exists()
    ]


def files(scope: list[str]) -> list[str]:
    """The tracked files that the patterns of git select."""
    command = ["git", "ls-files", "--", *scope]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\n") if name and (REPOSITORY / name).exists()]


def missed_rules() -> set[str]:
    """Return the rules that find nothing in `bad.md` and `bad.py`: the check does not work."""
    rules = {f"Kappa.{path.stem}" for path in (HOME / "styles" / "Kappa").glob("*.yml")}
    missed = rules - {finding.rule for finding in check([str(HOME / "bad.md")])}
    return missed if check_strings(["tests/prose/bad.py"]) else {*missed, "the strings of bad.py"}


def main(arguments: list[str]) -> int:
    """Check the files given, or all of `scope.txt`; 1 if a text breaks a rule or a link is broken."""
    missed = missed_rules()
    if missed:
        print(f"tests/prose/bad.md passes: {', '.join(sorted(missed))}; the check does not work")
        return 1
    paths = arguments or files(SCOPE)
    python = [path for path in paths if path.endswith(".py")]
    documents = [path for path in paths if path.endswith(".md")]
    found = [*check(paths), *check_strings(python), *find_broken_links(documents)]
    for path, line, rule, message in sorted(found):
        print(f"{path}:{line}: {message} [{rule}]")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
