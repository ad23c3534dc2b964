"""Authorization: Java's verdicts first, then changes of the files."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import trio

from rocketpy.broker.acl import plain_permission
from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.acl_files import AclFile, AclFiles
from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.clock import ManualClock
from rocketpy.errors import RequestError, StartError, StoreError
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.codes import LanguageCode, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.protocol.signing_key import SigningKey
from rocketpy.runner import run_inline
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.acl.accounts import (
    ACCOUNTS,
    ADMIN,
    DEFAULT,
    DIRECTORY,
    HERE,
    make_manager,
    peer_at,
    read_file,
    signed,
    write_file,
)
from tests.broker.acl.declared import declared_needs

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "vectors.json").read_text())["acl_decisions"]
JAVA = VECTORS[0]["plain_acl_yml"]
DECISIONS = VECTORS[1:]
SEND = RequestCode.SEND_MESSAGE_V2


def verdict(manager: PlainPermissionManager, request: RemotingCommand, address: str = "10.0.0.1") -> str:
    try:
        manager.authorize(peer_at(address), request)
    except RequestError as refusal:
        if refusal.response_code != ResponseCode.SYSTEM_ERROR:
            raise
        return refusal.remark.removeprefix("org.apache.rocketmq.acl.common.AclException: ")
    return "allowed"


ELSEWHERE = "10.0.0.9:10911"
FOR_THESE = "expected a signature for these fields"


def told(fields: dict[str, str], body: bytes = b"", code: int = 54) -> RemotingCommand:
    """A request of an attacker, who says that he is a client in Java."""
    return RemotingCommand(code, fields, body, language=LanguageCode.JAVA)


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_signature_for_another_code_or_broker_is_refused_whatever_becomes_of_its_fields(*, is_strict: bool) -> None:
    """What is signed of it is the same in each case, so the signature itself is right."""
    manager = make_manager(is_strict=is_strict)
    assert verdict(manager, signed(54, by=ADMIN, at=HERE)) == "allowed"
    assert verdict(manager, signed(54, by=ADMIN)) == "allowed", "RocketMQ's tools sign so"
    for at in (ELSEWHERE, HERE):
        taken = dict(signed(43, by=ADMIN, at=at).ext_fields or {})
        about = taken.pop("#signedFor")
        moved = [
            told(taken | {"#signedFor": about}),
            told(taken | {"0": about}),
            told(taken | {"1": about[:9], "2": about[9:]}),
            told(taken | {" ": "", "#signedFor": about}),
            told({"AccessKey": "theAdmin", "Signature": taken["Signature"], "#": about[:20], "$": about[20:]}),
        ]
        expected = f"{FOR_THESE} of request code=54 at {HERE}, found one for code=43 at {at}; aclTargets names "
        for each in moved:
            assert verdict(manager, each).startswith(expected)
    taken = dict(signed(43, {"z": "x" * 40}, by=ADMIN, at=HERE).ext_fields or {})
    assert verdict(manager, told(taken | {"z": "x" * 20}, b"x" * 20)).startswith(
        "expected a signature for these fields"
    )
    assert verdict(manager, signed(54, by=ADMIN, at=f"{HERE}1")).startswith(FOR_THESE)


DELETION = {"topic": "orders-old"}
SENT = {"a": "writers", "b": "orders-old", "c": "TBW102", "i": "TAGS\x01x"}


@pytest.mark.parametrize(
    ("code", "fields", "body", "divided", "left"),
    [
        (215, DELETION, b"", {"topic": "orders"}, b"-old"),
        (215, DELETION, b"", {"topic": "orders", "z": "-old"}, b""),
        (215, DELETION, b"", {"a": "orders-", "topic": "old"}, b""),
        (215, DELETION, b"", {"topic": "orders-old", "another": ""}, b""),
        (215, DELETION, b"", {"Topic": "orders-old"}, b""),
        (215, DELETION, b"", {"topic": "orders-old", "_UNIQUE_KEY_QUERY": "true"}, b""),
        (215, DELETION, b"", {"topic": "orders-old", "_UNIQUE_KEY_QUERY": ""}, b""),
        (SEND, SENT, b"body", SENT | {"b": "orders", "c": "-oldTBW102"}, b"body"),
        (SEND, SENT, b"body", SENT | {"n": "bo"}, b"dy"),
        (SEND, SENT, b"body", {**SENT, "i": "TAGS\x01xbo"}, b"dy"),
    ],
)
def test_what_ours_sign_cannot_be_divided_into_other_fields(
    code: int, fields: dict[str, str], body: bytes, divided: dict[str, str], left: bytes
) -> None:
    """Of RocketMQ's the joined values are signed, and what they are joined from is free."""
    for at, verdict_then in ((HERE, FOR_THESE), ("", "allowed")):
        manager = make_manager(is_strict=True)
        taken = signed(code, fields, body, by=ADMIN, at=at)
        assert verdict(manager, taken) == "allowed"
        kept = {name: value for name, value in (taken.ext_fields or {}).items() if name not in fields}
        assert verdict(manager, told(kept | divided, left, code)).startswith(verdict_then)


@pytest.mark.parametrize("targets", [[], ["127.0.0.1:4", HERE], ["*"]])
def test_a_signature_may_be_for_any_address_that_leads_here(targets: list[str]) -> None:
    manager, connection = make_manager(), peer_at("10.0.0.1")
    manager.serve_at(targets)
    connection.local = "172.17.0.2:10911"
    manager.authorize(connection, signed(54, by=ADMIN, at="172.17.0.2:10911"))
    if targets:
        manager.authorize(connection, signed(54, by=ADMIN, at=HERE))
        other = signed(43, by=ADMIN, at=HERE)
        other.code = 54
        with pytest.raises(RequestError):
            manager.authorize(connection, other)
    else:
        with pytest.raises(RequestError):
            manager.authorize(connection, signed(54, by=ADMIN, at=HERE))


def test_the_strict_form_wants_administrators_of_ours_to_say_what_they_sign() -> None:
    bare = signed(54, by=ADMIN)
    bare.language = LanguageCode.PYTHON
    assert verdict(make_manager(), bare) == "allowed"
    expected = "accessKey=theAdmin: expected a signature with #signedFor"
    assert verdict(make_manager(is_strict=True), bare).startswith(expected)
    send = signed(SEND, {"a": "writers", "b": "orders"})
    send.language = LanguageCode.PYTHON
    assert verdict(make_manager(is_strict=True), send) == "allowed"


@pytest.mark.parametrize("is_strict", [False, True])
def test_the_trace_topic_opens_no_other_queue_and_no_client(*, is_strict: bool) -> None:
    naming = "TAGS\x01x\x02INNER_MULTI_DISPATCH\x01secrets"
    manager = make_manager(is_strict=is_strict, multi_dispatch=True)
    for fields in ({"b": "RMQ_SYS_TRACE_TOPIC"}, {"b": "RMQ_SYS_TRACE_TOPIC", "i": "TAGS\x01x"}):
        assert verdict(manager, signed(SEND, fields)) == "allowed"
        assert verdict(manager, signed(RequestCode.SEND_BATCH_MESSAGE, fields)) == "allowed"
        answer = verdict(manager, signed(RequestCode.SEND_REPLY_MESSAGE_V2, fields))
        assert ("No default permission for topic:RMQ_SYS_TRACE_TOPIC" in answer) == is_strict
    refused = verdict(manager, signed(SEND, {"b": "RMQ_SYS_TRACE_TOPIC", "i": naming}))
    assert "secrets" in refused
    sent_back = signed(RequestCode.SEND_MESSAGE, {"topic": "RMQ_SYS_TRACE_TOPIC", "properties": naming})
    assert "secrets" in verdict(manager, sent_back)


def test_every_verdict_of_java() -> None:
    """Changing accounts is the one request for which we ask for more than Java does."""
    manager = make_manager(JAVA)
    differences = []
    for each in DECISIONS:
        body = None if each["body_hex"] is None else bytes.fromhex(each["body_hex"])
        request = RemotingCommand(each["code"], each["ext_fields"], body)
        wanted = each["result"] if isinstance(each["result"], str) else each["result"]["message"]
        found = verdict(manager, request, each["remote"].rpartition(":")[0])
        if found != wanted:
            differences.append((each["code"], each["ext_fields"]["AccessKey"], wanted, found))
    assert differences == [
        (50, who, "allowed", f"Need admin permission for request code=50, but accessKey={who} is not")
        for who in ("RocketMQ", "pubUser")
    ]
    assert len(DECISIONS) == 312


@pytest.mark.parametrize(
    ("request_", "address", "wanted"),
    [
        (RemotingCommand(SEND), "10.0.0.1", "No accessKey is configured"),
        (RemotingCommand(SEND), "10.10.103.9", "allowed"),
        (RemotingCommand(SEND, {"AccessKey": "RocketMQ"}), "192.168.9.1", "allowed"),
        (RemotingCommand(SEND, {"AccessKey": "RocketMQ"}), "10.0.0.1", "Check signature failed for accessKey=RocketMQ"),
        (signed(SEND, {"b": "orders"}), "10.0.0.1", "allowed"),
        (signed(SEND, {"b": "orders"}, b"body"), "10.0.0.1", "allowed"),
        (signed(SEND, {"b": "invoices"}), "10.0.0.1", "No default permission for topic:invoices"),
        (signed(SEND, {"b": "RMQ_SYS_TRACE_TOPIC"}), "10.0.0.1", "allowed"),
        (signed(SEND, {"b": "anything"}, by=ADMIN), "10.0.0.1", "allowed"),
        (signed(36, {"group": "others"}), "10.0.0.1", "No default permission for group:others"),
        (signed(9999, {}), "10.0.0.1", "allowed"),
        (signed(SEND, by=SessionCredentials("stranger", "12345678")), "10.0.0.1", "No acl config for stranger"),
        (signed(12, {"topic": "invoices", "_UNIQUE_KEY_QUERY": "true"}), "10.0.0.1", "allowed"),
        (signed(34, {}, b"garbage"), "10.0.0.1", "HeartbeatData: "),
        (RemotingCommand(34, {}, b"garbage"), "10.0.0.1", "No accessKey is configured"),
    ],
)
def test_the_order_and_the_words_of_rocketmq(request_: RemotingCommand, address: str, wanted: str) -> None:
    assert verdict(make_manager(), request_, address).startswith(wanted)


@pytest.mark.parametrize("code", [21, 26, 28, 33, 43, 45, 52, 201, 203, 204, 222, 305, 307, 314, 315, 317, 328])
def test_the_strict_form_takes_an_administrator_for_more(code: int) -> None:
    assert verdict(make_manager(), signed(code)) == "allowed"
    assert verdict(make_manager(is_strict=True), signed(code)).startswith("Need admin permission")


def test_the_strict_form_wants_an_administrator_also_from_an_account_s_own_addresses() -> None:
    """RocketMQ lets such an address do everything, whatever ``admin`` says of the account."""
    request = signed(RequestCode.UPDATE_BROKER_CONFIG)
    assert verdict(make_manager(), request, "192.168.9.1") == "allowed"
    refusal = (
        f"Need admin permission for request code={RequestCode.UPDATE_BROKER_CONFIG}, but accessKey=RocketMQ is not"
    )
    assert verdict(make_manager(is_strict=True), request, "192.168.9.1") == refusal
    assert verdict(make_manager(is_strict=True), signed(RequestCode.GET_MAX_OFFSET), "192.168.9.1") == "allowed"
    white_admin = ACCOUNTS.replace("admin: true", "admin: true\n    whiteRemoteAddress: 192.168.9.*")
    assert (
        verdict(make_manager(white_admin, is_strict=True), signed(request.code, by=ADMIN), "192.168.9.1") == "allowed"
    )


def test_an_unknown_account_takes_as_many_steps_as_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Response times do not reveal which names exist."""
    steps: list[bytes] = []
    plain = SigningKey.matches

    def counted(self: SigningKey, content: bytes, signature: str) -> bool:
        steps.append(content)
        return plain(self, content, signature)

    manager = make_manager()
    monkeypatch.setattr(SigningKey, "matches", counted)
    for access_key in ("RocketMQ", "stranger", "stranger"):
        verdict(manager, RemotingCommand(SEND, {"AccessKey": access_key, "Signature": "A" * 28, "b": "orders"}))
    assert len(steps) == 3


def test_the_body_of_an_unknown_account_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_reached(request: RemotingCommand, *, is_strict: bool) -> dict[str, int]:
        raise AssertionError("a body was decoded before the signature was checked")

    monkeypatch.setattr(plain_permission, "needed_permissions", not_reached)
    assert verdict(make_manager(), signed(34, by=SessionCredentials("stranger", "12345678"))).startswith(
        "No acl config"
    )
    assert verdict(make_manager(), RemotingCommand(34, {"AccessKey": "RocketMQ"})).startswith("Check signature failed")


def test_refusals_are_logged_once_an_hour_and_not_without_bound(caplog: pytest.LogCaptureFixture) -> None:
    """A thousand reasons of one peer leave the refusals of others unsaid for an hour, not for good."""
    clock = ManualClock()
    manager = make_manager(clock=clock)
    with caplog.at_level(logging.WARNING, "rocketpy.broker.acl"):
        for _ in range(3):
            verdict(manager, RemotingCommand(SEND))
        assert caplog.messages == ["request code 310 from 10.0.0.1 refused: 'No accessKey is configured'"]
        for number in range(3000):
            verdict(manager, RemotingCommand(SEND, {"AccessKey": f"guess{number}"}))
        verdict(manager, RemotingCommand(SEND, {"AccessKey": "x" * 5000}))
        assert len(caplog.messages) == 1000
        clock.advance_ms(3_600_000)
        verdict(manager, RemotingCommand(SEND))
        verdict(manager, RemotingCommand(SEND))
    assert len(caplog.messages) == 1001


# ---- files ----------------------------------------------------------------------------------------------------------


def test_a_start_without_accounts_refuses_everything_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rocketpy.broker.acl"):
        manager = make_manager(None)
    assert caplog.messages == [f"aclEnable=true, and there is no account in {DEFAULT}: every request is refused"]
    assert verdict(manager, signed(SEND, {"b": "orders"})) == "No acl config for RocketMQ"
    assert (manager.version, manager.versions()) == (DataVersion(), {})


def test_a_malformed_file_ends_the_start_and_names_the_line() -> None:
    with pytest.raises(StartError, match=rf"cannot be read: {DEFAULT}: line 2: expected a list for accounts"):
        make_manager("# x\naccounts: nobody\n")


def test_the_first_file_that_defines_an_account_counts(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    write_file(
        disk, f"{DIRECTORY}/acl/b.yml", "accounts:\n- {accessKey: RocketMQ, secretKey: from-b-77, admin: true}\n"
    )
    write_file(disk, f"{DIRECTORY}/acl/a/x.yaml", "accounts:\n- {accessKey: RocketMQ, secretKey: from-a-77}\n")
    with caplog.at_level(logging.WARNING, "rocketpy.broker.acl"):
        manager = make_manager(disk=disk)
    assert verdict(manager, signed(9999, by=SessionCredentials("RocketMQ", "from-a-77"))) == "allowed"
    assert verdict(manager, signed(9999)).startswith("Check signature failed")
    assert [each for each in caplog.messages if "repeated" in each] == [
        f"the accessKey RocketMQ in {DIRECTORY}/acl/b.yml is repeated, the first one counts",
        f"the accessKey RocketMQ in {DEFAULT} is repeated, the first one counts",
    ]
    accounts = manager.config().plain_access_configs or ()
    assert [(each.access_key, each.secret_key) for each in accounts] == [("RocketMQ", None), ("theAdmin", None)]


async def test_a_changed_file_counts_after_the_next_look() -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    assert not await manager.reload()
    changes: list[str] = []
    manager.on_change(lambda: changes.append("accounts"))
    write_file(disk, DEFAULT, ACCOUNTS.replace("12345678", "changed-1"))
    assert await manager.reload()
    assert changes == ["accounts"], "what was known of a peer is forgotten"
    assert verdict(manager, signed(9999)).startswith("Check signature failed")
    assert verdict(manager, signed(9999, by=SessionCredentials("RocketMQ", "changed-1"))) == "allowed"


async def test_an_account_and_a_white_list_that_are_removed_are_gone() -> None:
    """RocketMQ answers "No PlainAccessResource" for ever, and its white lists pile up."""
    disk = SimDisk()
    manager = make_manager(disk=disk)
    for addresses in ("[1.1.1.1]", "[2.2.2.2, 2.2.2.3]", "[]"):
        write_file(disk, DEFAULT, f"globalWhiteRemoteAddresses: {addresses}\n")
        assert await manager.reload()
        assert verdict(manager, signed(9999)) == "No acl config for RocketMQ"
    assert verdict(manager, RemotingCommand(9999), "1.1.1.1") == "No accessKey is configured"
    disk.unlink(DEFAULT)
    assert await manager.reload()
    assert manager.versions() == {}


async def test_a_file_that_breaks_leaves_what_was_known_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    write_file(disk, DEFAULT, ACCOUNTS + "  - accessKey: short\n    secretKey: short\n")
    write_file(disk, f"{DIRECTORY}/acl/new.yml", "accounts:\n- {accessKey: newcomer, secretKey: newcomer}\n")
    with caplog.at_level(logging.ERROR, "rocketpy.broker.acl"):
        assert await manager.reload()
        assert not await manager.reload()
    assert caplog.messages == [
        f"{DEFAULT}: The accessKey=short and secretKey=****** cannot be null and length should longer than 6; "
        "the previous state stays"
    ]
    assert verdict(manager, signed(9999)) == "allowed"
    assert verdict(manager, signed(9999, by=SessionCredentials("newcomer", "newcomer"))) == "allowed"


async def test_a_directory_that_cannot_be_read_leaves_what_was_known(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    for number in range(300):
        write_file(disk, f"{DIRECTORY}/acl/{number}.yml", "accounts:\n")
    with caplog.at_level(logging.ERROR, "rocketpy.broker.acl"):
        assert not await manager.reload()
        assert not await manager.reload()
    assert caplog.messages == [
        f"{DIRECTORY}: expected at most 256 files with accounts, found more; the previous state stays"
    ]
    assert verdict(manager, signed(9999)) == "allowed"


async def test_an_invalid_new_file_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    write_file(disk, f"{DIRECTORY}/acl/new.yml", "acounts: []\naccounts: nobody\n")
    assert await manager.reload()
    assert list(manager.versions()) == [DEFAULT]
    with caplog.at_level(logging.WARNING, "rocketpy.broker.acl"):
        write_file(disk, f"{DIRECTORY}/acl/new.yml", "acounts: []\n")
        assert await manager.reload()
    assert caplog.messages[-1] == f"{DIRECTORY}/acl/new.yml line 1: acounts is unknown and ignored"


# ---- changes by request ---------------------------------------------------------------------------------------------


async def test_an_account_is_added_and_changed_at_once_and_counted() -> None:
    disk, clock = SimDisk(), ManualClock()
    manager = make_manager(disk=disk, clock=clock)
    await manager.update_account(PlainAccessConfig("newcomer", "secret-1", topic_perms=["orders=PUB"]))
    newcomer = SessionCredentials("newcomer", "secret-1")
    assert verdict(manager, signed(SEND, {"b": "orders"}, by=newcomer)) == "allowed"
    await manager.update_account(PlainAccessConfig("newcomer", "secret-2"))
    assert verdict(manager, signed(SEND, {"b": "orders"}, by=newcomer)).startswith("Check signature failed")
    newcomer = SessionCredentials("newcomer", "secret-2")
    assert verdict(manager, signed(SEND, {"b": "orders"}, by=newcomer)) == "allowed"
    assert manager.version == DataVersion(clock.timestamp_ms(), 2)
    again = make_manager(None, disk=disk)
    assert again.config() == manager.config(), "the same after a restart"
    assert verdict(again, signed(SEND, {"b": "orders"}, by=newcomer)) == "allowed"
    assert not await manager.reload()


async def test_an_account_is_changed_in_its_own_file() -> None:
    disk = SimDisk()
    other = f"{DIRECTORY}/acl/other.yml"
    write_file(disk, other, "# theirs\naccounts:\n- accessKey: another\n  secretKey: another\n")
    manager = make_manager(disk=disk)
    await manager.update_account(PlainAccessConfig("another", "changed", admin=True))
    assert read_file(disk, other).startswith("# theirs\naccounts:\n- accessKey: another\n  secretKey: changed\n")
    assert read_file(disk, DEFAULT) == ACCOUNTS
    assert {path: version.counter for path, version in manager.versions().items()} == {other: 1, DEFAULT: 0}
    assert await manager.delete_account("another")
    assert verdict(manager, signed(9999, by=SessionCredentials("another", "changed"))) == "No acl config for another"
    assert not await manager.delete_account("another")


async def test_the_first_account_makes_the_file() -> None:
    disk = SimDisk()
    write_file(disk, f"{DIRECTORY}/acl/other.yml", "accounts: []\n")
    manager = make_manager(None, disk=disk)
    await manager.update_account(PlainAccessConfig("newcomer", "secret-1"))
    assert list(manager.versions()) == [f"{DIRECTORY}/acl/other.yml", DEFAULT]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (PlainAccessConfig("short", "secret-1"), "The accessKey=short"),
        (PlainAccessConfig("RocketMQ"), "secretKey=null cannot be null"),
        (
            PlainAccessConfig("RocketMQ", "secret-1", topic_perms=["GoldTopic"]),
            "Parse Resource format error for GoldTopic",
        ),
        (PlainAccessConfig("RocketMQ", "secret-1", group_perms=["g=ALL"]), "Parse resource permission error for g=ALL"),
        (PlainAccessConfig("RocketMQ", "secret-1", "nowhere"), "Netaddress examine Exception netaddress is nowhere"),
    ],
)
async def test_an_invalid_change_changes_nothing(change: PlainAccessConfig, expected: str) -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    with pytest.raises(AclError, match=expected):
        await manager.update_account(change)
    assert read_file(disk, DEFAULT) == ACCOUNTS
    assert verdict(manager, signed(9999)) == "allowed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accounts: nobody\n", "line 1: expected a list for accounts"),
        ("accounts:\n- {accessKey: RocketMQ,}\n", "edit it by hand"),
        ("accounts:\n- {accessKey: a, secretKey: b}\n", "cannot be null and length should longer than 6"),
    ],
)
async def test_a_file_that_was_broken_by_hand_is_named_and_left_alone(text: str, expected: str) -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    write_file(disk, DEFAULT, text)
    with pytest.raises(AclError, match=f"^{DEFAULT}: .*{expected}"):
        await manager.update_account(PlainAccessConfig("RocketMQ", "secret-1"))
    assert read_file(disk, DEFAULT) == text
    assert verdict(manager, signed(9999)) == "allowed", "the previous state stays"


async def test_a_disk_that_refuses_changes_nothing() -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    disk.capacity_bytes = 0
    with pytest.raises(StoreError):
        await manager.update_account(PlainAccessConfig("newcomer", "secret-1"))
    assert verdict(manager, signed(9999, by=SessionCredentials("newcomer", "secret-1"))).startswith("No acl config")


async def test_white_lists_are_changed_in_known_files_only() -> None:
    disk = SimDisk()
    other = f"{DIRECTORY}/acl/other.yml"
    write_file(disk, other, "accounts:\n")
    write_file(disk, "/etc/passwd", "root")
    manager = make_manager(disk=disk)
    assert await manager.update_white_addresses(["1.1.1.1"], None)
    assert await manager.update_white_addresses(["2.2.2.2"], other)
    assert not await manager.update_white_addresses(["3.3.3.3"], "/etc/passwd")
    assert not await manager.update_white_addresses(["3.3.3.3"], f"{DIRECTORY}/acl/../../etc/passwd")
    with pytest.raises(AclError):
        await manager.update_white_addresses(["nowhere"], None)
    assert manager.config().global_white_addrs == ["2.2.2.2", "1.1.1.1"]
    assert verdict(manager, RemotingCommand(9999), "2.2.2.2") == "allowed"
    assert verdict(manager, RemotingCommand(9999), "10.10.103.1") == "No accessKey is configured"
    assert read_file(disk, "/etc/passwd") == "root"


@pytest.mark.parametrize("left", ["accounts:\n", "accounts: []\n", "", "globalWhiteRemoteAddresses: []\n"])
async def test_an_account_that_another_broker_has_removed_already_is_removed_again(left: str) -> None:
    """Brokers of ``--groups`` share the file. What the other had done was an AssertionError, the end of a broker."""
    disk = SimDisk()
    manager = make_manager("accounts:\n- {accessKey: only-one, secretKey: 12345678}\n", disk=disk)
    write_file(disk, DEFAULT, left)
    assert await manager.delete_account("only-one")
    assert manager.account("only-one") is None
    assert not await manager.delete_account("only-one"), "now this broker knows"


async def test_changes_at_the_same_time_are_all_made() -> None:
    disk = SimDisk()
    manager = make_manager(disk=disk)
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(manager.update_account, PlainAccessConfig(f"account{number}", "secret-1"))
        nursery.start_soon(manager.reload)
    accounts = manager.config().plain_access_configs or ()
    assert {f"account{number}" for number in range(5)} < {each.access_key for each in accounts}
    assert manager.version.counter == 5


class _EditedMeanwhile(AclFiles):
    """Files of which one changes just after its text was read, before the reader has noted anything."""

    edit: str | None = None

    def read(self, path: str) -> AclFile:
        file = super().read(path)
        if self.edit is not None:
            write_file(self._disk, path, self.edit)
            self.edit = None
        return file


@pytest.mark.parametrize("at_start", [True, False])
async def test_a_change_made_while_a_file_is_read_is_seen_the_next_time(at_start: bool) -> None:
    disk = SimDisk()
    write_file(disk, DEFAULT, ACCOUNTS)
    files = _EditedMeanwhile(directory=DIRECTORY, disk=disk)
    manager = PlainPermissionManager(files=files, run_blocking=run_inline, clock=ManualClock(), is_strict=False)
    manager.declare(declared_needs())
    edited = ACCOUNTS.replace("orders=PUB|SUB", "orders=PUB|SUB, late=PUB")
    request = signed(RequestCode.SEND_MESSAGE_V2, {"a": "g", "b": "late"})
    if at_start:
        files.edit = edited
        manager.load()
    else:
        manager.load()
        write_file(disk, DEFAULT, ACCOUNTS + "\n")
        files.edit = edited
        assert await manager.reload()
    assert verdict(manager, request) != "allowed"
    assert await manager.reload(), "the file is another one than what was read"
    assert verdict(manager, request) == "allowed"
