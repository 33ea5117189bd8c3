"""Programs of one Go module that are compiled from the sources that its `go.sum` pins, once per version, into the cache."""

import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.errors import LabError
from lab.paths import CACHE
from lab.progress import step
from lab.toolchain import find_go


def find_tool(name: str, home: Path, get_compiler: Callable[[], Mapping[str, str]] | None = None) -> Path:
    """Return the program of the module in a folder, compiled if the cache does not have it.

    With `get_compiler` the program has code in C; it returns the variables that choose the compiler. Raises LabError with the end of
    the output where the program cannot be compiled.
    """
    digest = hashlib.sha256((home / "go.mod").read_bytes() + (home / "go.sum").read_bytes())
    target = CACHE / f"{name}-{digest.hexdigest()[:12]}"
    if not target.exists():
        with step(name, done="compiled"):
            _compile(target, home, {} if get_compiler is None else {**get_compiler(), "CGO_ENABLED": "1"})
    return target


def _compile(target: Path, home: Path, variables: Mapping[str, str]) -> None:
    go, part = find_go(), target.with_name(f".{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        **variables,
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
        "PATH": f"{go.parent}:{os.environ.get('PATH', '')}",
    }
    command = [str(go), "build", "-trimpath", "-ldflags=-s -w", "-o", str(part), "tool"]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"go build of {target.name} failed:\n{done.stderr[-3000:]}")
    part.replace(target)
