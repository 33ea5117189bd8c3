"""What stored queries say, and what is said of those that cannot be read."""

from typing import Any

import pytest

from kappa_pipelines.transforms.search.document import Fields, Kind, read_document, split_words
from kappa_pipelines.transforms.search.index import Index
from kappa_pipelines.transforms.search.language import DEEPEST, LONGEST, QueryError, read_query
from kappa_pipelines.transforms.search.step import read_columns
from kappa_pipelines.transforms.search.versions import END, Valid

FIELDS = Fields(
    ("title", "body"),
    (
        ("title", Kind.WORDS),
        ("body", Kind.WORDS),
        ("code", Kind.WORDS),
        ("delay", Kind.EXACT),
        ("share", Kind.FLOAT),
    ),
)
DOCUMENT = {
    "Title": "Engine failure in New-York",
    "body": "The ŁÓDŹ crew saw smoke, no fire.",
    "code": "UA",
    "delay": "-5",
    "share": "0.1",
}


def matches(query: str, **columns: Any) -> bool:
    document = {name.lower(): value for name, value in {**DOCUMENT, **columns}.items()}
    condition = read_query(FIELDS, query)
    assert not isinstance(condition, QueryError), condition
    return condition.matches(read_document(FIELDS, document))


@pytest.mark.parametrize(
    "query",
    [
        "engine",
        "ENGINE Smoke",
        "łódź",
        '"engine failure"',
        "New-York",
        '"new york"',
        "engin*",
        "engine AND (water OR smoke)",
        "water OR engine smoke",
        "engine NOT water",
        "engine -water +smoke",
        "NOT water",
        "title:engine",
        "TITLE:(water OR failure)",
        'title:"engine failure"',
        "code:ua",
        "code:*",
        "delay:[-10 TO -5]",
        "delay:{-6 TO *]",
        'delay:<0 delay:<="-5.0"',
        "delay:-5",
        'delay:>="-5"',
        "delay:>\\-6",
        "delay:(-5 OR 7)",
        "delay:(NOT 7)",
        "share:0.1",
        "share:*",
        "delay:[* TO *]",
        'body:"crew saw" delay:<60',
    ],
)
def test_a_document_matches(query: str) -> None:
    assert matches(query)


@pytest.mark.parametrize(
    "query",
    [
        "water",
        "engine water",
        "ua",
        '"failure engine"',
        '"york the"',
        "ngin*",
        "body:engine",
        "engine NOT smoke",
        "-engine",
        "delay:{-5 TO 0]",
        "delay:[-10 TO -5}",
        "delay:5",
        "delay:>0",
        "share:<0.1",
        "NOT delay:*",
    ],
)
def test_a_document_does_not_match(query: str) -> None:
    assert not matches(query)


def test_a_condition_on_null_does_not_hold_and_its_negation_does() -> None:
    assert not matches("delay:<100", delay=None)
    assert not matches("delay:*", delay=None)
    assert not matches("code:*", code=None)
    assert matches("NOT delay:<100", delay=None)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (None, "the query is empty"),
        (" ", "the query is empty"),
        ("a AND (b", "unmatched parenthesis"),
        ('"a', "Illegal character"),
        ("colour:red", "there is no field 'colour'; known are title, body, code, delay, share"),
        ("title:12:30", "a field inside a field"),
        ("delay:>-5", "Syntax error"),
        ("delay:long", "delay:long: delay is a number"),
        ("delay:nan", "cannot be compared"),
        ("delay:(>5 AND long)", "delay is a number"),
        ("title:[a TO b]", "a range needs a field with numbers"),
        ("engine~2", "fuzzy is not part of the language"),
        ('"a b"~3', "proximity is not part of the language"),
        ("engine^2", "boost is not part of the language"),
        ("/eng/", "regex is not part of the language"),
        ("en*ine", "a * can only be at the end of one word"),
        ("engin?", "a * can only be at the end of one word"),
        ("new-yo*", "a * can only be at the end of one word"),
        ("*", "a * can only be at the end of one word"),
        ("a && b", "write AND, OR and NOT"),
        ("!a", "write AND, OR and NOT"),
        ("a AND", "unexpected end of expression"),
        ("...", "...: there is no word in it"),
        ("a" * (LONGEST + 1), f"longer than {LONGEST} characters"),
        ("(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1), f"nested deeper than {DEEPEST}"),
    ],
)
def test_an_invalid_query_reports_the_reason(query: str | None, said: str) -> None:
    found = read_query(FIELDS, query)
    assert isinstance(found, QueryError), found
    assert said in str(found)


def test_words_are_runs_of_letters_and_digits_whatever_their_case_and_form() -> None:
    assert split_words("Straße 12b, cafe\u0301—ﬁne!") == ("strasse", "12b", "café", "fine")


def test_numbers_of_a_document_are_exact() -> None:
    columns = read_columns('{"Delay": 9007199254740993, "share": 0.1, "title": null}')
    assert read_document(FIELDS, columns).numbers == {"delay": 9007199254740993, "share": 0.1}


@pytest.mark.parametrize(
    ("query", "always"),
    [
        ("engine", 0),
        ("engine NOT fire", 0),
        ("engine OR fir*", 0),
        ("delay:15 OR engine", 0),
        ("delay:>5 engine", 0),
        ("NOT engine", 1),
        ("delay:>5", 1),
        ("engine OR delay:>5", 1),
        ("title:*", 1),
    ],
)
def test_a_query_without_a_word_or_number_that_must_be_there_is_always_tested(
    query: str, always: int
) -> None:
    index = Index(FIELDS)
    index.hold([Valid("1", 0, END, query, "")])
    assert index.always == always


def test_a_query_is_filed_under_what_few_queries_name() -> None:
    index = Index(FIELDS)
    index.hold([Valid(str(number), 0, END, f'the "engine the w{number}"', "") for number in range(50)])
    assert len(index.find_candidates(read_document(FIELDS, {"title": "the engine the w7"}))) == 1
