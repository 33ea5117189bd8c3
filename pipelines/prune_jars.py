"""Delete what no pipeline needs of Spark: each jar is code that could be loaded, and that has to be patched.

python prune_jars.py SPARK_HOME           while the image is built
python prune_jars.py SPARK_HOME COPY      for tests: leaves SPARK_HOME, and makes a copy of it, by hard links where that is possible
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_LIST = Path(__file__).with_name("unused-jars.txt")


def read_patterns(text: str) -> Iterator[str]:
    """Yield the patterns of the list, without comments."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.strip()


def find_unused(folder: Path, patterns: Iterable[str]) -> set[Path]:
    """Return the jars that match; raise ValueError for a pattern without a match."""
    unused: set[Path] = set()
    for pattern in patterns:
        found = set(folder.glob(pattern))
        if not found:
            raise ValueError(f"no jar of {folder} matches {pattern}; review {_LIST.name}")
        unused |= found
    return unused


def prune(home: Path) -> None:
    """Delete the unused jars below SPARK_HOME, the classes of Spark Connect's shell, and the archives of PySpark.

    Spark puts the archives before the installed package on the path of Python workers. They have no bytecode, so every worker
    compiled PySpark: 0.5 s of processor time.
    """
    unused = find_unused(home / "jars", read_patterns(_LIST.read_text()))
    size = sum(jar.stat().st_size for jar in unused)
    for jar in unused:
        jar.unlink()
    shutil.rmtree(home / "jars" / "connect-repl", ignore_errors=True)
    for archive in (home / "python" / "lib").glob("*.zip"):
        archive.unlink()
    print(f"removed {len(unused)} jars of Spark with {size / 2**20:.0f} MiB")


def copy(home: Path, target: Path) -> None:
    """Make the target a pruned copy; an interrupted one leaves nothing under its name."""
    part = target.with_name(f".{target.name}.part")
    for folder in (part, target):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home, part, copy_function=_link)
    prune(part)
    part.rename(target)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


if __name__ == "__main__":
    (copy if len(sys.argv) > 2 else prune)(*map(Path, sys.argv[1:]))
