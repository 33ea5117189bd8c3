"""URLs, patterns, quoting, errors and the screen of `kappa cdc check`."""

import pytest

from kappa_operator.cdc.address import Address, DatabaseKind, parse_address
from kappa_operator.cdc.errors import ConnectDenied, DatabaseUnreachable
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.findings import Finding, Severity
from kappa_operator.cdc.patterns import TablePattern
from kappa_operator.cdc.postgresql import explain_refusal
from kappa_operator.cdc.quoting import quote_mysql, quote_postgresql, quote_postgresql_text
from kappa_operator.cli.cdc_view import build_view

ADDRESS = parse_address("postgresql://me@db.example:6543/shop")


def test_a_url_is_read() -> None:
    assert parse_address("mariadb://o%40me@[::1]/shop") == Address(
        DatabaseKind.MYSQL, "::1", 3306, "o@me", "shop"
    )
    assert (ADDRESS.port, ADDRESS.is_loopback) == (6543, False)
    assert parse_address("me@localhost/shop", "mysql").is_loopback


@pytest.mark.parametrize(
    ("url", "kind", "reason"),
    [
        ("postgresql://me:secret@db/shop", None, "has a password"),
        ("postgresql://me@db/shop?sslmode=disable", None, "parameters"),
        ("postgresql://db/shop", None, "lacks"),
        ("postgresql://me@db", None, "lacks"),
        ("oracle://me@db/shop", None, "none of"),
        ("mysql://me@db/shop", "postgresql", "not of postgresql"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(
    url: str, kind: str | None, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_address(url, kind)
    assert "secret" not in str(caught.value)


def test_the_password_is_not_in_the_text_of_an_address() -> None:
    assert "secret" not in repr(Address(DatabaseKind.MYSQL, "db", 1, "me", "shop", password="secret"))


def test_only_star_and_question_mark_are_wildcards() -> None:
    pattern = TablePattern.parse("sh?p.a[1]_*", "public")
    assert pattern.matches(TableName("shop", "a[1]_x"))
    assert not pattern.matches(TableName("shop", "a1_x"))
    assert pattern.to_like() == ("sh_p", "a[1]|_%")
    assert TablePattern.parse("orders", "public") == TablePattern("public", "orders")


def test_names_are_quoted_by_the_rules_of_each_database() -> None:
    assert quote_postgresql('a"b') == '"a""b"'
    assert quote_postgresql("a\n\\b\u202e") == 'U&"a\\+00000A\\\\b\\+00202E"'
    assert quote_postgresql_text("it's \\") == "E'it''s \\\\'"
    assert quote_mysql("a`b") == "`a``b`"


def test_the_text_of_a_server_is_not_repeated() -> None:
    error = explain_refusal(ADDRESS, 'FATAL: password authentication failed for user "me" EVIL')
    assert isinstance(error, DatabaseUnreachable)
    assert "refused the user or the password" in str(error)
    assert "EVIL" not in str(error)
    denied = explain_refusal(ADDRESS, 'permission denied for database "shop"')
    assert isinstance(denied, ConnectDenied)


def test_names_cannot_steer_the_terminal() -> None:
    finding = Finding(Severity.ERROR, "r", "table \x1b[2J", "m", "w", ("DROP `\x1b]0;x`;",))
    text = build_view((finding,)).plain
    assert "\x1b" not in text
    assert "\\u001b[2J" in text
    assert text.endswith("The database is not ready.")
