"""What is a selector, which tree it means, and where Java's parser says that one is none."""

from __future__ import annotations

import pytest

from rocketpy.protocol.selector.sql92_errors import SelectorError
from rocketpy.protocol.selector.sql92_grammar import parse


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a OR b AND c", "(a || (b && c))"),
        ("(a OR b) AND c", "((a || b) && c)"),
        ("a OR b OR c", "((a || b) || c)"),
        ("NOT a AND b", "((NOT a) && b)"),
        ("NOT a = 1", "((NOT a) == 1)"),
        ("a = 1 = TRUE", "((a == 1) == TRUE)"),
        ("a BETWEEN 1 AND 2 AND b", "(((a >= 1) && (a <= 2)) && b)"),
        ("a > 1 = b < 2", "((a > 1) == (b < 2))"),
    ],
)
def test_what_binds_tighter(text: str, meant: str) -> None:
    assert str(parse(text)) == meant


@pytest.mark.parametrize("text", ["a is not null", "a Is Not Null", "a\tIS\r\nNOT\fNULL", "a IS /* why */ NOT NULL"])
def test_case_and_blanks_and_comments_mean_nothing(text: str) -> None:
    assert str(parse(text)) == "(NOT (a == NULL))"


def test_a_comment_of_a_line_ends_with_it() -> None:
    assert str(parse("a -- b\n= 1")) == "(a == 1)"
    assert str(parse("a = 1 -- the end\n")) == "(a == 1)"


@pytest.mark.parametrize("text", ["_a", "$a", "a$1_b", "isnull", "NOTa", "Between1"])
def test_names_may_begin_as_keywords_do(text: str) -> None:
    assert str(parse(text)) == text


def test_names_are_ascii_whatever_unicode_takes_for_the_same_letter() -> None:
    """The Kelvin sign is a K to a careless comparison without case."""
    with pytest.raises(SelectorError, match="Lexical error"):
        parse("\u212a = 1")


# ---- what is no selector --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "found"),
    [
        ("a = = 1", 1, 5, ' "=" "= "'),
        ("a =\n= 1", 2, 1, ' "=" "= "'),
        ("a =\r\n  = 1", 2, 3, ' "=" "= "'),
        ("\ta = = 1", 1, 13, ' "=" "= "'),
        ("a IS b", 1, 6, ' <ID> "b "'),
    ],
)
def test_a_syntax_error_is_where_java_s_parser_stops(text: str, line: int, column: int, found: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith("org.apache.rocketmq.filter.parser.ParseException: ")
    assert f'Encountered "{found}" at line {line}, column {column}.' in message
    assert "\nWas expecting one of: " in message


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("a = #1", "line 1, column 5", '"#" (35), after : ""'),
        ("a = 'x", "line 1, column 7", '<EOF> after : "\\\'x"'),
        ("a /* b", "line 1, column 7", '<EOF> after : "/* b"'),
        ("a = .x", "line 1, column 6", '"x" (120), after : "."'),
        ("a #", "line 1, column 4", '<EOF> after : ""'),
    ],
)
def test_a_character_that_fits_nothing_is_named_with_what_was_read_before_it(text: str, place: str, found: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith("org.apache.rocketmq.filter.parser.TokenMgrError: Lexical error at ")
    assert message.endswith(f"{place}.  Encountered: {found}")


def test_an_error_quotes_control_characters_as_java_does() -> None:
    with pytest.raises(SelectorError) as caught:
        parse("a IS 'q\t\u00e9\0'")
    assert r"\'q\t\u00e9\'" in str(caught.value), "and leaves a NUL out"
