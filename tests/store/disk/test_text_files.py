"""Files of a few lines are replaced whole, and keep what was not asked to change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from rocketpy.errors import StoreError
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.disk.text_files import (
    TEXT_SIZE_MAX,
    persist_text,
    read_text,
    rewrite_properties_file,
)
from rocketpy.testing.sim.disk import SimDisk
from tests.store.deaths import different_disks, noted_deaths


def test_a_directory_that_is_missing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.txt"
    rewrite_properties_file(OsDisk(), str(path), {}, initial={"a": "1"})
    assert path.read_text() == "a=1\n"


def test_a_directory_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(StoreError):
        rewrite_properties_file(OsDisk(), str(tmp_path / "a" / "c.txt"), {}, initial={"a": "1"})


def test_properties_keep_comments_order_and_other_keys(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    path.write_bytes("# f\u00fcr alle\nb = 1\n\na=2\n".encode("iso-8859-1"))
    rewrite_properties_file(OsDisk(), str(path), {"b": "3", "c": "4"}, initial={"x": "0"})
    assert path.read_text("utf-8") == "# f\u00fcr alle\nb=3\n\na=2\nc=4\n"


@pytest.mark.parametrize("seed", range(5))
def test_whatever_ends_the_machine_the_old_or_the_new_settings_are_there(seed: int) -> None:
    disk = SimDisk()
    disk.make_directories("/conf")
    persist_text(disk, "/conf/b.conf", "# mine\na=1\n")
    disk.sync_directory("/")
    with noted_deaths(disk) as deaths:
        rewrite_properties_file(disk, "/conf/b.conf", {"a": "2"}, initial={})
    texts = [read_text(each, "/conf/b.conf") for each in different_disks(deaths, Random(seed).randrange)]
    assert set(texts) <= {"# mine\na=1\n", "# mine\na=2\n"}
    assert texts[0] == "# mine\na=2\n", "what was answered is durable"


ANOTHER = """
import sys
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.disk.text_files import rewrite_properties_file
path, key = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for number in range(150):
    rewrite_properties_file(OsDisk(), path, {f"{key}{number}": "1", key: str(number)}, initial={})
"""


def test_no_change_of_two_processes_is_lost_and_the_file_is_never_empty(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    path.write_text("# both\nkept=1\n")
    command = [sys.executable, "-c", ANOTHER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    others = [subprocess.Popen([*command, key], **pipes) for key in "ab"]  # type: ignore[call-overload]
    assert [each.stdout.readline() for each in others] == ["ready\n"] * 2
    for each in others:
        each.stdin.write("go\n")
        each.stdin.flush()
    while any(each.poll() is None for each in others):
        assert path.read_text().startswith("# both\nkept=1\n")
    assert [each.communicate()[0] for each in others] == [""] * 2
    assert [each.returncode for each in others] == [0, 0]
    lines = path.read_text().splitlines()
    assert sorted(lines) == sorted(
        [
            "# both",
            "kept=1",
            *(f"{key}=149" for key in "ab"),
            *(f"{key}{number}=1" for key in "ab" for number in range(150)),
        ]
    )
    assert sorted(os.listdir(tmp_path)) == ["b.conf", "b.conf.bak", "b.conf.lock"]
    assert (tmp_path / "b.conf.lock").stat().st_mode & 0o777 == 0o600, "nobody else can hold up a change"


def test_properties_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    rewrite_properties_file(OsDisk(), str(path), {"b": "3"}, initial={"x": "0", "b": "3"})
    assert path.read_text() == "x=0\nb=3\n"


def test_text_is_replaced_and_its_predecessor_kept(disk: Disk, root: str) -> None:
    path = f"{root}/topics.json"
    assert read_text(disk, path) is None
    for text in ("one, längst", "two", "three"):
        persist_text(disk, path, text)
        assert read_text(disk, path) == text
    assert read_text(disk, path + ".bak") == "two"
    assert disk.list_directory(root) == ["topics.json", "topics.json.bak"]


def test_an_empty_or_missing_file_falls_back(disk: Disk, root: str) -> None:
    path = f"{root}/topics.json"
    persist_text(disk, path, "one")
    persist_text(disk, path, "two")
    file = disk.open(path)
    file.truncate(0)
    file.close()
    assert read_text(disk, path) == "one"
    persist_text(disk, path, "three")
    assert read_text(disk, path + ".bak") == "one", "nothing is no predecessor"
    disk.unlink(path)
    assert read_text(disk, path) == "one"


def test_a_file_with_secrets_stays_as_private_as_it_was(tmp_path: Path) -> None:
    """Neither the new text nor the copy of the old one may become readable for more people."""
    path = str(tmp_path / "plain_acl.yml")
    persist_text(OsDisk(), path, "one")
    os.chmod(path, 0o600)
    for text in ("two", "three"):
        persist_text(OsDisk(), path, text)
        assert [os.stat(each).st_mode & 0o777 for each in (path, path + ".bak")] == [0o600, 0o600]


def test_a_private_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask allows, and also where a crash has left the temporary file with other bits."""
    path = str(tmp_path / "plain_acl.yml")
    before = os.umask(0)
    try:
        with open(f"{path}.tmp", "w") as left, open(f"{path}.tmp") as watching:
            left.write("old")
            persist_text(OsDisk(), path, "secret", is_private=True)
            assert "secret" not in watching.read(), "who has it open sees nothing of the new text"
        assert os.stat(path).st_mode & 0o777 == 0o600
        persist_text(OsDisk(), path, "other", is_private=True)
        assert [os.stat(each).st_mode & 0o777 for each in (path, path + ".bak")] == [0o600, 0o600]
    finally:
        os.umask(before)
    with pytest.raises(StoreError, match="cannot create"):
        OsDisk().create_private(path)


def test_a_file_of_absurd_length_is_not_read_and_may_be_replaced(disk: Disk, root: str) -> None:
    path = f"{root}/topics.json"
    persist_text(disk, path, "one")
    file = disk.open(path)
    file.truncate(50 << 30)
    file.close()
    with pytest.raises(StoreError, match=f"expected at most {TEXT_SIZE_MAX} bytes, found {50 << 30}.*topics.json"):
        read_text(disk, path)
    persist_text(disk, path, "two")
    assert read_text(disk, path) == "two"
    assert disk.list_directory(root) == ["topics.json"]
