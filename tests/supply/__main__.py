"""`python -m supply locks`: check that every download is locked. `sbom`: describe the images. `scan`: look for vulnerabilities."""

import sys
from pathlib import Path

from lab.errors import LabError
from lab.paths import REPOSITORY
from supply import locks, sbom, scan

SBOMS = REPOSITORY / "build" / "sbom"


def main(command: str) -> int:
    """Run one of the commands; return the exit code: 1 for findings, 2 where it could not be done."""
    try:
        match command:
            case "locks":
                return _print(locks.check_all(), "every download is locked by a hash")
            case "sbom":
                return _print([], "\n".join(sbom.write_all(SBOMS)))
            case "scan":
                return _print(
                    scan.scan_all(SBOMS), "no known vulnerability, except for those in exceptions.toml"
                )
            case _:
                sys.stderr.write(f"{__doc__}\n")
                return 2
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _print(problems: list[str], success: str) -> int:
    sys.stdout.write("\n".join(problems or [success]) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).name if len(sys.argv) > 1 else ""))
