"""The contents of each image as a CycloneDX document: Debian's packages, Python's, and what is in jars.

It reads the layers of the image that was built, so it lists what is there, and not what a lock asked for. The same image gives
the same document: its serial number comes from the digest, and it has no time.
"""

import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from lab import buildah
from lab.cluster import is_docker_there
from lab.errors import LabError

IMAGES = ("operator", "pipelines", "connect")
_FORMAT = "org.opencontainers.image.ref.name"
_DPKG = "var/lib/dpkg/status"
_WANTED = re.compile(rf"{_DPKG}|.*\.dist-info/METADATA|.*\.jar")
_POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.]*(?:-[\w.]+)?)$")
_WHITEOUT = ".wh."


def write_all(folder: Path) -> list[str]:
    """Write the document of each image that was built; return what was written."""
    if is_docker_there():
        return ["a Docker engine has the images; describe them with its own tools, such as syft"]
    return [_write(folder, name) for name in IMAGES]


def _write(folder: Path, name: str) -> str:
    digest, layers = find_layers(buildah.LAYOUT, name)
    components = list_components(read_files(layers))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.cdx.json"
    path.write_text(render(name, digest, components))
    return f"{path}: {len(components)} components of {digest}"


def find_layers(layout: Path, name: str) -> tuple[str, list[Path]]:
    """Return the digest of an image in an OCI layout and its layers, the lowest one first; raise LabError without it."""
    try:
        index = json.loads((layout / "index.json").read_text())["manifests"]
        (found,) = (each for each in index if each.get("annotations", {}).get(_FORMAT) == name)
    except (OSError, ValueError):
        raise LabError(f"image {name} was not built here; run `make images` first") from None
    blobs = layout / "blobs"
    manifest = json.loads((blobs / found["digest"].replace(":", "/")).read_text())
    return found["digest"], [blobs / each["digest"].replace(":", "/") for each in manifest["layers"]]


def read_files(layers: list[Path]) -> dict[str, bytes]:
    """Return the files that name software, as the upper layers leave them."""
    files: dict[str, bytes] = {}
    for layer in layers:
        with tarfile.open(layer) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.name.startswith(_WHITEOUT):
                    gone = str(path.with_name(path.name.removeprefix(_WHITEOUT)))
                    files = {
                        each: content
                        for each, content in files.items()
                        if each != gone and not each.startswith(f"{gone}/")
                    }
                elif member.isfile() and _WANTED.fullmatch(str(path)):
                    content = archive.extractfile(member)
                    files[str(path)] = content.read() if content else b""
    return files


def list_components(files: Mapping[str, bytes]) -> list[Component]:
    """Return the software of an image, each name and version once."""
    found: dict[str, Component] = {}
    for path, content in sorted(files.items()):
        for component in _read(path, content):
            found.setdefault(str(component.purl), component)
    return [found[purl] for purl in sorted(found)]


def _read(path: str, content: bytes) -> Iterator[Component]:
    if path == _DPKG:
        yield from read_dpkg(content.decode())
    elif path.endswith("METADATA"):
        headers = HeaderParser().parsestr(content.decode(errors="replace"))
        yield _build("pypi", headers["Name"].lower().replace("_", "-"), headers["Version"])
    else:
        yield from read_jar(path, content)


def read_dpkg(text: str) -> Iterator[Component]:
    """Yield Debian's packages that are installed."""
    for paragraph in text.strip().split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            qualifiers = {"arch": fields["Architecture"], "distro": "debian-12"}
            yield _build("deb", fields["Package"], fields["Version"], "debian", qualifiers)


def read_jar(path: str, content: bytes) -> Iterator[Component]:
    """Yield what Maven built into a jar, shaded libraries too; a jar without such names goes by its file."""
    digest = HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(content).hexdigest())
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        texts = [archive.read(name).decode() for name in archive.namelist() if _POM.fullmatch(name)]
        if not texts and not any(name.endswith(".class") for name in archive.namelist()):
            return
    coordinates = [
        dict(re.findall(r"^(groupId|artifactId|version)=(\S+)", text, re.MULTILINE)) for text in texts
    ]
    for each in coordinates:
        yield _build("maven", each["artifactId"], each["version"], each["groupId"], path=path, digest=digest)
    named = _JAR.fullmatch(PurePosixPath(path).stem)
    if named and not any(each["artifactId"] == named["name"] for each in coordinates):
        yield _build("maven", named["name"], named["version"], path=path, digest=digest)


def _build(
    kind: str,
    name: str,
    version: str,
    group: str | None = None,
    qualifiers: Mapping[str, str] | None = None,
    path: str = "",
    digest: HashType | None = None,
) -> Component:
    purl = PackageURL(kind, group, name, version, dict(qualifiers or {}))
    return Component(
        type=ComponentType.LIBRARY, name=name, version=version, group=group, purl=purl, bom_ref=str(purl),
        hashes=[digest] if digest else [],
        properties=[Property(name="kappa:path", value=path)] if path else [],
    )  # fmt: skip


def render(name: str, digest: str, components: list[Component]) -> str:
    """Return the document as JSON."""
    image = Component(
        type=ComponentType.CONTAINER, name=f"kappa/{name}", version=digest, bom_ref=f"kappa/{name}@{digest}"
    )
    bom = Bom(components=components, serial_number=uuid5(NAMESPACE_URL, f"kappa/{name}@{digest}"))
    bom.metadata.component = image
    bom.register_dependency(image, components)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    document["metadata"].pop("timestamp", None)
    return json.dumps(document, indent=1, sort_keys=True) + "\n"
