"""The project's images in the cluster: built from the real Dockerfiles, imported without a registry.

An image is named by what went into it: besides its tag it carries a second one made of a hash over the
Dockerfile, the declared inputs and the base. If the runtime has that one, there is nothing to do.
"""

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab import buildah, containerd, kafka_jars
from lab.connect_files import fetch_connect
from lab.errors import LabError
from lab.paths import CACHE, REPOSITORY
from lab.progress import report, step
from lab.shell import run


@dataclass(frozen=True)
class Image:
    """An image of this repository; `inputs` are all paths that its Dockerfile copies from."""

    name: str
    reference: str
    dockerfile: str
    inputs: Sequence[str]
    # Folder in the build context → where it comes from, for what is not in the repository.
    fetched: Mapping[str, Callable[[], Path]] = field(default_factory=dict)


def _fetch_spark_jars() -> Path:
    """The connector jars that the pipelines' own module fetches and checks; it prints where they are."""
    fetch = [sys.executable, "-m", "kappa_pipelines.jars"]
    folder = run(fetch, env={"PYTHONPATH": str(REPOSITORY / "pipelines" / "src"), "KAPPA_CACHE": str(CACHE)})
    return Path(folder.strip())


def build_own_jar() -> None:
    """Build the jar of the Java module, which is an input of the image, unless it is there."""
    run([sys.executable, REPOSITORY / "pipelines" / "jvm" / "build.py"])


_WORKSPACE = ("pyproject.toml", "uv.lock", "requirements", "crds")
IMAGES = (
    Image(
        "operator",
        "kappa/operator:dev",
        "operator/Dockerfile",
        (*_WORKSPACE, "operator", "pipelines/pyproject.toml"),
    ),
    Image(
        "pipelines",
        "kappa/pipelines:dev",
        "pipelines/Dockerfile",
        (*_WORKSPACE, "pipelines", "operator/pyproject.toml"),
        {"build/jars": _fetch_spark_jars},
    ),
    Image(
        "connect",
        "kappa/connect:dev",
        "connect/Dockerfile",
        ("connect", "monitoring/connect-jmx.yaml"),
        {"build/connect": fetch_connect},
    ),
    Image(
        "kafka",
        f"kappa/kafka:{kafka_jars.VERSION}",
        "tests/lab/kafka/Dockerfile",
        ("tests/lab/kafka",),
        {"jars": kafka_jars.fetch},
    ),
)
ON_DEMAND = (
    Image("postgres", "kappa/postgres:15", "tests/lab/postgres/Dockerfile", ("tests/lab/postgres",)),
    Image("mariadb", "kappa/mariadb:10.11", "tests/lab/mariadb/Dockerfile", ("tests/lab/mariadb",)),
)
"""Images that only some tests and a demo need. They are built when they are named."""
_LITTLE_SPACE = 20 * 2**30
"""Free bytes of the disk below which layers of earlier builds are removed. Each build leaves up to 2 GB of them."""
_SKIPPED = {"__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", "build", "dist"}


def _files(image: Image) -> Iterator[Path]:
    for name in image.inputs:
        root = REPOSITORY / name
        found = [root] if root.is_file() else sorted(root.rglob("*"))
        for path in found:
            parts = path.relative_to(REPOSITORY).parts
            if path.is_file() and not any(part in _SKIPPED or part.endswith(".egg-info") for part in parts):
                yield path.relative_to(REPOSITORY)


def _identity(image: Image) -> str:
    digest = hashlib.sha256(f"{image.reference} {buildah.BASE}".encode())
    for path in _files(image):
        content = (REPOSITORY / path).read_bytes()
        digest.update(f"{path} {os.access(REPOSITORY / path, os.X_OK)} {len(content)} ".encode() + content)
    return digest.hexdigest()[:12]


def stage(image: Image, context: Path) -> None:
    """Fill a build context with the declared inputs and nothing else."""
    for path in _files(image):
        (context / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / path, context / path)
    for name, fetch in image.fetched.items():
        shutil.copytree(fetch(), context / name, copy_function=os.link)


def _build(image: Image, reference: str) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=".context-") as folder:
        stage(image, Path(folder))
        buildah.build(Path(folder) / image.dockerfile, Path(folder), reference)


def _import(descriptors: Sequence[buildah.Blob], references: Sequence[str]) -> None:
    """Give an image to the runtime under some names, sending only the blobs that it doesn't have."""
    present = containerd.content_digests()
    manifests = [
        {**descriptors[0], "annotations": {"io.containerd.image.name": reference}} for reference in references
    ]
    index = {"schemaVersion": 2, "manifests": manifests}
    process = containerd.import_stream()
    assert process.stdin is not None
    try:
        with tarfile.open(fileobj=process.stdin, mode="w|") as archive:
            _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            _add(archive, "index.json", json.dumps(index).encode())
            for digest in dict.fromkeys(descriptor["digest"] for descriptor in descriptors):
                if digest not in present:
                    archive.add(buildah.blob_path(digest), f"blobs/{digest.replace(':', '/')}")
    except BrokenPipeError:
        pass  # the runtime printed the reason
    output, _ = process.communicate()
    if process.returncode != 0:
        raise LabError(f"import of {references[0]} failed: {output.decode()[-2000:]}")


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def choose(names: Sequence[str]) -> list[Image]:
    """Return the images with these names; without names all but those on demand."""
    every = (*IMAGES, *ON_DEMAND)
    unknown = set(names) - {image.name for image in every}
    if unknown:
        known = ", ".join(image.name for image in every)
        raise LabError(f"no such image: {', '.join(sorted(unknown))}; known: {known}")
    return [image for image in every if image.name in names] if names else list(IMAGES)


def ensure(names: Sequence[str] = ()) -> None:
    """Build and import what changed; with names only those. An image without a Dockerfile is skipped."""
    chosen = choose(names)
    build_own_jar()
    imported = containerd.image_digests()
    for image in chosen:
        if not (REPOSITORY / image.dockerfile).exists():
            report(f"image {image.reference}: skipped, there is no {image.dockerfile}")
            continue
        _ensure_one(image, imported)


def _ensure_one(image: Image, imported: Mapping[str, str]) -> None:
    repository, _, tag = f"docker.io/{image.reference}".partition(":")
    wanted = f"{repository}:{_identity(image)}"
    if wanted in imported and imported[wanted] == imported.get(f"{repository}:{tag}"):
        report(f"image {image.reference}: unchanged")
        return
    with step(f"image {image.reference}", done="built"):
        built = wanted.replace("docker.io/", "localhost/")
        if not buildah.has_image(built):
            if shutil.disk_usage(CACHE).free < _LITTLE_SPACE:
                buildah.remove_unused_layers()
            _build(image, built)
            buildah.remove_others(built)
    with step(f"image {image.reference}", done="imported"):
        _import(buildah.export(built, image.name), [f"{repository}:{tag}", wanted])
        old = [
            name
            for name in imported
            if name.startswith(f"{repository}:") and name not in (wanted, f"{repository}:{tag}")
        ]
        containerd.remove_images(old)


def ensure_pause() -> None:
    """Make the image without which no pod can start."""
    if containerd.SANDBOX_IMAGE in containerd.image_digests():
        return
    with step("sandbox image"):
        built = containerd.SANDBOX_IMAGE.replace("docker.io/", "localhost/")
        if not buildah.has_image(built):
            buildah.build_pause(built)
        _import(buildah.export(built, "pause"), [containerd.SANDBOX_IMAGE])
