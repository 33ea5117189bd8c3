"""Look for known vulnerabilities in the images with OSV-Scanner, by their CycloneDX documents.

The scanner is compiled from the sources that `go.sum` pins. It needs the data of OSV: from the network, or from a folder that
the variable OSV_DB names (`osv-scanner scan --download-offline-databases` fills one). `exceptions.toml` has the vulnerabilities
that were reviewed; each has a reason and ends at a date, and from then on the scan fails again.
"""

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.gotool import find_tool

HOME = Path(__file__).resolve().parent
EXCEPTIONS = HOME / "exceptions.toml"
LONGEST_DAYS = 180
"""How long an exception may last before it is reviewed again."""
_CLEAN, _FOUND = 0, 1
"""Exit codes of the scanner; all others are failures."""


def scanner() -> Path:
    """The program, compiled if the cache does not have it."""
    return find_tool("osv-scanner", HOME)


def scan_all(folder: Path) -> list[str]:
    """Return the vulnerabilities in the documents of a folder; raise LabError where that cannot be found out."""
    documents = sorted(folder.glob("*.cdx.json"))
    if not documents:
        raise LabError(f"{folder} has no *.cdx.json; run `make images` first")
    return [*check_exceptions(EXCEPTIONS.read_text(), date.today()), *scan(documents)]


def scan(documents: list[Path], exceptions: Path = EXCEPTIONS) -> list[str]:
    """Return the vulnerabilities that are no exceptions."""
    data = os.environ.get("OSV_DB")
    offline = ["--offline-vulnerabilities", f"--local-db-path={data}"] if data else []
    command = [str(scanner()), "scan", "source", "--format=json", f"--config={exceptions}", *offline]
    command += [f"--lockfile={document}" for document in documents]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (_CLEAN, _FOUND):
        raise LabError(
            f"the scan failed, so nothing is known about vulnerabilities:\n{done.stderr[-1500:]}\n"
            "It needs the data of OSV. Where that cannot be reached, name a folder with a copy in OSV_DB."
        )
    return list(read_findings(json.loads(done.stdout)))


def read_findings(report: dict[str, Any]) -> Iterator[str]:
    """Yield the package, the vulnerability and the document of each finding of the scanner's report."""
    for result in report.get("results") or ():
        document = Path(result["source"]["path"]).name
        for package in result["packages"]:
            about = package["package"]
            for group in package.get("groups", ()):
                names, severity = ", ".join(group["ids"]), group.get("max_severity") or "unknown"
                yield f"{document}: {about['name']} {about['version']}: {names}, severity {severity}"


def check_exceptions(text: str, today: date) -> Iterator[str]:
    """Yield the exceptions without a reason, without an end, that have ended, or that end too late."""
    for entry in tomllib.loads(text).get("IgnoredVulns", ()):
        until, name = entry.get("ignoreUntil"), entry["id"]
        if not entry.get("reason"):
            yield f"exception {name} has no reason"
        if until is None:
            yield f"exception {name} has no end"
        elif until.date() <= today:
            yield f"exception {name} ended on {until.date()}: review it again"
        elif (until.date() - today).days > LONGEST_DAYS:
            yield f"exception {name} lasts longer than {LONGEST_DAYS} days"
