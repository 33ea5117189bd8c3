"""Whether everything that a build downloads is locked by a hash. Each check is a function of text, and returns what is wrong.

Debian's packages are not here: their signatures are checked by apt, and the SBOM of an image has their versions.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.paths import REPOSITORY

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PINNED = re.compile(r"^[A-Za-z0-9._-]+==\S+( ;.*?)?( --hash=sha256:[0-9a-f]{64})+$")
_DOWNLOADS = re.compile(r"\b(curl|wget|urlretrieve|npm|npx|gem) |\bADD +https?://")
_GO_INSTALL = re.compile(r"go install \S+@(latest|master|main)\b")


def check_uv_lock(text: str) -> Iterator[str]:
    """Yield the packages of a registry without a hash for each file, and those that come from elsewhere."""
    for package in tomllib.loads(text)["package"]:
        source: Mapping[str, Any] = package["source"]
        if source.keys() & {"editable", "virtual"}:
            continue
        if "registry" not in source:
            yield f"{package['name']} comes from {source}, which has no hash"
            continue
        files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
        if not files or not all(str(file.get("hash", "")).startswith("sha256:") for file in files):
            yield f"{package['name']} has a file without a hash"


def check_requirements(text: str) -> Iterator[str]:
    """Yield the requirements that are not one version with its hashes."""
    lines = text.replace("\\\n", " ").splitlines()
    requirements = [" ".join(line.split()) for line in lines if line.strip() and not line.startswith("#")]
    if not requirements:
        yield "it names no requirement"
    yield from (f"{line.split(' ')[0]} is not locked" for line in requirements if not _PINNED.match(line))


def check_constraints(pyproject: str, requirements: str) -> Iterator[str]:
    """Yield the build requirements whose version in a checkout is another one than in the images."""
    wanted = set(re.findall(r"^([\w.-]+==[^ \\]+)", requirements, re.MULTILINE))
    found = set(tomllib.loads(pyproject)["tool"]["uv"]["build-constraint-dependencies"])
    yield from (f"{each} is not in both" for each in sorted(wanted ^ found))


def check_dockerfile(text: str) -> Iterator[str]:
    """Yield the bases without a digest, and the steps that install what is not locked."""
    lines = text.replace("\\\n", " ").splitlines()
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)", text, re.MULTILINE))
    stages: set[str] = set()
    for line in lines:
        if line.startswith("FROM "):
            base, *name = line.removeprefix("FROM ").split(" AS ")
            resolved = re.sub(r"\$\{(\w+)\}", lambda found: arguments.get(found[1], ""), base.strip())
            if resolved not in stages and not _DIGEST.search(resolved):
                yield f"{line}: the base has no digest"
            stages.update(name)
        elif line.startswith(("RUN ", "ADD ")):
            yield from _check_step(line)


def _check_step(line: str) -> Iterator[str]:
    if _DOWNLOADS.search(line):
        yield f"{line}: a download without a hash"
    for command in line.split("&&"):
        if "uv pip install" in command:
            if "--no-deps" not in command or "--no-build-isolation" not in command:
                yield f"{command.strip()}: installs what is not locked"
        elif "pip install" in command and "--require-hashes" not in command:
            yield f"{command.strip()}: installs without hashes"
        elif "uv sync" in command and "--frozen" not in command:
            yield f"{command.strip()}: does not use the lock"


def check_checksums(text: str) -> Iterator[str]:
    """Yield the lines of a list of files without a SHA-256."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        yield "it names no file"
    yield from (line for line in lines if not any(_SHA256.fullmatch(word) for word in line.split()))


def check_go(mod: str, sums: str) -> Iterator[str]:
    """Yield the modules whose `go.mod` has no hash."""
    known = {tuple(line.split()[:2]) for line in sums.splitlines()}
    replaced = dict(re.findall(r"^\t?(?:replace )?(\S+)(?: v\S+)? => (\S+ v\S+)$", mod, re.MULTILINE))
    for module, version in re.findall(r"^(?:require )?\t?([\w./~-]+\.[\w./~-]+) (v\S+)", mod, re.MULTILINE):
        used, of = replaced.get(module, f"{module} {version}").split()
        if not {(used, f"{of}/go.mod"), (used, of)} & known:
            yield f"{module} {version} is not in go.sum"


def check_script(text: str) -> Iterator[str]:
    """Yield the lines of a script that download without a lock."""
    for line in text.splitlines():
        pip = re.search(r"pip[\"']?,? [\"']?install", line) and "--require-hashes" not in line
        if pip or _DOWNLOADS.search(line) or _GO_INSTALL.search(line):
            yield line.strip()


def check_all(root: Path = REPOSITORY) -> list[str]:
    """Return all that is wrong in a checkout, with the file."""

    def read(name: str) -> str:
        return (root / name).read_text()

    def name_problems(name: str, problems: Iterable[str]) -> list[str]:
        return [f"{name}: {problem}" for problem in problems]

    tracked = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split()
    found = name_problems("uv.lock", check_uv_lock(read("uv.lock")))
    found += name_problems(
        "requirements/build.txt", check_constraints(read("pyproject.toml"), read("requirements/build.txt"))
    )
    for name in tracked:
        path = Path(name)
        if path.parent.name == "requirements":
            found += name_problems(name, check_requirements(read(name)))
        elif path.name == "Dockerfile":
            found += name_problems(name, check_dockerfile(read(name)))
        elif (path.match("jars*.lock")) or path.suffix == ".sha256":
            found += name_problems(name, check_checksums(read(name)))
        elif path.name == "go.mod":
            found += name_problems(name, check_go(read(name), read(str(path.with_name("go.sum")))))
        elif path.name == "Makefile" or name.startswith(
            (".ci/", "tests/lab/", "pipelines/entry", "connect/")
        ):
            found += name_problems(name, check_script(read(name)))
    return found
