"""Building images without an engine: buildah with a store of its own, and one OCI layout to hand them on.

Layers are not compressed: they never travel, and gzip takes longer than everything else. It also lets a layer
that is in the layout already be recognised by its digest, so a change of source code exports in no time.
(buildah's own `push` compresses in any case, hence skopeo.)
"""

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from lab.debian import package_sources
from lab.errors import LabError
from lab.paths import CACHE, LOGS, write_file
from lab.progress import step
from lab.shell import run, succeeds

Blob = dict[str, Any]  # an OCI descriptor: media type, digest, size

LAYOUT = CACHE / "oci"
_NAME = "org.opencontainers.image.ref.name"
STORE = CACHE / "buildah"
_SUITE = "bookworm"
_PACKAGES = (
    "ca-certificates",
    "libstdc++6",
    "openjdk-17-jre-headless",
    "procps",
    "python3",
    "python3-venv",
    "tini",
    "tzdata",
)
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_UNNEEDED = ("/usr/share/doc/*", "/usr/share/locale/*")  # without man pages' folders Java does not install
_RECIPE = hashlib.sha256(repr((_SUITE, _PACKAGES, _BUNDLE, _UNNEEDED, 1)).encode()).hexdigest()[:12]
BASE = f"localhost/kappa/base:{_RECIPE}"
_INSTRUCTION = re.compile(r"^(?:\[(\d+/\d+)\] )?STEP (\d+)/(\d+): (.*)$", re.MULTILINE)
_SHOWN = 60
"""How many characters of an instruction are shown."""


def _buildah(*arguments: str | Path) -> list[str | Path]:
    return [
        "buildah",
        "--root",
        STORE / "root",
        "--runroot",
        STORE / "run",
        "--storage-driver",
        "overlay",
        *arguments,
    ]


def _root_filesystem() -> Path:
    """What python:3.11-slim plus a Java runtime would be, from the distribution's packages."""
    target = CACHE / f"rootfs-{_RECIPE}.tar"
    if not target.exists():
        with step("base root filesystem", done="made"):
            part = CACHE / f".{target.name}.part.tar"
            run(
                ["mmdebstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}"]
                + [f"--dpkgopt=path-exclude={pattern}" for pattern in _UNNEEDED]
                + ['--customize-hook=ln -s python3 "$1/usr/bin/python"', _SUITE, part, *package_sources()]
            )
            part.rename(target)
    return target


def _commit(parent: str | Path, image: str, *settings: str, content: Path | None = None) -> None:
    container = run(_buildah("from", parent)).strip()
    try:
        if content is not None:
            run(_buildah("add", container, content, "/"))
        run(_buildah("config", *settings, container))
        run(_buildah("commit", "--quiet", container, image))
    finally:
        run(_buildah("rm", container))


def has_image(image: str) -> bool:
    """Whether the store has the image."""
    return succeeds(_buildah("inspect", "--type", "image", image))


def ensure_base() -> str:
    """Make the image that our Dockerfiles build on, and return its reference."""
    archive = _root_filesystem()
    if not has_image(BASE):
        with step("base image", done="built"):
            # The certificates of the distribution, also for tools that bring their own.
            environment = [f"--env={name}={_BUNDLE}" for name in ("SSL_CERT_FILE", "PIP_CERT")]
            _commit("scratch", BASE, *environment, "--env=LANG=C.UTF-8", content=archive)
    return BASE


def build_pause(image: str) -> None:
    """Make the image that holds a pod's namespaces: a process that sleeps."""
    _commit(ensure_base(), image, '--entrypoint=["/usr/bin/sleep","infinity"]', "--cmd=")


def _mounts() -> list[str]:
    """The host's certificates and download caches, so that builds work and are quick where the host's are."""
    mounts = ["/etc/ssl/certs:/etc/ssl/certs:ro"]
    mounts += [f"{path}:{path}:ro" for path in ("/etc/pip.conf", "/etc/uv/uv.toml") if Path(path).exists()]
    for name in ("uv", "pip"):
        cache = Path.home() / ".cache" / name
        cache.mkdir(parents=True, exist_ok=True)
        mounts.append(f"{cache}:/root/.cache/{name}")
    return [f"--volume={mount}" for mount in mounts]


def build(dockerfile: Path, context: Path, image: str) -> None:
    """Build one of our Dockerfiles; steps that did not change come from the store."""
    flags = [
        "--isolation=chroot",
        "--layers",
        "--pull-never",
        f"--build-arg=BASE={ensure_base()}",
        *_mounts(),
    ]
    command = _buildah("build", *flags, "--file", dockerfile, "--tag", image, context)
    name = image.rpartition("/")[2].partition(":")[0]
    log = LOGS / f"image-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("w") as output,
        step(f"image {name}, Dockerfile", done="built", detail=lambda: find_instruction(log)),
    ):
        done = subprocess.run(list(map(str, command)), stdout=output, stderr=output, check=False)
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        raise LabError(f"building {image} failed with {done.returncode}; the end of {log}:\n{tail}")


def find_instruction(log: Path) -> str:
    """Return the start of the instruction of the Dockerfile that runs, its number and, if there are several, its stage."""
    steps = _INSTRUCTION.findall(log.read_text(errors="replace"))
    if not steps:
        return "starting"
    stage, number, count, text = steps[-1]
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    place = f"stage {stage.replace('/', ' of ')}, " if stage else ""
    return f"{place}{number} of {count}: {shown}"


def remove_unused_layers() -> None:
    """Remove the layers that no image has; the next build makes some of them again."""
    run(_buildah("rmi", "--prune"))


def remove_others(image: str) -> None:
    """Forget the earlier builds of an image; layers that the current one shares stay."""
    repository = image.rpartition(":")[0]
    listed = run(_buildah("images", "--format", "{{.Name}}:{{.Tag}}")).split()
    old = [name for name in listed if name.startswith(f"{repository}:") and name != image]
    if old:
        run(_buildah("rm", "--all"))  # a build that was killed leaves a container, which uses its image
        run(_buildah("rmi", *old))


def export(image: str, name: str) -> list[Blob]:
    """Put an image into the OCI layout under a name; layers that are there already are not read again."""
    store = f"[overlay@{STORE}/root+{STORE}/run]"
    LAYOUT.parent.mkdir(parents=True, exist_ok=True)
    copy = ["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-oci-accept-uncompressed-layers"]
    run([*copy, f"containers-storage:{store}{image}", f"oci:{LAYOUT}:{name}"])
    return _prune()[name]


def _prune() -> dict[str, list[Blob]]:
    """Drop what no named image refers to any more; return the blobs of those that are named."""
    index = json.loads((LAYOUT / "index.json").read_text())
    index["manifests"] = [each for each in index["manifests"] if _NAME in each.get("annotations", {})]
    write_file(LAYOUT / "index.json", json.dumps(index))
    named = {each["annotations"][_NAME]: _blobs(each) for each in index["manifests"]}
    kept = {blob_path(blob["digest"]) for blobs in named.values() for blob in blobs}
    for path in (LAYOUT / "blobs" / "sha256").iterdir():
        if path not in kept:
            path.unlink()
    return named


def _blobs(manifest: Blob) -> list[Blob]:
    """Descriptors of a manifest itself, the configuration and the layers."""
    document = json.loads(blob_path(manifest["digest"]).read_text())
    return [manifest, document["config"], *document["layers"]]


def blob_path(digest: str) -> Path:
    """The file of a blob."""
    return LAYOUT / "blobs" / digest.replace(":", "/")
