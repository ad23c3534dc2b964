"""The files with accounts: which they are, what bounds them, how they are replaced, and the table of all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.acl_files import (
    DEPTH_MAX,
    FILE_SIZE_MAX,
    FILES_MAX,
    AclFiles,
    make_table,
)
from rocketpy.errors import StoreError
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from tests.broker.acl.accounts import ACCOUNTS, DEFAULT, DIRECTORY, read_file, write_file


def files_on(disk: SimDisk) -> AclFiles:
    return AclFiles(directory=DIRECTORY, disk=disk)


def test_every_yaml_file_below_acl_counts_and_the_default_file_comes_last() -> None:
    disk = SimDisk()
    for name in (
        "acl/b.yml",
        "acl/a.yaml",
        "acl/c/d.yml",
        "acl/notes.txt",
        "acl/tools.yml",
        "acl/c/tools.yml",
        "x.yml",
    ):
        write_file(disk, f"{DIRECTORY}/{name}", "accounts:\n")
    write_file(disk, DEFAULT, "accounts:\n")
    assert [path.removeprefix(f"{DIRECTORY}/") for path in files_on(disk).stamps()] == [
        "acl/a.yaml",
        "acl/b.yml",
        "acl/c/d.yml",
        "acl/c/tools.yml",
        "plain_acl.yml",
    ]


def test_a_file_of_several_names_is_read_once_and_its_replacement_is_noticed(tmp_path: Path) -> None:
    """As Kubernetes mounts a ConfigMap: the names lead through a link into a directory, which is swapped."""
    acl = tmp_path / "acl"
    for version, secret in (("..v1", "12345678"), ("..v2", "87654321")):
        (acl / version).mkdir(parents=True)
        (acl / version / "a.yml").write_text(f"accounts:\n- {{accessKey: appuser, secretKey: '{secret}'}}\n")
        os.utime(acl / version / "a.yml", ns=(10**18, 10**18))
    (acl / "..data").symlink_to("..v1")
    (acl / "a.yml").symlink_to("..data/a.yml")
    os.link(acl / "..v1" / "a.yml", acl / "b.yml")
    files = AclFiles(directory=str(tmp_path), disk=OsDisk())
    before = files.stamps()
    assert list(before) == [str(acl / "a.yml")]
    (acl / "new").symlink_to("..v2")
    (acl / "new").rename(acl / "..data")
    after = files.stamps()
    assert after[str(acl / "a.yml")] != before[str(acl / "a.yml")], "of the same size and time"
    assert list(after) == [str(acl / "a.yml"), str(acl / "b.yml")], "b.yml is another file now"


def test_white_lists_of_all_files_count() -> None:
    disk = SimDisk()
    write_file(disk, f"{DIRECTORY}/acl/other.yml", "globalWhiteRemoteAddresses: ['::1']\n")
    write_file(disk, DEFAULT, ACCOUNTS)
    files = files_on(disk)
    table = make_table(files.read(path) for path in files.stamps())
    assert [table.is_white(each) for each in ("::1", "10.10.103.4", "10.10.104.4")] == [True, True, False]


def test_a_file_without_a_version_has_that_of_its_last_change() -> None:
    disk = SimDisk()
    write_file(disk, DEFAULT, ACCOUNTS)
    file = files_on(disk).read(DEFAULT)
    assert file.version == DataVersion(disk.modified_timestamp_ms(DEFAULT), 0)
    assert [each.access_key for each in file.accounts] == ["RocketMQ", "theAdmin"]
    assert len(file.white_addresses) == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"accounts: nobody\n", "line 1: expected a list for accounts"),
        (b"globalWhiteRemoteAddresses: [nowhere]\n", "Netaddress examine Exception netaddress is nowhere"),
        (b"accounts: [{accessKey: a}]\n", "cannot be null and length should longer than 6"),
        (b"\xff\xfe", "expected UTF-8, found byte 0xff"),
        (b"#" * (FILE_SIZE_MAX + 1), f"expected at most {FILE_SIZE_MAX} bytes, found {FILE_SIZE_MAX + 1}"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(content: bytes, expected: str) -> None:
    disk = SimDisk()
    write_file(disk, DEFAULT, "")
    file = disk.open(DEFAULT)
    file.write(0, content)
    with pytest.raises(AclError) as failure:
        files_on(disk).read(DEFAULT)
    assert str(failure.value).startswith(DEFAULT)
    assert expected in str(failure.value)


def test_the_number_and_the_depth_of_files_is_bounded() -> None:
    disk = SimDisk()
    for number in range(FILES_MAX + 1):
        write_file(disk, f"{DIRECTORY}/acl/{number}.yml", "")
    with pytest.raises(AclError, match=f"expected at most {FILES_MAX} files"):
        files_on(disk).stamps()
    deep = SimDisk()
    write_file(deep, f"{DIRECTORY}/acl/{'d/' * (DEPTH_MAX + 1)}x.yml", "")
    with pytest.raises(AclError, match=f"expected at most {DEPTH_MAX} levels"):
        files_on(deep).stamps()


def test_a_disk_that_refuses_to_read_is_no_broken_store() -> None:
    """A file that cannot be read must not end the broker, as a damaged store does."""

    class Refusing(SimDisk):
        def list_directory(self, path: str) -> list[str]:
            raise StoreError("cannot list directory", path=path)

        def open(self, path: str, *, create: bool = False, read_only: bool = False):  # type: ignore[no-untyped-def]
            raise StoreError("cannot open", path=path)

    plain = SimDisk()
    write_file(plain, DEFAULT, ACCOUNTS)
    disk = Refusing(state=plain.state())
    with pytest.raises(AclError, match="cannot list directory"):
        files_on(disk).stamps()
    with pytest.raises(AclError, match="cannot open"):
        files_on(disk).read(DEFAULT)


def test_a_file_is_written_whole_or_not_at_all() -> None:
    disk = SimDisk()
    write_file(disk, DEFAULT, ACCOUNTS)
    files = files_on(disk)
    with pytest.raises(AclError):
        files.write_text(DEFAULT, "accounts: nobody\n")
    with pytest.raises(AclError, match="the change would make it longer"):
        files.write_text(DEFAULT, "#" * (FILE_SIZE_MAX + 1))
    assert read_file(disk, DEFAULT) == ACCOUNTS
    files.write_text(DEFAULT, "accounts:\n")
    assert read_file(disk, DEFAULT) == "accounts:\n"


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_crash_in_any_call_leaves_the_old_file_or_the_new_one(loses_power: bool) -> None:
    calls = 0
    while True:
        disk = SimDisk()
        write_file(disk, DEFAULT, ACCOUNTS)
        file = disk.open(DEFAULT)
        file.sync()
        file.close()
        for directory in (DIRECTORY, "/"):
            disk.sync_directory(directory)
        disk.die_at_call(disk.change_count + calls)
        try:
            files_on(disk).write_text(DEFAULT, "accounts:\n")
        except ProcessDied:
            pass
        else:
            break
        (disk.lose_power if loses_power else disk.kill_process)()
        assert read_file(disk, DEFAULT) in (ACCOUNTS, "accounts:\n")
        calls += 1
    assert calls > 3


def test_a_file_that_a_request_creates_is_for_its_owner_alone(tmp_path: Path) -> None:
    """It holds the secrets of accounts."""
    before = os.umask(0)
    try:
        AclFiles(disk=OsDisk(), directory=str(tmp_path)).write_text(f"{tmp_path}/plain_acl.yml", ACCOUNTS)
    finally:
        os.umask(before)
    assert (tmp_path / "plain_acl.yml").stat().st_mode & 0o777 == 0o600
