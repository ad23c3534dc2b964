"""Names and boxes of the store's files."""

from __future__ import annotations

import pytest

from rocketpy.store import layout


@pytest.mark.parametrize("base_offset", [0, 1, 1 << 30, 10**19])
def test_file_names_say_their_offset(base_offset: int) -> None:
    name = layout.file_name(base_offset)
    assert len(name) == 20
    assert layout.base_offset_of(name) == base_offset


@pytest.mark.parametrize(
    "name", ["", "0", ".DS_Store", "0" * 19, "0" * 21, "0" * 19 + "x", "0" * 19 + "²", "-" + "0" * 19]
)
def test_other_names_are_no_files_of_ours(name: str) -> None:
    assert layout.base_offset_of(name) is None


@pytest.mark.parametrize(
    ("topic", "is_one"),
    [("T", True), ("%RETRY%g", True), ("a" * 127, True), ("a" * 128, False), ("订" * 43, False)]
    + [(topic, False) for topic in ("", ".", "..", "a/b", "/a", "../a", "a\0")],
)
def test_what_names_a_directory(topic: str, is_one: bool) -> None:
    assert layout.names_a_directory(topic) == is_one


def test_a_deletion_is_named_by_its_offset() -> None:
    assert layout.deletion_of(layout.deletion_name(300)) == 300
    assert layout.deletion_of("deleted-before-300") == 0, "an offset that cannot be read deletes nothing"
    assert layout.deletion_of("0") is None


@pytest.mark.parametrize(
    "name", ["2026013123595912", "20260131235959123.tmp", "2026013123595912x", "２0260131235959123"]
)
def test_an_index_file_is_named_by_a_time(name: str) -> None:
    assert layout.is_index_file_name("20260131235959123")
    assert not layout.is_index_file_name(name)
