"""SQL92 selectors: Java's verdicts, a second evaluator's, and texts made to hurt."""

from __future__ import annotations

import subprocess
import sys
import weakref

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.protocol.selector import sql92, sql92_tree
from rocketpy.protocol.selector.sql92 import CACHED_TEXTS, compile_sql92
from rocketpy.protocol.selector.sql92_errors import DEPTH_MAX, SIZE_MAX, TOKENS_MAX, EvaluationError, SelectorError
from rocketpy.protocol.selector.sql92_grammar import parse
from tests.forgotten import Name, is_forgotten
from tests.protocol.selector import sql92_oracle as oracle
from tests.recorded import VECTORS

HEAD, *VERDICTS = VECTORS["sql92"]
NAMES = {True: "TRUE", False: "FALSE", None: "NULL"}


def verdict(text: str, properties: dict[str, str]) -> bool | str | None:
    """What a selector says of a message, "thrown" if it cannot be evaluated."""
    try:
        return compile_sql92(text).evaluate(properties)
    except EvaluationError:
        return "thrown"


# ---- Java's verdicts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VERDICTS, ids=lambda vector: repr(vector["expression"]))
def test_every_recorded_verdict_is_java_s(vector: dict[str, object]) -> None:
    text = str(vector["expression"])
    if "compile" in vector:
        with pytest.raises(SelectorError) as caught:
            compile_sql92(text)
        expected = vector["compile"]
        assert isinstance(expected, dict)
        assert str(caught.value).partition("\nWas")[0] == expected["message"].partition("\nWas")[0]
        return
    selector = compile_sql92(text)
    assert str(selector) == vector["text"]
    results = vector["results"]
    assert isinstance(results, list)
    for properties, expected in zip(HEAD["maps"], results, strict=True):
        if isinstance(expected, str):
            assert NAMES[selector.evaluate(properties)] == expected, properties
        else:
            with pytest.raises(EvaluationError) as thrown:
                selector.evaluate(properties)
            assert expected["message"].split(" (")[0] in str(thrown.value)
            assert not selector.matches(properties)


# ---- a second evaluator ----------------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.sampled_from(["", "1", "2", "-3", "+4", " 5", "1.5", "1e3", "NaN", "-0.0", "0.0", "true", "TRUE", "abc", "1d"]),
    st.integers(-5, 5).map(str),
    st.sampled_from([str(edge + step) for edge in (2**31, 2**63, -(2**31), -(2**63)) for step in (-1, 0, 1)]),
    st.floats(allow_nan=False).map(repr),
    st.text(max_size=3),
)
PROPERTIES = st.dictionaries(st.sampled_from("abc"), TEXTS)


def integer_constant(value: int) -> oracle.Expression:
    return ("constant", "Integer" if value < 2**31 else "Long", value)


PROPERTY = st.sampled_from("abc").map(lambda name: ("property", name))
NUMBERS = st.one_of(
    st.integers(0, 5).map(integer_constant),
    st.sampled_from([2**31 - 1, 2**31, 2**63 - 1]).map(integer_constant),
    st.floats(1e-9, 1e20).map(lambda value: ("constant", "Double", value)),
)
LEAVES = st.one_of(
    PROPERTY,
    NUMBERS,
    st.sampled_from(["abc", "1", "it's", "true", ""]).map(lambda text: ("constant", "String", text)),
    st.booleans().map(lambda value: ("constant", "Boolean", value)),
)


def grown(parts: st.SearchStrategy[oracle.Expression]) -> st.SearchStrategy[oracle.Expression]:
    """Expressions one step bigger; many are refused, which the test ignores."""
    order = st.sampled_from([">", ">=", "<", "<="])
    measured = st.one_of(PROPERTY, NUMBERS, st.tuples(st.just("-"), NUMBERS))
    return st.one_of(
        st.tuples(st.sampled_from(["AND", "OR", "=", "<>"]), parts, parts),
        st.tuples(order, measured, measured),
        st.tuples(st.sampled_from(["BETWEEN", "NOT BETWEEN"]), measured, measured, measured),
        st.tuples(st.sampled_from(["NOT", "-", "IS NULL", "IS NOT NULL"]), parts),
        st.tuples(st.sampled_from(["IN", "NOT IN"]), PROPERTY, st.sampled_from(["1", "abc", "it's"]), TEXTS),
    )


@given(st.recursive(LEAVES, grown, max_leaves=6), PROPERTIES)
@example(("AND", ("property", "a"), ("=", ("property", "b"), ("constant", "Integer", 1))), {"b": "x"})
@example((">", ("property", "a"), ("property", "b")), {"a": "0.0", "b": "-0.0"})
@example(("=", ("property", "a"), ("constant", "Double", 1.5)), {"a": "NaN"})
@example((">", ("property", "a"), ("constant", "Double", 1.5)), {"a": "NaN"})
def test_another_evaluator_agrees(expression: oracle.Expression, properties: dict[str, str]) -> None:
    try:
        selector = compile_sql92(oracle.text_of(expression))
    except SelectorError:
        return
    expected: object
    try:
        value = oracle.as_boolean(expression, properties)
        expected = None if value is None else value[1]
    except oracle.Thrown:
        expected = "thrown"
    assert verdict(selector.text, properties) == expected


# ---- what the grammar is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("a = 1 -- without an end, so two minus signs", "(a == 1)"),
        ("a /* * / ** */ = /**/ 1", "(a == 1)"),
        ("a = 1e5x", "(a == 100000.0)"),
        ("a = 1e", "(a == 1)"),
        ("a = 0L", "(a == 0)"),
        ("a = 5L", "(a == 5)"),
        ("a = 1e10 or a = 1e-5", "((a == 1.0E10) || (a == 1.0E-5))"),
        ("a = +-+1", "(a == (- 1))"),
        ("$a$ = _1", "($a$ == _1)"),
        ("a IS NULL IS NOT NULL", "(NOT ((a == NULL) == NULL))"),
    ],
)
def test_texts_mean_what_they_mean_to_rocketmq(text: str, means: str) -> None:
    assert str(compile_sql92(text)) == means


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ıs = 1", "Lexical error"),
        ("a ıs null", "Lexical error"),
        ("a = 1 / 2", 'Encountered: " " (32), after : "/"'),
        ("a = 1e400", "1e400 is greater than 1.7976931348623157E308"),
        ("a = 0e5", "0e5 is less than 4.9E-324"),
        ("a = -9223372036854775808", "NumberFormatException"),
        ("a BETWEEN 'x' AND 1", 'NumberFormatException: For input string: "x"'),
        ("a BETWEEN 'x' AND TRUE", "ClassCastException"),
        ("a BETWEEN TRUE AND FALSE", "left value(true) must less than or equal to right value(false)"),
    ],
)
def test_what_is_no_selector_says_why(text: str, why: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_sql92(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "properties", "expected"),
    [
        ("TRUE = a", {"a": "true"}, "thrown"),
        ("a = TRUE", {"a": "tRuE"}, True),
        ("1 = TRUE", {}, False),
        ("TRUE = FALSE", {}, False),
        ("(a = 1) = 1", {"a": "1"}, False),
        ("(a = 1) = (b = 1)", {"a": "1", "b": "1"}, True),
        ("a = 3000000000", {"a": "3000000000"}, True),
        ("3000000000 > 1", {}, True),
        ("3000000000 = 3000000000.0", {}, True),
        ("1.5 > a", {"a": "1"}, True),
        ("a = -1.5", {"a": "-1.5"}, True),
        ("a < -a", {"a": "1"}, None),
        ("a = -(b = 1)", {"a": "1", "b": "x"}, "thrown"),
        ("a = -(b = 1)", {"a": "1", "b": "1"}, False),
        ("a IN ('1','2')", {"a": "2"}, True),
    ],
)
def test_classes_meet_as_in_java(text: str, properties: dict[str, str], expected: object) -> None:
    assert verdict(text, properties) == expected


# ---- what was compiled is remembered ---------------------------------------------------------------------------------


def test_texts_and_refusals_are_cached_and_old_ones_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(text: str) -> sql92_tree.Node:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(sql92, "parse", counted)
    first = compile_sql92("a = 12345")
    assert compile_sql92("a = 12345") is first
    for _ in range(2):
        with pytest.raises(SelectorError, match="cannot be compared"):
            compile_sql92("a = 12345 OR a = NULL")
    assert parsed == ["a = 12345", "a = 12345 OR a = NULL"]
    for number in range(CACHED_TEXTS - 2):
        compile_sql92(f"b = 12345 OR b = {number}")
    assert compile_sql92("a = 12345") is first, "as many texts are remembered as the bound says"
    for number in range(CACHED_TEXTS):
        compile_sql92(f"c = 12345 OR c = {number}")
    parsed.clear()
    assert compile_sql92("a = 12345") is not first, "and not one more"
    assert parsed == ["a = 12345"]


# ---- hostile texts ---------------------------------------------------------------------------------------------------

HALF = TOKENS_MAX // 2 - 1


@pytest.mark.parametrize(
    "text",
    ["NOT " * 4000 + "a", "- " * 4000 + "a", "a" + "=a" * 2000, "a" + " IS NULL" * 2000,
     "a = " + "NOT (" * 300 + "a" + ")" * 300],
)  # fmt: skip
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(SelectorError, match=f"expected at most {DEPTH_MAX} expressions within each other"):
        compile_sql92(text)


def test_a_selector_as_deep_as_can_be_is_compiled_printed_and_evaluated() -> None:
    levels = DEPTH_MAX - 1
    selector = compile_sql92("NOT (" * levels + "a" + ")" * levels)
    assert selector.evaluate({"a": "1"}) is True
    assert str(selector).startswith("(NOT (NOT")


def test_parentheses_and_chains_are_not_depth() -> None:
    assert compile_sql92("(" * HALF + "a" + ")" * HALF).evaluate({}) is None
    listed = ", ".join(f"'{number:08}'" for number in range(2000))
    assert compile_sql92(f"a IN ({listed})").evaluate({"a": "00001999"}) is True
    chain = compile_sql92(" OR ".join(["a = 1"] * 1000))
    assert chain.evaluate({"a": "1"}) is True
    assert chain.evaluate({"a": "2"}) is False
    assert len(str(chain)) > 5000


@pytest.mark.parametrize("text", ["a" * 1_000_000, "a = 1 OR " * 120_000, "(" * 1_000_000, "'" * 1_000_000])
def test_size_is_bounded(text: str) -> None:
    with pytest.raises(SelectorError, match=f"expected at most {SIZE_MAX} characters of SQL, found {len(text)}"):
        compile_sql92(text)
    named = Name(text)
    reference = weakref.ref(named)
    with pytest.raises(SelectorError):
        compile_sql92(named)
    del named
    assert is_forgotten(reference), "a hundred such texts would be cached"


@pytest.mark.parametrize(
    "text", ["a > '" + "x" * 30_000 + "'", "a = " + "1" * 30_000, "'" + "x" * 30_000 + "' 5", "= '" + "x" * 30_000]
)
def test_a_refusal_does_not_repeat_a_long_text(text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_sql92(text)
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("text", ["a = 1 OR " * 3000 + "a", "(" * 30_000, "NOT " * 8000 + "a", "-" * 5000 + "a = 1"])
def test_the_number_of_words_and_signs_is_bounded(text: str) -> None:
    with pytest.raises(SelectorError, match=f"expected at most {TOKENS_MAX} words and signs of SQL, found more"):
        compile_sql92(text)


TOKENS = ["a", "b", "AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "TRUE", "=", "<>", ">", "<=", "(", ")", ",",
          "+", "-", "1", "2.5", "'x'", "''", "/*", "*/", "--", "\n", ".", "名", "\0", "'"]  # fmt: skip


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map(" ".join), PROPERTIES)
def test_any_tokens_are_a_selector_or_refused(text: str, properties: dict[str, str]) -> None:
    refusal = ""
    try:
        selector = compile_sql92(text)
    except SelectorError as failure:
        refusal = str(failure)
    if refusal:
        assert refusal.startswith(("java.lang.", "org.apache.rocketmq.filter.parser."))
    else:
        assert verdict(text, properties) in (True, False, None, "thrown")
        assert selector.matches(properties) is (verdict(text, properties) is True)


@given(st.text(max_size=30))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        compile_sql92(text)
    except SelectorError:
        pass


def test_lark_is_not_imported_before_there_is_a_selector() -> None:
    """Start-up must not pay for a parser that most brokers never need."""
    program = (
        "import sys, rocketpy.broker.app; print('rocketpy.protocol.selector.sql92_tree' in sys.modules);"
        "import rocketpy.protocol.selector.sql92; print('lark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nFalse\n"
