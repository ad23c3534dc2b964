"""The grammar of SQL92 selectors, and the parser made from it when the first selector comes.

Three things are RocketMQ's own. NOT binds tighter than a comparison: ``NOT a = 1`` is ``(NOT a) = 1``. The ``=``
family binds looser than the ``>`` family. And the parser does not require the end of the text: a token that cannot
continue a complete expression ends it, so ``a = 1 xyz`` and ``a + 1 = 2`` (which is ``a``) are valid; of the ignored
rest only the first token must be a valid one.

``lark`` makes the tables in some 50 ms, so nothing of it is imported before there is a selector to parse. A parse keeps
its own stack: however deep the parentheses, it does not recurse.

Compatibility: ``SelectorParser.jj`` of 4.9.8. A message about a syntax error begins as there, and lists what was
expected in another order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from rocketpy.protocol.selector import sql92_tree as tree
from rocketpy.protocol.selector.sql92_errors import SIZE_MAX, TOKENS_MAX, SelectorError

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.parsers.lalr_interactive_parser import InteractiveParser

GRAMMAR: Final = r"""
start: or_expression

?or_expression: and_expression ("OR"i and_expression)*
?and_expression: equality ("AND"i equality)*

?equality: comparison
    | equality "=" comparison             -> equal
    | equality "<>" comparison            -> not_equal
    | equality "IS"i "NULL"i              -> is_null
    | equality "IS"i "NOT"i "NULL"i       -> is_not_null

?comparison: unary
    | comparison ">" unary                -> greater
    | comparison ">=" unary               -> greater_or_equal
    | comparison "<" unary                -> less
    | comparison "<=" unary               -> less_or_equal
    | comparison "BETWEEN"i unary "AND"i unary           -> between
    | comparison "NOT"i "BETWEEN"i unary "AND"i unary    -> not_between
    | comparison "IN"i "(" STRING_LITERAL ("," STRING_LITERAL)* ")"          -> is_in
    | comparison "NOT"i "IN"i "(" STRING_LITERAL ("," STRING_LITERAL)* ")"   -> is_not_in

?unary: primary
    | "+" unary
    | "-" unary                           -> negate
    | "NOT"i unary                        -> invert

?primary: STRING_LITERAL                  -> string
    | DECIMAL_LITERAL                     -> integer
    | FLOATING_POINT_LITERAL              -> double
    | "TRUE"i                             -> true
    | "FALSE"i                            -> false
    | "NULL"i                             -> null
    | ID                                  -> property
    | "(" or_expression ")"

NOT_EQUAL: "<>"
GREATER_OR_EQUAL: ">="
LESS_OR_EQUAL: "<="
ID: /[a-z_$][a-z0-9_$]*/i
STRING_LITERAL: /'(?:''|[^'])*'/
DECIMAL_LITERAL: /0|[1-9][0-9]*l?/i
FLOATING_POINT_LITERAL.1: /(?:[0-9]+\.[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)/i

LINE_COMMENT.1: /--[^\n\r]*(?:\r\n?|\n)/
BLOCK_COMMENT.1: /\/\*(?:[^*]|\*(?!\/))*\*\//
%ignore /[ \t\n\r\f]+/
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""

_IMAGES = {
    "EQUAL": '"="', "NOT_EQUAL": '"<>"', "MORETHAN": '">"', "GREATER_OR_EQUAL": '">="',
    "LESSTHAN": '"<"', "LESS_OR_EQUAL": '"<="',
    "LPAR": '"("', "RPAR": '")"', "COMMA": '","', "PLUS": '"+"', "MINUS": '"-"', "$END": "<EOF>",
}  # fmt: skip
_KEYWORDS = frozenset(["NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"])
_TAB_SIZE = 8
_SHOWN_MAX = 200
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\"}


def check_size(text: str) -> None:
    """SelectorError when a text is longer than SIZE_MAX."""
    if len(text) > SIZE_MAX:
        raise SelectorError(f"expected at most {SIZE_MAX} characters of SQL, found {len(text)}")


def parse(text: str) -> tree.Node:
    """Return the tree of a selector of at most SIZE_MAX characters; SelectorError when it is none."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken  # when it is used, see above

    state = _parser().parse_interactive(text)
    tokens: Iterator[Token] = state.lexer_thread.lex(state.parser_state)  # type: ignore[no-untyped-call]
    last: Token | None = None
    try:
        for number, token in enumerate(tokens):
            if number == TOKENS_MAX:
                raise SelectorError(f"expected at most {TOKENS_MAX} words and signs of SQL, found more")
            try:
                state.feed_token(token)
            except UnexpectedToken:
                return _end(state, text, token, last)
            last = token
    except UnexpectedCharacters as failure:
        raise _lexical_error(text, failure.pos_in_stream or 0) from None
    return _end(state, text, None, last)


class _Builder:
    """Builds the tree: one method per rule of the grammar."""

    def start(self, parts: list[tree.Node]) -> tree.Node:
        return tree.as_boolean(parts[0])

    def or_expression(self, parts: list[tree.Node]) -> tree.Node:
        return tree.logic("||", parts)

    def and_expression(self, parts: list[tree.Node]) -> tree.Node:
        return tree.logic("&&", parts)

    def equal(self, parts: list[tree.Node]) -> tree.Node:
        return tree.equal(*parts)

    def not_equal(self, parts: list[tree.Node]) -> tree.Node:
        return tree.not_equal(*parts)

    def is_null(self, parts: list[tree.Node]) -> tree.Node:
        return tree.is_null(*parts)

    def is_not_null(self, parts: list[tree.Node]) -> tree.Node:
        return tree.is_not_null(*parts)

    def greater(self, parts: list[tree.Node]) -> tree.Node:
        return tree.order(">", *parts)

    def greater_or_equal(self, parts: list[tree.Node]) -> tree.Node:
        return tree.order(">=", *parts)

    def less(self, parts: list[tree.Node]) -> tree.Node:
        return tree.order("<", *parts)

    def less_or_equal(self, parts: list[tree.Node]) -> tree.Node:
        return tree.order("<=", *parts)

    def between(self, parts: list[tree.Node]) -> tree.Node:
        return tree.between(*parts)

    def not_between(self, parts: list[tree.Node]) -> tree.Node:
        return tree.not_between(*parts)

    def is_in(self, parts: list[tree.Node | str]) -> tree.Node:
        return _membership(parts, is_negated=False)

    def is_not_in(self, parts: list[tree.Node | str]) -> tree.Node:
        return _membership(parts, is_negated=True)

    def negate(self, parts: list[tree.Node]) -> tree.Node:
        return tree.negate(*parts)

    def invert(self, parts: list[tree.Node]) -> tree.Node:
        return tree.invert(*parts)

    def string(self, parts: list[str]) -> tree.Node:
        return tree.string(parts[0])

    def integer(self, parts: list[str]) -> tree.Node:
        return tree.integer(parts[0])

    def double(self, parts: list[str]) -> tree.Node:
        return tree.double(parts[0])

    def true(self, parts: list[str]) -> tree.Node:
        return tree.TRUE

    def false(self, parts: list[str]) -> tree.Node:
        return tree.FALSE

    def null(self, parts: list[str]) -> tree.Node:
        return tree.NULL

    def property(self, parts: list[str]) -> tree.Node:
        return tree.Property(str(parts[0]))


# ---- private ---------------------------------------------------------------------------------------------------------


@cache
def _parser() -> Lark:
    import re

    from lark import Lark

    # ASCII: without it Unicode's other forms of s and k would be letters of keywords and names.
    return Lark(GRAMMAR, parser="lalr", lexer="basic", transformer=_Builder(), g_regex_flags=re.ASCII)


def _membership(parts: list[tree.Node | str], *, is_negated: bool) -> tree.Node:
    left, *images = parts
    assert not isinstance(left, str)
    return tree.membership(left, [str(image) for image in images], is_negated=is_negated)


def _end(state: InteractiveParser, text: str, token: Token | None, last: Token | None) -> tree.Node:
    """Return what was parsed up to a token that does not continue it; SelectorError when that is not whole."""
    from lark.exceptions import UnexpectedToken

    try:
        node: tree.Node = state.feed_eof(last)  # type: ignore[no-untyped-call]
    except UnexpectedToken:
        expected: set[str] = state.accepts()  # type: ignore[no-untyped-call]
        if last is not None and last.type == "NOT" and expected == {"BETWEEN", "IN"}:
            token = last  # Java looks two tokens ahead here
        raise _syntax_error(text, token, expected) from None
    return node


def _syntax_error(text: str, token: Token | None, expected: set[str]) -> SelectorError:
    if token is None:
        line, column = _line_and_column(text, len(text) - 1)
        found = "<EOF>"
    else:
        assert token.start_pos is not None
        line, column = _line_and_column(text, token.start_pos)
        found = f' {_image(token.type)} "{_escaped(str(token))} "'
    wanted = " ".join(map(_image, sorted(expected)))
    return SelectorError(
        f'org.apache.rocketmq.filter.parser.ParseException: Encountered "{found}" at line {line}, column {column}.\n'
        f"Was expecting one of: {wanted}"
    )


def _lexical_error(text: str, position: int) -> SelectorError:
    """Return what Java's token manager says: the character that fits nothing, and what it had read before it."""
    begun = text[position:]
    if begun.startswith(("/*", "'")):
        after, bad = begun, ""  # the end of it is missing
    elif begun[0] in "./":
        after, bad = begun[0], begun[1:2]
    else:
        after, bad = "", begun[:1]
        if len(begun) == 1:
            bad = ""  # as Java has it: a last character counts as read, and the end as what fits nothing
            position += 1
    line, column = _line_and_column(text, position + len(after))
    if not bad and position + len(after) >= len(text):
        line, column = _line_and_column(text, len(text) - 1)
        column += 1
    found = f'"{_escaped(bad)}" ({ord(bad)}), ' if bad else "<EOF> "
    return SelectorError(
        f"org.apache.rocketmq.filter.parser.TokenMgrError: Lexical error at line {line}, column {column}.  "
        f'Encountered: {found}after : "{_escaped(after)}"'
    )


def _image(terminal: str) -> str:
    if terminal in _KEYWORDS:
        return f'"{terminal}"'
    return _IMAGES.get(terminal, f"<{terminal}>")


def _escaped(text: str) -> str:
    shown = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
    return "".join(
        _ESCAPES.get(character) or (character if " " <= character <= "~" else f"\\u{ord(character) & 0xFFFF:04x}")
        for character in shown
        if character != "\0"  # Java leaves it out
    )


def _line_and_column(text: str, index: int) -> tuple[int, int]:
    """Return line and column of a character, from 1 on, tabs reaching to multiples of 8; (0, 0) before the first."""
    if index < 0:
        return 0, 0
    breaks = _line_starts(text[:index])
    line = bisect_right(breaks, index)
    column = 0
    for character in text[breaks[line - 1] : index + 1]:
        column += 1
        if character == "\t":
            column += _TAB_SIZE - 1 - (column - 1) % _TAB_SIZE
    return line, column


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for position, character in enumerate(text):
        if character == "\n" or (character == "\r" and text[position + 1 : position + 2] != "\n"):
            starts.append(position + 1)
    return starts
