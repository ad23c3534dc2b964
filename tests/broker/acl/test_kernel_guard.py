"""The guards with kernels pass what was permitted before and is signed, and ask the other guard for the rest."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from rocketpy.broker.acl.fast_path_guards import FastPathGuards
from rocketpy.broker.acl.kernel_guard import KernelGuard, KernelPullGuard
from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.broker.send.properties import NOT_PLAIN
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.fast_path_headers import FAST_HEADER_ERRORS, decode_fast_pull
from rocketpy.protocol.frame.json_header import encode_json_header
from rocketpy.protocol.kernels.pull_header import PullForms
from rocketpy.protocol.kernels.send_header import SendHeader
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import FastPath
from tests.broker.acl.accounts import ADMIN, HERE, make_manager, peer_at, signed
from tests.broker.acl.test_fast_path_guards import long_way

SEND, BATCH, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.PULL_MESSAGE
FIELDS = {
    "a": "writers", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
    "i": "UNIQ_KEY\x01A\x02WAIT\x01true", "j": "0", "k": "false", "m": "false", "n": "broker-0",
}  # fmt: skip
BATCH_FIELDS = FIELDS | {"i": "WAIT\x01true", "m": "true"}
PULL_FIELDS = {
    "commitOffset": "0", "consumerGroup": "readers", "expressionType": "TAG", "maxMsgNums": "32", "queueId": "3",
    "queueOffset": "96", "subVersion": "0", "subscription": "*", "suspendTimeoutMillis": "15000", "sysFlag": "6",
    "topic": "invoices",
}  # fmt: skip
OF_CODE = {SEND: FIELDS, BATCH: BATCH_FIELDS, PULL: PULL_FIELDS}
LONG = bytes(range(256)) * 20
"""A body that is not copied behind what is signed of its header."""
WITH_TOKEN = SessionCredentials("RocketMQ", "12345678", "a token")


def keep_header(connection: Connection, header: bytes, body: bytes | None) -> int:
    """A fast path: it keeps the reader of a connection's headers, as those of sends and pulls do."""
    if header.startswith(b'{"code":11,'):
        forms = connection.kept_pulls = connection.kept_pulls or PullForms()
        if forms.find(header) is None:
            try:
                request = decode_fast_pull(header)
            except FAST_HEADER_ERRORS:
                return False
            forms.keep(header, request.ext_fields, request.flag)
    elif connection.last_send is None:
        names = frozenset(name.encode() for name in NOT_PLAIN)
        connection.last_send = SendHeader(names, b"", BytesWriter())
    return True


def another(code: RequestCode, number: int) -> dict[str, str]:
    """The fields of another request of the same client."""
    fields = OF_CODE[code]
    if code == PULL:
        return fields | {"queueId": str(number), "queueOffset": str(number * 97), "commitOffset": str(number**9)}
    return fields | {"e": str(number), "i": fields["i"].replace("\x01A", f"\x01{number}")}


class Served:
    """A fast path behind the guard, and how often the other guard was asked."""

    def __init__(self, manager: PlainPermissionManager, code: int = SEND) -> None:
        self.asked = 0
        guards = FastPathGuards(manager, has_kernels=True)
        others = FastPathGuards(manager, has_kernels=False)
        others.sessions = guards.sessions
        guarded = others.by_code()[code](keep_header)

        def noted(connection: Connection, header: bytes, body: bytes | None) -> int:
            self.asked += 1
            return guarded(connection, header, body)

        guard_class = KernelPullGuard if code == PULL else KernelGuard
        self.guard = guard_class(guards.sessions[code], fast_path=keep_header, guarded=noted)

    def serves(self, connection: Connection, request: RemotingCommand, header: bytes | None = None) -> bool:
        return bool(self.guard.process(connection, header or encode_json_header(request), request.body))


@pytest.mark.parametrize("account", [None, ADMIN, WITH_TOKEN])
@pytest.mark.parametrize("body", [None, b"body", LONG, LONG[:1024], LONG[:1025]])
@pytest.mark.parametrize("code", OF_CODE)
def test_the_first_request_of_a_peer_is_permitted_the_next_ones_are_known(
    code: RequestCode, account: SessionCredentials | None, body: bytes | None
) -> None:
    served, connection = Served(make_manager(), code), peer_at("10.0.0.1")
    for number in range(5):
        fields = another(code, number)
        request = signed(code, fields, body) if account is None else signed(code, fields, body, by=account)
        assert served.serves(connection, request)
        assert served.asked == 1


@pytest.mark.parametrize("body", [b"body", LONG])
@pytest.mark.parametrize("code", OF_CODE)
def test_what_says_for_whom_it_is_signed_is_left_to_the_other_guard(code: RequestCode, body: bytes) -> None:
    """Each time: that a kernel finds the same text says nothing of where one field ends and the next one begins."""
    served, connection = Served(make_manager(), code), peer_at("10.0.0.1")
    for number in range(5):
        assert served.serves(connection, signed(code, another(code, number), body, at=HERE))
        assert served.asked == number + 1
    for at in ("10.0.0.9:10911", f"{HERE}1", "10.0.0.7:1091"):
        assert not served.serves(connection, signed(code, another(code, 7), body, at=at))
        assert not served.serves(peer_at("10.0.0.2"), signed(code, another(code, 7), body, at=at))
    for_another_code = signed(code + 1, another(code, 7), body, at=HERE)
    for_another_code.code = code
    assert not served.serves(connection, for_another_code)
    divided = signed(code, another(code, 7), body, at=HERE)
    assert divided.ext_fields is not None
    names = ("topic", "subscription") if code == PULL else ("b", "c")
    joined = "".join(divided.ext_fields[name] for name in sorted(names))
    divided.ext_fields |= {sorted(names)[0]: joined[:3], sorted(names)[1]: joined[3:]}
    assert not served.serves(connection, divided)
    assert served.serves(connection, signed(code, another(code, 8), body)), "and one of Java's on the same connection"


@pytest.mark.parametrize("code", OF_CODE)
@pytest.mark.parametrize("body", [b"body", LONG])
def test_one_flipped_bit_is_refused(code: RequestCode, body: bytes) -> None:
    """Of the body, of the signature, of anything else in the header that is signed."""
    manager = make_manager(is_strict=True)
    served, connection = Served(manager, code), peer_at("10.0.0.1")
    request = signed(code, OF_CODE[code], body)
    header = encode_json_header(request)
    for _ in range(2):
        assert served.serves(connection, request)
    flipped = [body[:at] + bytes((body[at] ^ 1 << at % 8,)) + body[at + 1 :] for at in range(0, len(body), 61)]
    for changed in (*flipped, body[:-1], body + b"\0", b"", None):
        request.body = changed
        assert not served.serves(connection, request)
    request.body = body
    begin, end = header.index(b'"extFields":{'), header.index(b'},"flag"')
    unused = header.index(b'="}')  # the lowest two bits of the last character are no part of the signature
    for at in range(begin, end):
        if at == unused - 1:
            continue
        changed = header[:at] + bytes((header[at] ^ 1,)) + header[at + 1 :]
        if header[at + 1 : at + 3] == b'":' and header[at - 1 : at] == b'"':  # a name, which is not signed
            assert not served.serves(connection, request, changed) or long_way(manager, "10.0.0.1", changed, body)
        else:
            assert not served.serves(connection, request, changed), changed
    assert served.serves(connection, request)


def test_what_another_account_may_do_is_no_permission() -> None:
    served, connection = Served(make_manager()), peer_at("10.0.0.1")
    for _ in range(2):
        assert served.serves(connection, signed(SEND, FIELDS | {"b": "x"}, by=ADMIN))
        assert not served.serves(connection, signed(SEND, FIELDS | {"b": "x"}))
        assert served.serves(connection, signed(SEND, FIELDS))
        assert not served.serves(connection, signed(SEND, FIELDS | {"b": "invoices"}))


def test_accounts_with_one_secret_key_are_distinguished() -> None:
    """The signature alone does not say whose permission counts."""
    text = "accounts:\n" + "".join(
        f"- {{accessKey: {name}, secretKey: 12345678, defaultTopicPerm: {perm}, defaultGroupPerm: SUB}}\n"
        for name, perm in (("Allowed1", "PUB"), ("Denied12", "DENY"))
    )
    served, connection = Served(make_manager(text)), peer_at("10.0.0.1")
    allowed, denied = (SessionCredentials(name, "12345678") for name in ("Allowed1", "Denied12"))
    for _ in range(2):
        assert served.serves(connection, signed(SEND, FIELDS, by=allowed))
        assert not served.serves(connection, signed(SEND, FIELDS, by=denied))
    connection = peer_at("10.0.0.2")
    for _ in range(3):
        assert served.serves(connection, signed(SEND, FIELDS, by=allowed))
    forged = signed(SEND, FIELDS, by=denied)
    assert not served.serves(connection, forged)


@pytest.mark.parametrize("code", OF_CODE)
async def test_a_deleted_account_is_refused_at_once(code: RequestCode) -> None:
    manager = make_manager()
    served, connection = Served(manager, code), peer_at("10.0.0.1")
    request = signed(code, OF_CODE[code])
    for _ in range(3):
        assert served.serves(connection, request)
    assert await manager.delete_account("RocketMQ")
    assert not served.serves(connection, request)


@pytest.mark.parametrize(("code", "is_strict"), [(SEND, False), (BATCH, True)])
async def test_a_revoked_permission_counts_at_once(code: RequestCode, is_strict: bool) -> None:
    """A batch needs one only where accounts are strict."""
    manager = make_manager(is_strict=is_strict)
    served, connection = Served(manager, code), peer_at("10.0.0.1")
    request = signed(code, OF_CODE[code])
    for _ in range(3):
        assert served.serves(connection, request)
    assert served.asked == 1
    await manager.update_account(PlainAccessConfig("RocketMQ", "12345678", topic_perms=["orders=SUB"]))
    assert not served.serves(connection, request)


@pytest.mark.parametrize(("name", "revoked"), [("topic", "orders"), ("consumerGroup", "writers")])
async def test_a_pull_of_a_known_form_needs_the_rights_that_the_account_has_now(name: str, revoked: str) -> None:
    """The form of a header stays with the connection when its account loses a right: it is no permission."""
    manager = make_manager()
    groups = ["readers=SUB", "writers=SUB"]
    await manager.update_account(PlainAccessConfig("RocketMQ", "12345678", group_perms=groups))
    served, connection = Served(manager, PULL), peer_at("10.0.0.1")
    kept, lost = signed(PULL, PULL_FIELDS), signed(PULL, PULL_FIELDS | {name: revoked})
    for _ in range(3):
        assert served.serves(connection, kept)
        assert served.serves(connection, lost)
    assert served.asked == 2, "from then on both are passed by their forms"
    topics = ["invoices=SUB"] if name == "topic" else ["invoices=SUB", "orders=SUB"]
    groups = ["readers=SUB"] if name == "consumerGroup" else groups
    await manager.update_account(PlainAccessConfig("RocketMQ", "12345678", topic_perms=topics, group_perms=groups))
    for _ in range(3):
        assert served.serves(connection, kept), "the account has a session again"
        assert not served.serves(connection, lost)
    forms = connection.kept_pulls
    assert forms is not None
    assert forms.find(encode_json_header(lost)) is not None


def test_headers_of_the_other_code_are_not_passed() -> None:
    """Both kinds are read by one kernel of a connection; each guard passes those of its own code only."""
    manager = make_manager()
    guards, connection = FastPathGuards(manager, has_kernels=True), peer_at("10.0.0.1")
    passed: list[int] = []

    def note(code: int) -> FastPath:
        def fast_path(connection: Connection, header: bytes, body: bytes | None) -> int:
            keep_header(connection, header, body)
            passed.append(code)
            return True

        return fast_path

    by_code = {code: guards.by_code()[code](note(code)) for code in OF_CODE}
    headers = {code: encode_json_header(signed(code, OF_CODE[code])) for code in OF_CODE}
    for _ in range(3):
        for code, header in headers.items():
            assert by_code[code](connection, header, None)
    assert passed == [SEND, BATCH, PULL] * 3
    for code, fields in ((SEND, BATCH_FIELDS), (BATCH, FIELDS)):
        assert by_code[code](connection, encode_json_header(signed(code, fields)), None), "the fast path declines it"
    assert guards.sessions[SEND][connection.peer] is not guards.sessions[BATCH][connection.peer]


@cache
def kept_manager(*, is_strict: bool = False) -> PlainPermissionManager:
    """Return a manager whose accounts no example changes: to read them takes longer than all else in one."""
    return make_manager(is_strict=is_strict)


@given(
    code=st.sampled_from([SEND, BATCH, PULL]),
    changes=st.dictionaries(st.integers(0, 20), st.text(max_size=5)),
    sent_changes=st.dictionaries(st.integers(0, 20), st.text(max_size=5), max_size=1),
    body=st.none() | st.binary(max_size=5),
)
@settings(deadline=None, max_examples=100)
def test_it_never_allows_more_than_the_general_path(
    code: RequestCode, changes: dict[int, str], sent_changes: dict[int, str], body: bytes | None
) -> None:
    names = [*OF_CODE[code], "l", "x", "AccessKey", "Signature"]
    assert_allows_no_more(
        code,
        {names[at % len(names)]: text for at, text in changes.items()},
        {names[at % len(names)]: text for at, text in sent_changes.items()},
        body,
    )


@pytest.mark.parametrize(("name", "code"), [(name, code) for code, fields in OF_CODE.items() for name in fields])
def test_no_other_value_of_a_field_is_allowed_more_than_by_the_general_path(name: str, code: RequestCode) -> None:
    """Signed with it, and put in after that."""
    for text in ("", "0", "x", "orders", "invoices", "secrets", "readers", "writers", "true"):
        assert_allows_no_more(code, {name: text}, {}, b"body")
        assert_allows_no_more(code, {}, {name: text}, b"body")


def assert_allows_no_more(
    code: RequestCode, changes: dict[str, str], sent_changes: dict[str, str], body: bytes | None
) -> None:
    """Make a request that is allowed, then one with changes that are signed, and changes that are not."""
    manager = kept_manager()
    served, connection = Served(manager, code), peer_at("10.0.0.1")
    assert served.serves(connection, signed(code, OF_CODE[code]))
    request = signed(code, OF_CODE[code] | changes, body)
    assert request.ext_fields is not None
    request.ext_fields |= sent_changes
    header = encode_json_header(request)
    assert not served.serves(connection, request, header) or long_way(manager, "10.0.0.1", header, body)


HOSTILE = [
    (b'"b":"orders"', b'"b":"invoices","b":"orders"'),
    (b'"b":"orders"', b'"b":"orders","b":"invoices"'),
    (b'"b":"orders"', b'"b":"\\u006frders"'),
    (b'"b":"orders"', b'"\\u0062":"orders"'),
    (b'"b":"orders"', b'"b":"orders","\\u0062":"invoices"'),
    (b'"b":"orders"', b'"b":["orders"]'),
    (b'"b":"orders"', b'"b":null'),
    (b'"b":"orders"', b'"b":"invoices"'),
    (b'"b":"orders"', b'"b":"","c":"orders"'),
    (b'"b":"orders"', b'"b":"orders","x":""'),
    (b'"a":"writers"', b'"a":"readers"'),
    (b'"e":"1"', b'"e":1'),
    (b'"e":"1"', b'"e":"01"'),
    (b'"f":"0"', b'"f":"","g":"0"'),
    (b'"AccessKey":"RocketMQ"', b'"AccessKey":"RocketMQ","AccessKey":"adminMQ"'),
    (b'"AccessKey":"RocketMQ"', b'"AccessKey":"stranger","AccessKey":"RocketMQ"'),
    (b'"AccessKey":"RocketMQ"', b'"accesskey":"RocketMQ"'),
    (b'"AccessKey"', b'"\\u0041ccessKey"'),
    (b'"Signature":"', b'"Signature":"","Signature":"'),
    (b'"Signature":"', b'"signature":"'),
    (b'"Signature":"', b'"Signature":" '),
    (b'"extFields":{', b'"extFields":{},"extFields":{'),
    (b'"extFields":{', b'"extFields":{"b":"invoices","Signature":""},"extFields":{'),
    (b'"extFields":{', b'"extFields":{"Signature":null,'),
    (b"}", b"} "),
    (b'{"code":', b'{"code":310,"code":'),
    (b'"flag":0', b'"flag":0,"code":320'),
    (b'"flag":0', b'"flag":0,"code":11'),
    (b'"flag":0', b'"flag":0,"Code":310'),
    (b'"m":"true"', b'"m":"false"'),
    (b'"m":"false"', b'"m":"true"'),
    (b'"m":"true"', b'"m":"true","m":"false"'),
    (b'"topic":"invoices"', b'"topic":"secrets"'),
    (b'"topic":"invoices"', b'"topic":"secrets","topic":"invoices"'),
    (b'"topic":"invoices"', b'"topic":"invoices","topic":"secrets"'),
    (b'"topic":"invoices"', b'"topic":"invoices","\\u0074opic":"secrets"'),
    (b'"topic":"invoices"', b'"topic":"","subscription":"*invoices"'),
    (b'"consumerGroup":"readers"', b'"consumerGroup":"writers"'),
    (b'"queueId":"3"', b'"queueId":3'),
    (b'"queueId":"3"', b'"queueId":"03"'),
    (b'"queueId":"3"', b'"queueId":""'),
    (b'"queueId":"3"', b'"queueId":"4","queueId":"3"'),
    (b'"queueId":"3","queueOffset":"96"', b'"queueId":"39","queueOffset":"6"'),
    (b'"queueOffset":"96"', b'"queueOffset":"97"'),
    (b'"commitOffset":"0"', b'"commitOffset":"1"'),
    (b'"commitOffset":"0"', b'"commitOffset":"0","zzz":[{"queueId":"4"}]'),
    (b'"extFields":{', b'"extFields":{"SecurityToken":"","a":"x",'),
]
"""What a forger may write instead: repeated, escaped, absent and wrong parts."""


@pytest.mark.parametrize("code", OF_CODE)
@pytest.mark.parametrize("is_known", [False, True])
def test_each_hostile_header_is_served_only_where_the_general_path_allows_it(code: RequestCode, is_known: bool) -> None:
    manager, body = kept_manager(is_strict=True), b"body"
    request = signed(code, OF_CODE[code], body)
    for found, put in HOSTILE:
        served, connection = Served(manager, code), peer_at("10.0.0.1")
        if is_known:
            assert served.serves(connection, request)
        header = encode_json_header(request).replace(found, put, 1)
        try:
            allowed = long_way(manager, "10.0.0.1", header, body)
        except RemoteProtocolError:
            allowed = False
        for _ in range(2):
            assert not served.serves(connection, request, header) or allowed, (found, put)


@pytest.mark.parametrize("code", OF_CODE)
async def test_a_changed_secret_counts_at_once(code: RequestCode) -> None:
    manager = make_manager()
    served, connection = Served(manager, code), peer_at("10.0.0.1")
    old = signed(code, OF_CODE[code], LONG)
    for _ in range(3):
        assert served.serves(connection, old)
    await manager.update_account(PlainAccessConfig("RocketMQ", "another secret"))
    for _ in range(2):
        assert not served.serves(connection, old)
    new = signed(code, OF_CODE[code], LONG, by=SessionCredentials("RocketMQ", "another secret"))
    for _ in range(3):
        assert served.serves(connection, new)
        assert not served.serves(connection, old)
