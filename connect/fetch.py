"""Fetch what the image of Kafka Connect has, with Maven: `fetch.py FOLDER` fills `libs`, `plugins` and `agent.jar` in it.

`jars.sha256` and `plugins.sha256` have the checksums. A folder that is there is complete, and nothing is fetched.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main(target: Path) -> None:
    """Fill the folder, unless it is there; exit with a message where a file is not the locked one."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".connect-") as folder:
        made, downloads = Path(folder) / "made", Path(folder) / "downloads"
        fetch_libs(made / "libs")
        for digest, artifact in read_lock(HERE / "plugins.sha256"):
            unpack(fetch_artifact(artifact, digest, downloads), made)
        made.rename(target)


def read_lock(path: Path) -> list[tuple[str, str]]:
    """Return the checksums and names of a lock."""
    lines = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    return [(digest, name) for digest, name in lines]


def fetch_libs(target: Path) -> None:
    """Resolve the jars of the worker, and compare them with the lock."""
    run_maven("-f", HERE / "pom.xml", "dependency:copy-dependencies", "-DincludeScope=runtime", output=target)
    locked = {name: digest for digest, name in read_lock(HERE / "jars.sha256")}
    found = {jar.name: compute_digest(jar) for jar in target.iterdir()}
    wrong = sorted(name for name in locked.keys() | found.keys() if locked.get(name) != found.get(name))
    if wrong:
        raise SystemExit(f"these jars differ from jars.sha256: {', '.join(wrong)}")


def fetch_artifact(artifact: str, digest: str, target: Path) -> Path:
    """Return the file of `group:name:version:type[:classifier]`, compared with the lock."""
    run_maven("dependency:copy", f"-Dartifact={artifact}", output=target)
    _, name, version, kind, *classifier = artifact.split(":")
    file = target / f"{'-'.join([name, version, *classifier])}.{kind}"
    if compute_digest(file) != digest:
        raise SystemExit(f"{file.name} differs from plugins.sha256")
    return file


def unpack(file: Path, target: Path) -> None:
    """Unpack a plugin below `plugins`; a jar is the agent."""
    if file.suffix == ".jar":
        shutil.move(file, target / "agent.jar")
        return
    with tarfile.open(file) as archive:
        archive.extractall(target / "plugins", filter="data")


def compute_digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def run_maven(*arguments: str | Path, output: Path) -> None:
    """Run Maven; exit with its output where it fails."""
    command = ["mvn", "-q", "-B", *map(str, arguments), f"-DoutputDirectory={output}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"mvn failed: {(done.stdout + done.stderr)[-2000:]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
