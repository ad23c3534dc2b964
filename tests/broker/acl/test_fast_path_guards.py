"""The short way to a yes: it must never say yes where the long way says no."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rocketpy.broker.acl.fast_path_guards import FastPathGuards
from rocketpy.broker.acl.needs import ADMIN as NEEDS_ADMIN
from rocketpy.broker.acl.needs import ANY_ACCOUNT
from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.broker.acl.session import Session
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.fast_path_headers import (
    FAST_HEADER_ERRORS,
    FastBatchHeader,
    FastSendHeader,
    decode_fast_batch,
    decode_fast_send,
)
from rocketpy.protocol.frame.json_header import decode_json_header, encode_json_header
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import FastPath
from tests.broker.acl.accounts import ACCOUNTS, ADMIN, HERE, make_manager, peer_at, signed

GOLDEN = Path(__file__).parents[2] / "golden"
SEND, BATCH, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.PULL_MESSAGE
SEND_FIELDS = {
    "a": "writers", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
    "i": "TAGS\x01TagA\x02KEYS\x01кey", "j": "0", "k": "false", "l": "16", "m": "false", "n": "broker-0",
}  # fmt: skip
PULL_FIELDS = {
    "consumerGroup": "readers", "topic": "orders", "queueId": "1", "queueOffset": "5", "maxMsgNums": "32",
    "sysFlag": "3", "commitOffset": "4", "suspendTimeoutMillis": "15000", "subVersion": "1", "subscription": "a || b",
    "expressionType": "TAG", "bname": "broker-0", "ReqT": "0",
}  # fmt: skip


def checks(manager: PlainPermissionManager) -> dict[int, FastPath]:
    """Return the guards of a fast path that accepts everything: they return whether they pass the request."""
    return checks_of(FastPathGuards(manager))


def checks_of(guards: FastPathGuards) -> dict[int, FastPath]:
    return {code: guard(lambda connection, header, body: True) for code, guard in guards.by_code().items()}


def sessions_of(guards: FastPathGuards) -> list[Session]:
    return [session for sessions in guards.sessions.values() for session in sessions.values()]


def long_way(manager: PlainPermissionManager, address: str, header: bytes, body: bytes | None) -> bool:
    try:
        manager.authorize(peer_at(address), decode_json_header(header, body))
    except RequestError:
        return False
    return True


def ask(manager: PlainPermissionManager, request: RemotingCommand, address: str = "10.0.0.1") -> tuple[bool, bool]:
    """Return the verdicts of the fast and the general path, each asked twice: caching must change nothing."""
    header = encode_json_header(request)
    check = checks(manager)[request.code]
    short = {check(peer_at(address), header, request.body) for _ in range(2)}
    assert len(short) == 1
    return short.pop(), long_way(manager, address, header, request.body)


ALLOWED = [
    signed(SEND, SEND_FIELDS, b"body"),
    signed(SEND, SEND_FIELDS),
    signed(SEND, SEND_FIELDS | {"b": "RMQ_SYS_TRACE_TOPIC"}, b"body"),
    signed(SEND, SEND_FIELDS | {"b": "whatever"}, b"body", by=ADMIN),
    signed(SEND, SEND_FIELDS, b"body", by=SessionCredentials("RocketMQ", "12345678", "a token")),
    signed(BATCH, SEND_FIELDS | {"b": "not-mine", "m": "true"}, b"body"),
    signed(PULL, PULL_FIELDS),
    signed(PULL, PULL_FIELDS, b"body"),
    *(signed(code, fields, at=HERE) for code, fields in ((SEND, SEND_FIELDS), (PULL, PULL_FIELDS))),
]


@pytest.mark.parametrize("request_", ALLOWED)
def test_what_clients_send_takes_the_short_way(request_: RemotingCommand) -> None:
    assert ask(make_manager(), request_) == (True, True)


@pytest.mark.parametrize(
    "request_",
    [
        signed(SEND, SEND_FIELDS | {"b": "invoices"}),
        signed(SEND, SEND_FIELDS | {"b": "unknown"}),
        signed(PULL, PULL_FIELDS | {"topic": "secrets"}),
        signed(PULL, PULL_FIELDS | {"consumerGroup": "others"}),
        signed(SEND, SEND_FIELDS, by=SessionCredentials("RocketMQ", "wrong secret")),
        signed(SEND, SEND_FIELDS, by=SessionCredentials("stranger", "12345678")),
    ],
)
def test_both_ways_refuse_what_is_not_allowed(request_: RemotingCommand) -> None:
    assert ask(make_manager(), request_) == (False, False)


@pytest.mark.parametrize(
    "request_",
    [
        signed(SEND, SEND_FIELDS | {"a": "readers", "b": "%RETRY%readers"}),
        signed(SEND, SEND_FIELDS | {"extra": "field"}),
        signed(PULL, PULL_FIELDS | {"_UNIQUE_KEY_QUERY": "true"}),
        signed(PULL, PULL_FIELDS | {"topic": "%RETRY%readers"}),
    ],
)
def test_what_is_unusual_is_left_to_the_long_way(request_: RemotingCommand) -> None:
    assert ask(make_manager(), request_) == (False, True)


def test_the_strict_form_asks_for_the_topic_of_a_batch() -> None:
    request = signed(BATCH, SEND_FIELDS | {"b": "invoices", "m": "true"}, b"body")
    assert ask(make_manager(), request) == (True, True)
    assert ask(make_manager(is_strict=True), request) == (False, False)
    assert ask(make_manager(is_strict=True), signed(BATCH, SEND_FIELDS, b"body")) == (True, True)


@pytest.mark.parametrize(("code", "fields"), [(SEND, SEND_FIELDS), (BATCH, SEND_FIELDS), (PULL, PULL_FIELDS)])
def test_white_addresses_need_no_account_and_keep_the_fast_paths(code: int, fields: dict[str, str]) -> None:
    unsigned = RemotingCommand(code, fields)
    assert ask(make_manager(), unsigned, "10.10.103.7") == (True, True)
    named = RemotingCommand(code, fields | {"AccessKey": "RocketMQ", "Signature": "none"})
    assert ask(make_manager(), named, "192.168.9.3") == (True, True)
    assert ask(make_manager(), named, "192.168.8.3") == (False, False)


def test_numbers_for_texts_and_garbage_are_left_to_the_long_way() -> None:
    manager = make_manager()
    for code, check in checks(manager).items():
        for header in (b"", b"{}", b"[]", b"\xff", b'{"code":%d,"extFields":{"b":7}}' % code, b'{"extFields":null}'):
            assert not check(peer_at("10.0.0.1"), header, None)


READ_OF_BATCHES = ("topic", "queue_id", "properties", "sys_flag", "born_timestamp", "reconsume_times")
READ_OF_SENDS = (*READ_OF_BATCHES, "batch", "flag")


@pytest.mark.parametrize(
    ("code", "changes", "is_reused"),
    [
        (SEND, {}, True),
        (SEND, {"e": "7", "g": "-5", "i": "", "n": ""}, True),
        (SEND, {"f": "1"}, False),
        (SEND, {"h": "9"}, False),
        (SEND, {"j": "2"}, False),
        (SEND, {"m": "true"}, False),
        (BATCH, {"m": "true"}, True),
        (BATCH, {"m": "true", "e": "7", "g": "-5", "i": ""}, True),
        (BATCH, {"m": "true", "f": "1"}, False),
        (BATCH, {"m": "true", "j": "2"}, False),
        (BATCH, {"m": "false"}, False),
        (BATCH, {"m": "1"}, False),
    ],
)
def test_the_fast_path_reads_the_same_from_either_decoder(code: int, changes: dict[str, str], is_reused: bool) -> None:
    """The guard's decoded header is reused only if it has every field that the fast path reads."""
    guards = FastPathGuards(make_manager(), has_kernels=False)
    decode, names = (guards.decode_send, READ_OF_SENDS) if code == SEND else (guards.decode_batch, READ_OF_BATCHES)
    read: list[FastSendHeader | FastBatchHeader] = []

    def fast_path(connection: Connection, header: bytes, body: bytes | None) -> bool:
        read.append(decode(header))
        return True

    request = signed(code, SEND_FIELDS | changes, b"body")
    request.opaque, request.flag = 7, 2
    header = encode_json_header(request)
    assert guards.by_code()[code](fast_path)(peer_at("10.0.0.1"), header, b"body")
    plain = (decode_fast_send if code == SEND else decode_fast_batch)(header)
    assert (type(read[0]) is not type(plain)) == is_reused
    for found in (*read, decode(bytes(bytearray(header)))):
        assert (found.opaque, found.flag) == (7, 2)
        assert [getattr(found.ext_fields, each) for each in names] == [
            getattr(plain.ext_fields, each) for each in names
        ]


def test_what_is_not_let_through_is_not_given_on() -> None:
    guards = FastPathGuards(make_manager())
    guarded = guards.by_code()[SEND](lambda connection, header, body: True)
    header = encode_json_header(signed(SEND, SEND_FIELDS | {"b": "invoices"}))
    assert not guarded(peer_at("10.0.0.1"), header, None)
    assert type(guards.decode_send(header)) is FastSendHeader
    with pytest.raises(FAST_HEADER_ERRORS):
        guards.decode_send(b"no header")


def test_what_is_cached_is_bounded() -> None:
    manager = make_manager(ACCOUNTS.replace("topicPerms: [orders=PUB|SUB, invoices=SUB]", "defaultTopicPerm: PUB"))
    guards = FastPathGuards(manager)
    check = checks_of(guards)[SEND]
    for number in range(1500):
        header = encode_json_header(signed(SEND, SEND_FIELDS | {"b": f"topic{number}"}))
        assert check(peer_at("10.0.0.1"), header, None)
    (session,) = sessions_of(guards)
    assert len(session.allowed) <= 1000


@pytest.mark.parametrize(
    ("code", "fields", "name"), [(SEND, SEND_FIELDS, "b"), (BATCH, SEND_FIELDS, "b"), (PULL, PULL_FIELDS, "topic")]
)
def test_a_wrong_signature_leaves_nothing_in_memory(code: int, fields: dict[str, str], name: str) -> None:
    """The access key travels in clear text: without the secret key nothing may be cached for it."""
    text = ACCOUNTS.replace("topicPerms: [orders=PUB|SUB, invoices=SUB]", "defaultTopicPerm: PUB|SUB")
    guards = FastPathGuards(make_manager(text, is_strict=True))
    check = checks_of(guards)[code]
    forger = SessionCredentials("RocketMQ", "not the secret key")
    for number in range(20):
        assert not check(
            peer_at("10.0.0.1"), encode_json_header(signed(code, fields | {name: f"T{number}"}, by=forger)), None
        )
    assert [session.allowed for session in sessions_of(guards)] == [set()]
    assert check(peer_at("10.0.0.1"), encode_json_header(signed(code, fields | {name: "T1"})), None)
    assert [len(session.allowed) for session in sessions_of(guards)] == [1]


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (SEND, SEND_FIELDS | {"b": "T" * 128}),
        (PULL, PULL_FIELDS | {"topic": "T" * 128}),
        (PULL, PULL_FIELDS | {"consumerGroup": "G" * 256}),
    ],
)
def test_names_that_nothing_can_have_are_not_cached(code: int, fields: dict[str, str]) -> None:
    text = ACCOUNTS.replace("topicPerms: [orders=PUB|SUB, invoices=SUB]", "defaultTopicPerm: PUB|SUB")
    guards = FastPathGuards(make_manager(text.replace("defaultGroupPerm: DENY", "defaultGroupPerm: SUB")))
    assert not checks_of(guards)[code](peer_at("10.0.0.1"), encode_json_header(signed(code, fields)), None)
    assert [session.allowed for session in sessions_of(guards)] == [set()]


def test_a_session_ends_with_its_connection() -> None:
    guards = FastPathGuards(make_manager())
    connection, other = peer_at("10.0.0.1"), peer_at("10.0.0.1", 4321)
    for peer in (connection, other):
        for code, fields in ((SEND, SEND_FIELDS), (PULL, PULL_FIELDS)):
            assert checks_of(guards)[code](peer, encode_json_header(signed(code, fields)), None)
    assert len(sessions_of(guards)) == 4
    guards.connection_closed(connection)
    assert {peer for sessions in guards.sessions.values() for peer in sessions} == {other.peer}


def test_sessions_are_bounded() -> None:
    """The bound is for all codes together."""
    guards = FastPathGuards(make_manager())
    check = checks_of(guards)
    send, pull = (
        encode_json_header(signed(code, fields)) for code, fields in ((SEND, SEND_FIELDS), (PULL, PULL_FIELDS))
    )
    for port in range(6_000):
        assert check[SEND](peer_at("10.0.0.1", port), send, None)
        assert check[PULL](peer_at("10.0.0.1", port), pull, None)
    assert len(sessions_of(guards)) == 2_000


def test_an_unknown_account_has_no_session() -> None:
    guards = FastPathGuards(make_manager())
    header = encode_json_header(signed(SEND, SEND_FIELDS, by=SessionCredentials("stranger", "12345678")))
    assert not checks_of(guards)[SEND](peer_at("10.0.0.1"), header, None)
    assert sessions_of(guards) == []


def test_what_one_code_may_do_is_no_permission_for_another() -> None:
    """Each code is declared with needs of its own: a batch needs no permission, a send does."""
    check = checks(make_manager())
    fields = SEND_FIELDS | {"b": "invoices"}
    for _ in range(2):
        assert check[BATCH](peer_at("10.0.0.1"), encode_json_header(signed(BATCH, fields)), None)
        assert not check[SEND](peer_at("10.0.0.1"), encode_json_header(signed(SEND, fields)), None)


@pytest.mark.parametrize(("code", "fields"), [(SEND, SEND_FIELDS), (BATCH, SEND_FIELDS), (PULL, PULL_FIELDS)])
def test_what_a_code_needs_is_what_it_was_declared_to_need(code: RequestCode, fields: dict[str, str]) -> None:
    manager, header = make_manager(), encode_json_header(signed(code, fields))
    allowed = {}
    for needs in (ANY_ACCOUNT, NEEDS_ADMIN):
        manager.declare({code: needs})
        allowed[needs] = checks(manager)[code](peer_at("10.0.0.1"), header, None)
    assert allowed == {ANY_ACCOUNT: True, NEEDS_ADMIN: False}


def test_the_requests_that_java_recorded_take_the_short_way() -> None:
    """Frames of a Java cluster with ACL: every send and pull that Java allowed."""
    text = "accounts:\n" + "".join(
        f"- {{accessKey: {who}, secretKey: {secret}, admin: true}}\n"
        for who, secret in (("goldenAdmin", "golden12345678"), ("goldenUser", "user12345678"))
    )
    manager = make_manager(text)
    short_ways = checks(manager)
    taken = 0
    with gzip.open(GOLDEN / "frames.jsonl.gz", "rt") as lines:
        for frame in map(json.loads, lines):
            if frame["run"] != "acl-json" or frame["kind"] == "response" or frame["code"] not in short_ways:
                continue
            if frame["scenario"] in ("acl-no-key", "acl-wrong-secret", "acl-unknown-key"):
                continue
            raw = bytes.fromhex(frame["frame_hex"])
            header_size = int.from_bytes(raw[5:8], "big")
            header, body = raw[8 : 8 + header_size], raw[8 + header_size :] or None
            short = short_ways[frame["code"]](peer_at("10.0.0.1"), header, body)
            assert long_way(manager, "10.0.0.1", header, body), frame["scenario"]
            taken += short
            assert short or b"%RETRY%" in header, frame["scenario"]
    assert taken > 20
