"""All files together."""

from __future__ import annotations

from rocketpy.broker.acl.acl_files import AclFiles
from rocketpy.broker.acl.acl_table import AclTable, make_table
from rocketpy.protocol.bodies.acl import AclConfig
from rocketpy.testing.sim_disk import SimDisk
from tests.broker.acl.accounts import ACCOUNTS, DEFAULT, DIRECTORY, write_file

OTHER = f"{DIRECTORY}/acl/other.yml"
OTHERS = "globalWhiteRemoteAddresses: ['::1']\naccounts:\n- {accessKey: RocketMQ, secretKey: otherwise}\n"


def table_of(**texts: str) -> AclTable:
    disk = SimDisk()
    for path, text in {OTHER: texts.get("other"), DEFAULT: texts.get("default")}.items():
        if text is not None:
            write_file(disk, path, text)
    files = AclFiles(directory=DIRECTORY, disk=disk)
    return make_table(files.read(path) for path in files.stamps())


def test_an_empty_table_allows_no_account() -> None:
    table = table_of()
    assert not table.accounts
    assert not table.is_white("127.0.0.1")
    assert table.config() == AclConfig([], [])


def test_white_lists_of_all_files_count() -> None:
    table = table_of(other=OTHERS, default=ACCOUNTS)
    assert [table.is_white(each) for each in ("::1", "10.10.103.4", "10.10.104.4")] == [True, True, False]


def test_of_several_accounts_of_a_name_the_first_counts_and_is_listed() -> None:
    table = table_of(other=OTHERS, default=ACCOUNTS)
    assert table.owners == {"RocketMQ": OTHER, "theAdmin": DEFAULT}
    assert table.repeated == (f"RocketMQ in {DEFAULT}",)
    listed = table.config().plain_access_configs or ()
    assert [(each.access_key, each.secret_key) for each in listed] == [
        ("RocketMQ", "otherwise"),
        ("theAdmin", "87654321"),
    ]
    twice = table_of(
        default="accounts:\n- {accessKey: twice77, secretKey: one-one}\n- {accessKey: twice77, secretKey: two-two}\n"
    )
    assert twice.repeated == (f"twice77 in {DEFAULT}",)
    assert [each.secret_key for each in twice.config().plain_access_configs or ()] == ["one-one"]
