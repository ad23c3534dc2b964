"""One ACL file as values: Java's own, and what is wrong with others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketpy.broker.acl.acl_document import AclDocument, read_acl_document
from rocketpy.broker.acl.acl_error import AclError
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.bodies.topic import DataVersion

ROOT = Path(__file__).parents[3]


def test_the_file_that_java_wrote() -> None:
    document = read_acl_document((ROOT / "tests/golden/config/plain_acl.yml").read_text())
    assert document.white_addresses == ("10.10.10.1", "10.10.10.2")
    assert document.version == DataVersion(timestamp=1795250382556, counter=6)
    assert document.unknown_keys == ()
    assert document.accounts == (
        PlainAccessConfig("goldenAdmin", "golden12345678", admin=True),
        PlainAccessConfig(
            "goldenUser",
            "user12345678",
            default_topic_perm="DENY",
            default_group_perm="SUB",
            topic_perms=["GoldTopic=PUB|SUB", "GoldDenied=DENY", "GoldSubOnly=SUB"],
            group_perms=["GoldGroup=PUB|SUB", "GoldDeniedGroup=DENY"],
        ),
        PlainAccessConfig(
            "goldenCli",
            "cli87654321",
            "10.1.*.*",
            default_topic_perm="DENY",
            default_group_perm="SUB",
            topic_perms=["GoldTopic=PUB", "GoldOrder=SUB"],
            group_perms=["GoldGroup=SUB"],
        ),
    )


def test_our_example_says_nothing_as_it_stands() -> None:
    """A broker that starts with it has no well-known account."""
    text = (ROOT / "conf/plain_acl.yml").read_text()
    assert read_acl_document(text) == AclDocument()


def test_our_example_is_right_when_its_comments_go() -> None:
    text = (ROOT / "conf/plain_acl.yml").read_text()
    text = re.sub(r"^#(?=(  )*(- )?\w+:( |$)|  +- \S+$)", "", text, flags=re.MULTILINE)
    document = read_acl_document(text)
    assert document.white_addresses == ("127.0.0.1",)
    assert document.accounts == (
        PlainAccessConfig(
            "orders-service",
            "change-me-before-use",
            default_topic_perm="DENY",
            default_group_perm="SUB",
            topic_perms=["orders=PUB|SUB", "invoices=SUB"],
            group_perms=["orders-consumers=SUB"],
        ),
    )
    assert document.version == DataVersion()


def test_a_key_that_looks_like_a_number_is_what_was_written() -> None:
    document = read_acl_document("accounts:\n- accessKey: 0012345\n  secretKey: 1_000_000\n  admin: 'true'\n")
    assert document.accounts == (PlainAccessConfig("0012345", "1_000_000", admin=True),)


def test_keys_that_mean_nothing_are_noted_with_their_lines() -> None:
    document = read_acl_document("acounts: []\naccounts:\n- accessKey: a\n  secret: b\n")
    assert document.unknown_keys == ("line 1: acounts", "line 4: secret")


@pytest.mark.parametrize("text", ["", "# nothing\n", "~\n", "accounts:\nglobalWhiteRemoteAddresses:\ndataVersion:\n"])
def test_nothing_is_said_by_an_empty_file(text: str) -> None:
    assert read_acl_document(text) == AclDocument()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("just a text", "line 1: expected accounts: or globalWhiteRemoteAddresses:, found something else"),
        ("- a\n", "line 1: expected accounts:"),
        ("accounts: nobody\n", "line 1: expected a list for accounts"),
        ("accounts:\n- nobody\n", "line 2: expected an account with accessKey and secretKey"),
        ("accounts:\n- accessKey: [a]\n", "line 2: expected a text for accessKey, found a collection"),
        ("accounts:\n- topicPerms:\n  - a: b\n", "line 3: expected a text in topicPerms, found a collection"),
        ("accounts:\n- topicPerms: a=PUB\n", "line 2: expected a list for topicPerms"),
        ("globalWhiteRemoteAddresses: 10.0.0.1\n", "line 1: expected a list for globalWhiteRemoteAddresses"),
        ("dataVersion:\n- counter: -1\n", "line 2: expected a number for counter, found '-1'"),
        ("dataVersion:\n- counter: 99999999999999999999\n", "line 2: expected a number for counter"),
        ("dataVersion:\n- 7\n", "line 2: expected counter and timestamp in dataVersion"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, expected: str) -> None:
    with pytest.raises(AclError) as failure:
        read_acl_document(text)
    assert str(failure.value).startswith(expected)


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("  admin: ture", "line 4: admin is 'ture', expected true or false: it counts as false"),
        ("  admin: [true]", "line 4: admin is a collection, expected true or false: it counts as false"),
        (
            "  defaultTopicPerm: pub",
            "line 4: defaultTopicPerm is 'pub', expected DENY, PUB, SUB or PUB|SUB: it counts as DENY",
        ),
        (
            "  defaultGroupPerm: SUB,PUB",
            "line 4: defaultGroupPerm is 'SUB,PUB', expected DENY, PUB, SUB or PUB|SUB: it counts as DENY",
        ),
        (
            "  topicPerms:\n  - a=SUB\n  - b=PUB SUB",
            "line 6: topicPerms has 'b=PUB SUB', expected DENY, PUB, SUB or PUB|SUB: it counts as DENY",
        ),
        (
            "  groupPerms: [g=ANY]",
            "line 4: groupPerms has 'g=ANY', expected DENY, PUB, SUB or PUB|SUB: it counts as DENY",
        ),
        ("  topicPerms:\n  - a=SUB\n  - a=DENY", "line 6: topicPerms has a in line 5 already, this one counts"),
        ("  admin: true\n  admin: false", "line 5: admin was set in line 4 already, this one counts"),
        ("accounts: []", "line 4: accounts was set in line 1 already, this one counts"),
    ],
)
def test_a_value_that_is_read_as_something_else_has_its_note(lines: str, note: str) -> None:
    text = f"accounts:\n- accessKey: account1\n  secretKey: '1234567'\n{lines}\n"
    document = read_acl_document(text)
    if not lines.startswith("accounts"):  # the last of both counts, which has none
        assert document.notes == (note,)
    else:
        assert (document.notes, document.accounts) == ((note,), ())


@pytest.mark.parametrize("word", ["DENY", "PUB", "SUB", "PUB|SUB", "SUB|PUB"])
@pytest.mark.parametrize("admin", ["true", "false", "No", "on", "~", ""])
def test_what_is_understood_has_no_note(word: str, admin: str) -> None:
    perms = f"  topicPerms: [a={word}]\n  defaultTopicPerm: {word}\n"
    text = f"accounts:\n- accessKey: account1\n  secretKey: '1234567'\n  admin: {admin}\n{perms}"
    assert read_acl_document(text).notes == ()
