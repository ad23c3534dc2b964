"""Files of a few lines are replaced whole, and keep what was not asked to change."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest

from rocketpy.errors import StoreError
from rocketpy.store.disk.interface import OsDisk, read_text
from rocketpy.store.disk.text_files import persist_small_file, rewrite_properties_file
from rocketpy.testing.sim_disk import ProcessDied, SimDisk


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


@pytest.mark.parametrize("seed", range(5))
def test_whatever_ends_the_machine_the_old_or_the_new_settings_are_there(seed: int) -> None:
    for call in itertools.count(1):
        disk = SimDisk(choose=Random(seed).randrange)
        disk.make_directories("/conf")
        persist_small_file(disk, "/conf/b.conf", "# mine\na=1\n")
        disk.sync_directory("/")
        disk.die_at_call(call)
        has_died = False
        try:
            rewrite_properties_file(disk, "/conf/b.conf", {"a": "2"}, initial={})
        except ProcessDied:
            has_died = True
        disk.lose_power()
        text = read_text(disk, "/conf/b.conf")
        assert text in ("# mine\na=1\n", "# mine\na=2\n")
        if not has_died:
            assert text == "# mine\na=2\n", "what was answered is durable"
            break


def test_properties_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    rewrite_properties_file(OsDisk(), str(path), {"b": "3"}, initial={"x": "0", "b": "3"})
    assert path.read_text() == "x=0\nb=3\n"
