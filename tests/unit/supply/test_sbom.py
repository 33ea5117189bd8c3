"""The contents of an image, read from its layers as the runtime sees them."""

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from lab.errors import LabError
from supply.sbom import find_layers, list_components, read_files, render

DPKG = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
METADATA = "Metadata-Version: 2.4\nName: Typing_Extensions\nVersion: 4.15.0\n\nText\n"


def build_jar(**poms: str) -> bytes:
    """Return a jar with a class, and the coordinates of what was built into it.

    Its entries have the earliest date of the format, so that each call returns the same bytes.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo("One.class"), "")
        for artifact, version in poms.items():
            text = f"artifactId={artifact}\ngroupId=org.example\nversion={version}\n"
            name = f"META-INF/maven/org.example/{artifact}/pom.properties"
            archive.writestr(zipfile.ZipInfo(name), text)
    return content.getvalue()


def write_layer(path: Path, **files: bytes) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def list_purls(*layers: Path) -> set[str]:
    return {str(each.purl) for each in list_components(read_files(list(layers)))}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    files = {
        "var/lib/dpkg/status": DPKG.encode(),
        "opt/lib/typing_extensions-4.15.0.dist-info/METADATA": METADATA.encode(),
        "opt/spark/derby-10.16.1.1.jar": build_jar(),
        "opt/spark/lib/shaded-3.0.jar": build_jar(shaded="3.0", inner="1.5"),
        "opt/spark/readme.txt": b"",
    }
    return write_layer(tmp_path / "base", **files)


def test_packages_of_debian_and_python_and_the_contents_of_jars_are_listed(base: Path) -> None:
    assert list_purls(base) == {
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12",
        "pkg:pypi/typing-extensions@4.15.0",
        "pkg:maven/derby@10.16.1.1",
        "pkg:maven/org.example/shaded@3.0",
        "pkg:maven/org.example/inner@1.5",
    }


def test_what_an_upper_layer_removes_or_replaces_is_not_listed(base: Path, tmp_path: Path) -> None:
    upper = {
        "opt/spark/.wh.derby-10.16.1.1.jar": b"",
        "opt/spark/.wh.lib": b"",
        "opt/lib/typing_extensions-4.15.0.dist-info/METADATA": METADATA.replace("4.15.0", "4.16.0").encode(),
    }
    assert list_purls(base, write_layer(tmp_path / "upper", **upper)) == {
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12",
        "pkg:pypi/typing-extensions@4.16.0",
    }


def test_the_same_image_gives_the_same_document_with_the_digest_of_each_jar(base: Path) -> None:
    components = list_components(read_files([base]))
    document = render("operator", "sha256:1", components)
    assert document == render("operator", "sha256:1", list_components(read_files([base])))
    parsed = json.loads(document)
    assert (parsed["bomFormat"], parsed["metadata"]["component"]["version"]) == ("CycloneDX", "sha256:1")
    (derby,) = (each for each in parsed["components"] if each["name"] == "derby")
    assert derby["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(build_jar()).hexdigest()}]
    assert derby["properties"] == [{"name": "kappa:path", "value": "opt/spark/derby-10.16.1.1.jar"}]


def test_an_image_that_was_not_built_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="make images"):
        find_layers(tmp_path, "operator")
