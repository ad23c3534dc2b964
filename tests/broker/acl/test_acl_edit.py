"""Edits change what they must and leave every other byte alone, comments above all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rocketpy.broker.acl.acl_document import AclDocument, read_acl_document
from rocketpy.broker.acl.acl_edit import merged, with_account, with_version, with_white_addresses, without_account
from rocketpy.broker.acl.acl_error import AclError
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.bodies.topic import DataVersion

COMMENTED = """\
# Who may do what.
globalWhiteRemoteAddresses:   # the office
  # first floor
  - 10.0.0.* # all of it
accounts:
  # the first account
  - accessKey: RocketMQ   # its name
    secretKey: 12345678
    whiteRemoteAddress:
    # what it may do
    topicPerms:
      - a=PUB # one
      - b=SUB # two
  # the second account
  - secretKey: 12345678
    accessKey: second77
    admin: true

# the end
"""


def test_an_account_is_changed_in_its_lines() -> None:
    change = PlainAccessConfig("RocketMQ", "new-secret", "10.*.*.*", topic_perms=["c=PUB", "b=PUB", "d=SUB"])
    wanted = COMMENTED
    for old, new in [
        ("    secretKey: 12345678\n    white", "    secretKey: new-secret\n    white"),
        ("whiteRemoteAddress:\n", "whiteRemoteAddress: '10.*.*.*'\n"),
        ("- a=PUB # one", "- c=PUB # one"),
        ("- b=SUB # two\n", "- b=PUB # two\n      - d=SUB\n    admin: false\n"),
    ]:
        wanted = wanted.replace(old, new)
    assert with_account(COMMENTED, change) == wanted


def test_a_shorter_list_keeps_the_comments_of_what_goes() -> None:
    changed = with_account(COMMENTED, PlainAccessConfig("RocketMQ", topic_perms=["a=SUB"]))
    assert "      - a=SUB # one\n      # two\n    admin: false\n" in changed


def test_an_account_is_appended() -> None:
    added = PlainAccessConfig("newcomer", "it's: a #secret", topic_perms=["x=PUB|SUB"], group_perms=["g=SUB"])
    assert with_account(COMMENTED, added) == COMMENTED.replace(
        "    admin: true\n",
        "    admin: true\n"
        "  - accessKey: newcomer\n"
        "    secretKey: 'it''s: a #secret'\n"
        "    admin: false\n"
        "    topicPerms:\n"
        "      - x=PUB|SUB\n"
        "    groupPerms:\n"
        "      - g=SUB\n",
    )


def test_an_account_goes_with_the_comments_inside_it() -> None:
    start, end = COMMENTED.index("  - accessKey: RocketMQ"), COMMENTED.index("  # the second account")
    assert without_account(COMMENTED, "RocketMQ") == COMMENTED[:start] + COMMENTED[end:]
    assert without_account(without_account(COMMENTED, "RocketMQ"), "second77").endswith(
        "accounts:\n  # the first account\n  # the second account\n\n# the end\n"
    )


def test_white_addresses_are_replaced_in_position() -> None:
    changed = with_white_addresses(COMMENTED, ["1.2.3.4", "2001:db8::1"])
    assert changed == COMMENTED.replace("- 10.0.0.* #", "- '1.2.3.4' #").replace(
        "# all of it\n", "# all of it\n  - '2001:db8::1'\n"
    )
    assert read_acl_document(with_white_addresses(COMMENTED, [])).white_addresses == ()


def test_the_version_counts_where_it_stands() -> None:
    first = with_version(COMMENTED, DataVersion(1000, 1))
    assert "dataVersion:\n  - counter: 1\n    timestamp: 1000\n" in first
    assert with_version(first, DataVersion(2000, 2)) == first.replace("counter: 1", "counter: 2").replace(
        "timestamp: 1000", "timestamp: 2000"
    )


LAYOUTS = [
    "",
    "# only a comment",
    "accounts:\n",
    "accounts:   # nobody yet\n",
    "accounts: []\n",
    "accounts: ~ # null\n",
    "{}",
    "{accounts: [{accessKey: aaaaaaa, secretKey: bbbbbbb}], globalWhiteRemoteAddresses: [10.0.0.1]}",
    "---\n# c\naccounts:\n- accessKey: aaaaaaa\n  secretKey: bbbbbbb",
    "accounts:\r\n- accessKey: aaaaaaa\r\n  secretKey: bbbbbbb # x\r\n",
    "accounts:\n  -\n    # inside\n    accessKey: aaaaaaa\n    secretKey: bbbbbbb\n",
    "accounts:\n- {accessKey: aaaaaaa, secretKey: bbbbbbb} # x\nglobalWhiteRemoteAddresses: [10.0.0.1, 10.0.0.2]\n",
    COMMENTED,
]


@pytest.mark.parametrize("text", LAYOUTS)
def test_every_layout_can_be_edited(text: str) -> None:
    before = read_acl_document(text)
    added = PlainAccessConfig("newcomer", "secret 1", admin=True, topic_perms=["x=PUB", "y=SUB"])
    changed = PlainAccessConfig("newcomer", "secret 2", "10.1.*.*", topic_perms=["x=SUB"], group_perms=["g=PUB"])
    edited = with_version(with_account(with_account(text, added), changed), DataVersion(5, 1))
    edited = with_white_addresses(with_white_addresses(edited, ["1.1.1.1"]), ["1.1.1.1", "2.2.2.2"])
    document = read_acl_document(edited)
    assert document.accounts == (*before.accounts, merged(added, changed))
    assert document.white_addresses == ("1.1.1.1", "2.2.2.2")
    assert document.version == DataVersion(5, 1)
    assert read_acl_document(without_account(edited, "newcomer")).accounts == before.accounts
    for account in before.accounts:
        assert account not in read_acl_document(without_account(edited, account.access_key)).accounts
    assert [line for line in comments_of(text) if line not in comments_of(edited)] == []


def test_every_account_of_a_name_goes() -> None:
    text = "accounts:\n- accessKey: twice\n  secretKey: one\n- accessKey: other\n- accessKey: twice\n  secretKey: two\n"
    assert without_account(text, "twice") == "accounts:\n- accessKey: other\n"
    flow = "accounts: [{accessKey: twice}, {accessKey: other}, {accessKey: twice}]\n"
    assert without_account(flow, "twice") == "accounts: [{accessKey: other}]\n"


def test_the_first_of_a_name_is_changed() -> None:
    text = "accounts:\n- accessKey: twice77\n  secretKey: one\n- accessKey: twice77\n  secretKey: two\n"
    changed = with_account(text, PlainAccessConfig("twice77", "three"))
    assert changed == text.replace("secretKey: one\n", "secretKey: three\n  admin: false\n")


@pytest.mark.parametrize(
    "text",
    [
        "accounts:\n- accessKey: account-1\n  topicPerms: [a=PUB,]\n  admin: true\n",
        "accounts:\n- {accessKey: account-1,}\n",
        'accounts:\n- accessKey: account-1\n  "secretKey" : |\n    block-secret\n',
        "accounts:\n- ? accessKey\n  : account-1\n",
        "accounts:\n- accessKey: account-1\n...\n",
    ],
)
def test_a_strange_layout_is_edited_rightly_or_refused(text: str) -> None:
    change = PlainAccessConfig("account-1", "secret-1", topic_perms=["b=SUB"])
    try:
        edited = with_account(text, change)
    except AclError:
        return
    (before,), (after,) = read_acl_document(text).accounts, read_acl_document(edited).accounts
    assert after == merged(before, change)


def comments_of(text: str) -> list[str]:
    return [line[line.index("#") :].strip() for line in text.splitlines() if "#" in line]


# ---- a file that has everything, with comments on every line --------------------------------------------------------


def written(accounts: Sequence[PlainAccessConfig], addresses: Sequence[str]) -> list[str]:
    """Return the lines of a file with these accounts, written without the code under test."""
    lines = ["globalWhiteRemoteAddresses:", *(f"  - {quoted(each)}" for each in addresses)] if addresses else []
    lines += ["accounts:"] if accounts else []
    for account in accounts:
        lines += [f"  - accessKey: {quoted(account.access_key)}", f"    secretKey: {quoted(account.secret_key)}"]
        if account.white_remote_address is not None:
            lines.append(f"    whiteRemoteAddress: {quoted(account.white_remote_address)}")
        lines.append(f"    admin: {str(account.admin).lower()}")
        if account.default_topic_perm:
            lines.append(f"    defaultTopicPerm: {account.default_topic_perm}")
        for name, perms in (("topicPerms", account.topic_perms), ("groupPerms", account.group_perms)):
            if perms:
                lines += [f"    {name}:", *(f"      - {quoted(each)}" for each in perms)]
    return lines


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def assert_edit_keeps_the_rest(text: str, change: PlainAccessConfig) -> None:
    before = read_acl_document(text)
    edited = with_account(text, change)
    assert [each for each in comments_of(text) if each not in comments_of(edited)] == []
    after = read_acl_document(edited)
    others = [each for each in before.accounts if each.access_key != change.access_key]
    assert [each for each in after.accounts if each.access_key != change.access_key] == others
    (changed,) = [each for each in after.accounts if each.access_key == change.access_key]
    assert changed.secret_key == change.secret_key
    assert not change.topic_perms or changed.topic_perms == change.topic_perms
    assert after.white_addresses == before.white_addresses


def assert_removal_keeps_the_rest(text: str, gone: PlainAccessConfig) -> None:
    before = read_acl_document(text)
    edited = without_account(text, gone.access_key)
    left = tuple(each for each in before.accounts if each != gone)
    assert read_acl_document(edited) == AclDocument(before.white_addresses, left)
    kept = iter(text.splitlines())
    assert all(line in kept for line in edited.splitlines()), "what is left is in its order and unchanged"


FULL = written(
    [
        PlainAccessConfig("account-1", "it's", topic_perms=["a=PUB", "b=SUB"], group_perms=["g=SUB"]),
        PlainAccessConfig("account-2", "a: b", "10.0.0.*", admin=True, default_topic_perm="PUB|SUB"),
        PlainAccessConfig("account-3", "secret", "", group_perms=["g=PUB|SUB", "h=DENY", "i=SUB"]),
    ],
    ["10.0.0.1", "10.0.0.2"],
)
"""A file that has everything."""
COMMENTED_IN_FULL = [
    "\n".join(f"{' ' * indent}# before {number}.\n{line} # after {number}." for number, line in enumerate(FULL)) + end
    for indent, end in ((0, ""), (8, "\n# the end.\n"))
]


@pytest.mark.parametrize("text", COMMENTED_IN_FULL, ids=["indented by 0", "indented by 8"])
@pytest.mark.parametrize("access_key", ["account-1", "account-2", "account-3", "account-4"])
def test_comments_on_every_line_survive_each_edit(text: str, access_key: str) -> None:
    for perms in (None, ["a=PUB"], ["a=PUB", "b=SUB", "c=DENY"]):
        change = PlainAccessConfig(access_key, "new", "::1", default_topic_perm="SUB", topic_perms=perms)
        assert_edit_keeps_the_rest(text, change)
    document = read_acl_document(text)
    for gone in document.accounts:
        if gone.access_key == access_key:
            assert_removal_keeps_the_rest(text, gone)
    for edited in (with_version(text, DataVersion(1, 2)), with_white_addresses(text, ["1.1.1.1"])):
        assert [each for each in comments_of(text) if each not in comments_of(edited)] == []
        assert read_acl_document(edited).accounts == document.accounts
