"""Generated files: the committed ones match their sources, and drift is named file by file."""

from pathlib import Path

from generate.files import FOLDERS, REFERENCE, find_drift, render_files, write_files


def test_committed_files_match_their_sources() -> None:
    files = render_files()
    assert find_drift(files, FOLDERS) == []
    assert {path.name for path in files if path.parent == REFERENCE} >= {"crds.md", "cli.md", "metrics.md"}


def test_drift_names_changed_missing_and_extra_files(tmp_path: Path) -> None:
    folder = tmp_path / "crds"
    files = {folder / "topics.yaml": "a", folder / "pipelines.yaml": "b", tmp_path / "page.md": "c"}
    write_files(files, [folder])
    assert find_drift(files, [folder]) == []
    (folder / "topics.yaml").write_text("changed")
    (folder / "pipelines.yaml").unlink()
    (folder / "others.yaml").write_text("")
    drift = find_drift(files, [folder])
    assert [line.split(": ")[0].rpartition("/")[2] for line in drift] == [
        "topics.yaml", "pipelines.yaml", "others.yaml",
    ]  # fmt: skip
    write_files(files, [folder])
    assert find_drift(files, [folder]) == []
