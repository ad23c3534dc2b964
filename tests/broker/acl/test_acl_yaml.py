"""YAML with line numbers: what is written stays text, and what could grow is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.acl_yaml import DEPTH_MAX, YamlList, YamlMap, YamlNode, YamlScalar, parse_yaml

TEXT = """\
# top
key: 0123456   # a comment
none:
list:
  - one
  # between
  - 'two'  # behind
flow: [a, {b: c}]
block: |
  long
# end
"""


def root_of(text: str) -> YamlMap:
    root = parse_yaml(text)
    assert isinstance(root, YamlMap)
    return root


def test_nodes_are_where_they_were_written() -> None:
    root = root_of(TEXT)
    places = {key.text: TEXT[value.start : value.end] for key, value in root.pairs}
    assert places == {
        "key": "0123456",
        "none": "",
        "list": "- one\n  # between\n  - 'two'",
        "flow": "[a, {b: c}]",
        "block": "|\n  long\n",
    }
    listed = root.get("list")
    assert isinstance(listed, YamlList)
    assert [(item.line, item.text) for item in listed.items if isinstance(item, YamlScalar)] == [(5, "one"), (7, "two")]
    assert (listed.column, listed.is_flow, listed.line) == (2, False, 5)


def test_a_scalar_is_the_text_that_was_written() -> None:
    root = root_of("a: 0123\nb: '~'\nc: ~\nd: 1.50\ne: yes\nf: \"x\\ty\"\n")
    values = [value for _, value in root.pairs if isinstance(value, YamlScalar)]
    assert [value.text for value in values] == ["0123", "~", "~", "1.50", "yes", "x\ty"]
    assert [value.is_null for value in values] == [False, False, True, False, False, False]
    assert [value.is_true for value in values] == [False, False, False, False, True, False]
    assert root.get("c") is None
    assert root.get("missing") is None


def test_of_equal_keys_the_last_one_counts() -> None:
    value = root_of("a: 1\na: 2\n").get("a")
    assert isinstance(value, YamlScalar)
    assert value.text == "2"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_nothing_is_nothing(text: str) -> None:
    root = parse_yaml(text)
    assert root is None or (isinstance(root, YamlScalar) and root.is_null)


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BOMB, "line 1: expected no anchors and aliases, found one"),
        ("a: *b\n", "line 1: expected no anchors and aliases"),
        ("[" * 100_000, f"line 1: expected at most {DEPTH_MAX} levels"),
        ("- " * 50 + "a", f"line 1: expected at most {DEPTH_MAX} levels"),
        ("a: 1\n---\nb: 2\n", "line 2: expected one document"),
        ("? [a]\n: b\n", "line 1: expected a plain key"),
        ("a: 1\nb: 'open\n", "line 3: found unexpected end of stream"),
        ("a: b: c\n", "line 1: mapping values are not allowed here"),
        ("a:\n\t- b\n", "line 2: found character"),
        ("a: \x00", "not YAML: special characters are not allowed"),
        ("a: [1, 2\nb: 3\n", "line"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, expected: str) -> None:
    with pytest.raises(AclError) as failure:
        parse_yaml(text)
    assert str(failure.value).startswith(expected)
    assert "\n" not in str(failure.value)


def nodes(node: YamlNode) -> list[YamlNode]:
    children: list[YamlNode] = []
    if isinstance(node, YamlList):
        children = node.items
    elif isinstance(node, YamlMap):
        children = [each for pair in node.pairs for each in pair]
    return [node, *(each for child in children for each in nodes(child))]


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{}'\"#|> \n&*!,~", max_size=60))
def test_any_text_is_nodes_inside_the_text_or_an_error(text: str) -> None:
    try:
        root = parse_yaml(text)
    except AclError:
        return
    for node in [] if root is None else nodes(root):
        assert 0 <= node.start <= node.end <= len(text)
