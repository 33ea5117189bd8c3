"""What a driver asks a schema registry, and what it says where the answer is no good."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kappa_crds.format import SchemaRegistry
from kappa_crds.reasons import Reason
from kappa_crds.revision import RegistrySecrets
from kappa_crds.source import Source
from kappa_pipelines.errors import DriverError
from kappa_pipelines.registry.client import RegistryClient
from kappa_pipelines.registry.resolve import name_subject
from kappa_pipelines.registry.subject import Reference, Subject, fetch_subject
from lab.registry import RegistryDouble


@pytest.fixture
def registry() -> Iterator[RegistryDouble]:
    with RegistryDouble() as double:
        yield double


def fetch(
    registry: RegistryDouble,
    version: int | None = None,
    asked: tuple[int, ...] = (),
    folder: Path | None = None,
) -> Subject:
    secrets = RegistrySecrets(credentials_dir=None if folder is None else str(folder))
    client = RegistryClient(SchemaRegistry(url=f"{registry.url}/"), secrets)
    return fetch_subject(client, "a/b-value", version, asked, "AVRO")


def test_the_latest_version_is_the_reader_and_all_versions_are_known(registry: RegistryDouble) -> None:
    ids = [registry.register("a/b-value", text) for text in ('"int"', '"long"')]
    subject = fetch(registry)
    assert [each.id for each in subject.versions] == ids
    assert (subject.reader.version, subject.reader.text) == (2, '"long"')


def test_a_deleted_version_is_known_but_is_not_the_latest(registry: RegistryDouble) -> None:
    ids = [registry.register("a/b-value", text) for text in ('"int"', '"long"')]
    registry.delete("a/b-value", 2)
    subject = fetch(registry)
    assert [each.id for each in subject.versions] == ids
    assert subject.reader.version == 1


def test_a_pinned_version_is_the_reader(registry: RegistryDouble) -> None:
    for text in ('"int"', '"long"'):
        registry.register("a/b-value", text)
    assert fetch(registry, version=1).reader.version == 1


def test_requested_ids_are_refused_unless_the_subject_has_them(registry: RegistryDouble) -> None:
    known = registry.register("a/b-value", '"int"')
    assert fetch(registry, asked=(4711, known)).unknown == (4711,)


def test_schemas_that_a_schema_refers_to_come_before_it_each_once(registry: RegistryDouble) -> None:
    registry.register("unit", "unit")
    refer = [{"name": "unit", "subject": "unit", "version": 1}]
    registry.register("place", "place", references=refer)
    both = [*refer, {"name": "place", "subject": "place", "version": 1}]
    registry.register("a/b-value", "reading", references=both)
    assert fetch(registry).reader.references == (Reference("unit", "unit"), Reference("place", "place"))


def test_credentials_are_sent_and_a_refusal_is_reported_without_them(
    registry: RegistryDouble, tmp_path: Path
) -> None:
    registry.register("a/b-value", '"int"')
    registry.login = ("me", "s3cret:ä")
    (tmp_path / "username").write_text("me\n")
    (tmp_path / "password").write_text("s3cret:ä")
    assert fetch(registry, folder=tmp_path).reader.version == 1
    (tmp_path / "password").write_text("wr0ng")
    error = refuse(lambda: fetch(registry, folder=tmp_path))
    assert error.reason is Reason.REGISTRY_UNAVAILABLE
    assert "HTTP 401" in error.message
    assert "wr0ng" not in error.message


@pytest.mark.parametrize(
    ("reads", "words"),
    [
        ({"topics": ["a", "b"]}, "source 'orders' reads topics a, b, so"),
        ({"topicPattern": "a-.*"}, "source 'orders' reads topics like a-.*, so"),
    ],
    ids=["several topics", "a pattern"],
)
def test_a_source_of_several_topics_has_to_name_its_subject(reads: dict[str, object], words: str) -> None:
    def name(**subject: str) -> str:
        registry = {"url": "http://registry:8081", **subject}
        source = {"name": "orders", "format": {"avro": {"registry": registry}}, **reads}
        return name_subject({}, Source.model_validate(source), SchemaRegistry.model_validate(registry))

    assert name(subject="shop.Order") == "shop.Order"
    error = refuse(name)
    assert (error.reason, error.retryable) == (Reason.INVALID_SPEC, False)
    assert words in error.message
    assert "set `subject` of its format's registry" in error.message


def refuse(work: Callable[[], object]) -> DriverError:
    with pytest.raises(DriverError) as raised:
        work()
    return raised.value


@pytest.mark.parametrize(
    ("breakdown", "words"),
    [
        ((500, {"error_code": 50001, "message": "Error in the backend data store"}), "HTTP 500"),
        ((503, "busy"), "HTTP 503"),
        (b"<html>not a registry</html>", "does not answer as a registry does"),
        ((200, {"error_code": 0}), "does not answer as a registry does"),
    ],
    ids=["an error of the server", "an answer without message", "a page", "an object for a list"],
)
def test_an_invalid_answer_is_reported_and_retryable(
    registry: RegistryDouble, breakdown: tuple[int, object] | bytes, words: str
) -> None:
    registry.breakdown = breakdown
    error = refuse(lambda: fetch(registry))
    assert (error.reason, error.retryable) == (Reason.REGISTRY_UNAVAILABLE, True)
    assert words in error.message
    assert registry.url in error.message
    assert not any(foreign in error.message for foreign in ("backend", "busy", "html", "error_code"))


def give_login(folder: Path) -> Path:
    (folder / "username").write_text("me")
    (folder / "password").write_text("s3cret")
    return folder


def test_credentials_do_not_follow_a_redirect_to_another_host(
    registry: RegistryDouble, tmp_path: Path
) -> None:
    with RegistryDouble() as other:
        other.register("a/b-value", '"int"')
        registry.redirect = other.url
        error = refuse(lambda: fetch(registry, folder=give_login(tmp_path)))
        assert (error.reason, error.retryable) == (Reason.REGISTRY_UNAVAILABLE, True)
        assert "redirects" in error.message
        assert other.url not in error.message
        assert registry.logins
        assert not other.logins


def test_redirects_within_the_registry_are_bounded(registry: RegistryDouble, tmp_path: Path) -> None:
    registry.redirect = registry.url
    assert "redirects" in refuse(lambda: fetch(registry, folder=give_login(tmp_path))).message
    assert 1 < len(registry.logins) <= 5


@pytest.mark.parametrize(
    "found",
    [
        {"id": "canary", "schema": "x"}, {"schema": "x"}, {"id": 1}, {"id": 1, "schema": "x", "schemaType": "canary"},
        {"id": 1, "schema": "x", "references": [{"name": "canary"}]}, {"id": 1, "schema": "x", "references": ["canary"]},
    ],
)  # fmt: skip
def test_an_answer_that_is_no_schema_is_repeated_nowhere(
    registry: RegistryDouble, found: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register("a/b-value", '"int"')
    answer = registry.answer
    monkeypatch.setattr(
        registry, "answer", lambda path, login: (200, found) if "/1" in path else answer(path, login)
    )
    error = refuse(lambda: fetch(registry))
    assert error.reason in (Reason.REGISTRY_UNAVAILABLE, Reason.INVALID_SCHEMA)
    assert "canary" not in error.message


def test_a_missing_registry_is_reported_with_its_address(registry: RegistryDouble) -> None:
    gone = RegistryDouble()
    gone.close()
    error = refuse(lambda: fetch(gone))
    assert (error.reason, error.retryable) == (Reason.REGISTRY_UNAVAILABLE, True)
    assert gone.url in error.message


def test_a_missing_subject_or_version_is_reported_with_the_existing_ones(registry: RegistryDouble) -> None:
    error = refuse(lambda: fetch(registry))
    assert (error.reason, error.retryable) == (Reason.SCHEMA_NOT_FOUND, True)
    assert "no subject 'a/b-value'" in error.message
    registry.register("a/b-value", '"int"')
    assert (
        "no version 7 of subject 'a/b-value', it has: 1" in refuse(lambda: fetch(registry, version=7)).message
    )


def test_schemas_of_another_kind_are_refused(registry: RegistryDouble) -> None:
    registry.register("a/b-value", "message A {}", kind="PROTOBUF")
    error = refuse(lambda: fetch(registry))
    assert (error.reason, error.retryable) == (Reason.INVALID_SCHEMA, False)
    assert "PROTOBUF" in error.message


def test_schemas_that_refer_to_each_other_end_in_an_error(registry: RegistryDouble) -> None:
    registry.register("a/b-value", "a", references=[{"name": "a", "subject": "a/b-value", "version": 1}])
    assert "refer to each other" in refuse(lambda: fetch(registry)).message
