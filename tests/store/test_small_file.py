"""Files of a few lines are replaced whole, and keep what was not asked to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.errors import StoreError
from rocketpy.store.disk import OsDisk
from rocketpy.store.small_file import persist_small_file, rewrite_properties_file


def test_a_directory_that_is_missing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.txt"
    persist_small_file(OsDisk(), str(path), "text")
    assert path.read_text() == "text"


def test_a_directory_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(StoreError):
        persist_small_file(OsDisk(), str(tmp_path / "a" / "c.txt"), "text")


def test_the_predecessor_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    persist_small_file(OsDisk(), str(path), "one")
    persist_small_file(OsDisk(), str(path), "two")
    assert (path.read_text(), (tmp_path / "c.txt.bak").read_text()) == ("two", "one")


def test_properties_keep_comments_order_and_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    path.write_bytes("# f\u00fcr alle\nb = 1\n\na=2\n".encode("iso-8859-1"))
    rewrite_properties_file(OsDisk(), str(path), {"b": "3", "c": "4"}, initial={"x": "0"})
    assert path.read_text("utf-8") == "# f\u00fcr alle\nb=3\n\na=2\nc=4\n"


def test_properties_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    rewrite_properties_file(OsDisk(), str(path), {"b": "3"}, initial={"x": "0", "b": "3"})
    assert path.read_text() == "x=0\nb=3\n"
