"""Check prose with Vale, and first that Vale finds what is wrong in `bad.md`.

Vale is compiled from the sources that `go.sum` pins, once per version, into the cache. It parses Python with
tree-sitter, which takes a C compiler; a machine without one gets Zig's from the Python registry.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab.errors import LabError
from lab.paths import CACHE, REPOSITORY
from lab.progress import step
from lab.toolchain import find_go

HOME = Path(__file__).resolve().parent
ZIG = "ziglang==0.15.2"
SCOPE = (HOME / "scope.txt").read_text().split()


def vale() -> Path:
    """The program, compiled if the cache does not have it."""
    digest = hashlib.sha256((HOME / "go.mod").read_bytes() + (HOME / "go.sum").read_bytes())
    target = CACHE / f"vale-{digest.hexdigest()[:12]}"
    if not target.exists():
        with step("vale", done="compiled"):
            _compile(target)
    return target


def _compile(target: Path) -> None:
    part = target.with_name(f".{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    go = find_go()
    environment = {
        **os.environ,
        **_compiler(),
        "CGO_ENABLED": "1",
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
        "PATH": f"{go.parent}:{os.environ.get('PATH', '')}",
    }
    command = [str(go), "build", "-trimpath", "-ldflags=-s -w", "-o", str(part), "tool"]
    done = subprocess.run(command, cwd=HOME, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"go build of vale failed:\n{done.stderr[-3000:]}")
    part.replace(target)


def _compiler() -> dict[str, str]:
    if any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        return {}
    uv = shutil.which("uv") or str(CACHE / "uv" / "bin" / "uv")
    return {"CC": f"{uv} tool run --from {ZIG} python-zig cc"}


def check(paths: list[str]) -> dict[str, list[dict[str, object]]]:
    """The findings of Vale, by file."""
    command = [str(vale()), "--config", str(HOME / "vale.ini"), "--output=JSON", "--no-exit", *paths]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"vale failed: {done.stderr or done.stdout}")
    found: dict[str, list[dict[str, object]]] = json.loads(done.stdout or "{}")
    return found


def files(scope: list[str]) -> list[str]:
    """The tracked files that the patterns of git select."""
    command = ["git", "ls-files", "--", *scope]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\n") if name and (REPOSITORY / name).exists()]


def missed_rules() -> set[str]:
    """Rules that find nothing in `bad.md`: the check would not work."""
    rules = {f"Kappa.{path.stem}" for path in (HOME / "styles" / "Kappa").glob("*.yml")}
    found = check([str(HOME / "bad.md")])
    return rules - {str(finding["Check"]) for findings in found.values() for finding in findings}


def main(arguments: list[str]) -> int:
    """Check the files given, or all of `scope.txt`; 1 if a sentence breaks a rule."""
    missed = missed_rules()
    if missed:
        print(f"tests/prose/bad.md passes {', '.join(sorted(missed))}: the check does not work")
        return 1
    found = check(arguments or files(SCOPE))
    for name, findings in sorted(found.items()):
        for finding in findings:
            print(f"{name}:{finding['Line']}: {finding['Message']} [{finding['Check']}]")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
