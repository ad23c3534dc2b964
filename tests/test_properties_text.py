"""Properties texts as Java reads them, and texts of ours that both read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import SettingsError
from rocketpy.properties_text import (
    PropertyLine,
    decode_properties_text,
    format_properties,
    format_property,
    read_properties,
    rewritten_properties,
)

GOLDEN_CONFIG = Path(__file__).parent / "golden" / "config"


def properties(text: str) -> dict[str, str]:
    return {line.key: line.value for line in read_properties(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\nc:3\nd : 4\ne 5\nf\t6\n", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}),
        ("# c\n ! d\n\n  \t\n a=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a = one \\\n   two\\\nthree", {"a": "one twothree"}),
        ("a = ends with a backslash \\\\\nb=2", {"a": "ends with a backslash \\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("key\\ with\\ blanks=1\na\\=b=c=d\na\\:b:c", {"key with blanks": "1", "a=b": "c=d", "a:b": "c"}),
        ("a=\\t\\n\\r\\f\\u00e9\\q", {"a": "\t\n\r\fé" + "q"}),
        ("a=\\uD83D\\uDE80", {"a": "\N{ROCKET}"}),
        ("alone\nb=\n=value", {"alone": "", "b": "", "": "value"}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("a==1", {"a": "=1"}),
        ("a=trailing  ", {"a": "trailing  "}),
        ("a=1 \\\n# still the value", {"a": "1 # still the value"}),
        ("#comment does not continue \\\na=1", {"a": "1"}),
        ("", {}),
    ],
)
def test_text_is_read_as_java_properties(text: str, expected: dict[str, str]) -> None:
    assert properties(text) == expected


def test_lines_are_counted_across_continuations() -> None:
    lines = list(read_properties("# one\na=1 \\\n  2\n\nb=3\n"))
    assert lines == [PropertyLine("a", "1 2", 2, 3), PropertyLine("b", "3", 5, 5)]


def test_a_broken_unicode_escape_names_file_and_line() -> None:
    with pytest.raises(SettingsError, match=r"^x\.conf line 2: expected four hexadecimal digits after \\u$"):
        list(read_properties("a=1\nb=\\u12g4", "x.conf"))


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_written_reads_back(values: dict[str, str]) -> None:
    text = format_properties(values)
    text.encode("ascii")
    assert properties(text) == values


def test_rewriting_keeps_comments_order_and_foreign_keys() -> None:
    text = "# the port\nlistenPort = 1\nother: \\\n  long \\\n  value\r\nlistenPort=2\n# end"
    rewritten = rewritten_properties(text, {"listenPort": "3", "other": "o", "new": " n"})
    assert rewritten == "# the port\nother=o\nlistenPort=3\n# end\nnew=\\ n\n"
    assert rewritten_properties("", {"a": "1"}) == "a=1\n"
    assert rewritten_properties("a=1\n\n", {}) == "a=1\n\n"


LINES = st.sampled_from(
    ["# one", "! two", "", "  ", "a=1", "b : 2", "a 3", "c=x \\", "   more", "\\u0061=4", "d=\\\\", "e=\\", "# ends \\"]
)


@given(st.lists(LINES, max_size=12), st.dictionaries(st.sampled_from("abcdefg "), st.text(max_size=5), max_size=4))
def test_whatever_the_text_is_it_has_the_new_values_and_everything_else(
    lines: list[str], changes: dict[str, str]
) -> None:
    text = "\n".join(lines)
    rewritten = rewritten_properties(text, changes)
    assert properties(rewritten) == properties(text) | changes
    kept = rewritten.splitlines()
    comments = [line for line in lines if line.startswith(("#", "!"))]
    continued = sum(line.endswith("\\") and not line.startswith(("#", "!")) for line in lines)
    assert sum(line in kept for line in comments) >= len(comments) - 2 * continued


def test_keys_with_separators_are_escaped() -> None:
    assert format_property("#a b=c:d", "#e=f") == "\\#a\\ b\\=c\\:d=#e=f"


@pytest.mark.parametrize("name", ["namesrv.properties", "broker.properties"])
def test_files_written_by_java_read_and_write_to_equal_values(name: str) -> None:
    values = properties((GOLDEN_CONFIG / name).read_text())
    assert len(values) > 15
    assert properties(format_properties(values)) == values


def test_bytes_are_utf_8_or_else_latin_1() -> None:
    assert decode_properties_text("a=é".encode()) == decode_properties_text("a=é".encode("latin-1")) == "a=é"
    assert decode_properties_text(b"\xef\xbb\xbfa=1") == "a=1", "with a byte order mark"
