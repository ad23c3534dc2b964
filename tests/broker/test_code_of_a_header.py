"""A request is served by the code that the general path reads, whichever member of its header names a fast path.

A fast path is chosen by the first member ``code``. JSON readers keep the last one, and RocketMQ's reader also takes
``Code`` or ``co_de`` for it. The same headers go down the fast path, the one with kernels, and the general path, with
accounts and without: the answers and the stored messages must be equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.frame import decode_command
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.remoting.connection import Connection
from tests.broker.acl.accounts import make_manager, signed
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import MessageBroker, open_message_broker
from tests.broker.send.test_fast_and_general_path import answers_of, batch_body, contents, pull_fields, send_fields

SEND, BATCH, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.PULL_MESSAGE
USUAL = "UNIQ_KEY\x010A\x02WAIT\x01true"
# A batch needs no permission for its topic unless accounts are strict, a send does: what a forged code would gain.
ACCOUNTS = """\
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    topicPerms: [TopicTest=PUB|SUB]
    groupPerms: [G=SUB]
"""
REQUESTS: Mapping[int, tuple[dict[str, object], bytes]] = {
    SEND: (send_fields(i=USUAL), b"body"),
    BATCH: (send_fields(i="WAIT\x01true", m="true"), batch_body([USUAL] * 3)),
    PULL: (pull_fields(), b""),
}
PATHS = {"fast": False, "kernels": True, "general": None}


def frame(header: bytes, body: bytes) -> bytes:
    size = 4 + len(header) + len(body)
    return size.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def header_of(code: int, *, topic: str = "TopicTest", is_signed: bool = True, more: str = "", last: str = "") -> bytes:
    """Return a header whose first member is this code; ``more`` are members after the fields, ``last`` at the end."""
    fields, body = REQUESTS[code]
    sent = {name: str(value) for name, value in fields.items()} | {"topic" if code == PULL else "b": topic}
    if is_signed:
        ext_fields = signed(code, sent, body, by=SessionCredentials("RocketMQ", "12345678")).ext_fields
        assert ext_fields is not None
        sent = ext_fields
    text = json.dumps(sent, separators=(",", ":"))
    return (
        f'{{"code":{int(code)},"extFields":{text},{more}"flag":0,"language":"JAVA","opaque":7,'
        f'"serializeTypeCurrentRPC":"JSON","version":407{last}}}'
    ).encode()


async def outcome(path: bool | None, frames: list[bytes], *, has_accounts: bool) -> tuple[object, list[bool]]:
    """Serve frames; return the answers and what is stored, and which of them the fast paths took."""
    accounts = make_manager(ACCOUNTS) if has_accounts else None
    async with open_message_broker(
        has_kernels=path is True, has_fast_paths=path is not None, accounts=accounts
    ) as broker:
        taken: list[bool] = []
        broker.send_path.taken = broker.batch_path.taken = broker.pull_path.taken = taken
        broker.add_topic("Secret")
        return (await answers_of(broker, frames), await contents(broker)), taken


async def assert_agreement(frames: list[bytes], *, has_accounts: bool) -> list[bool]:
    """Serve frames on all paths and compare; return which of them the fast paths took."""
    found = {name: await outcome(path, frames, has_accounts=has_accounts) for name, path in PATHS.items()}
    assert found["fast"][0] == found["general"][0]
    assert found["kernels"] == found["fast"]
    return found["fast"][1]


OTHERS = sorted(REQUESTS)
SPELLINGS = ("code", "Code", "co_de", "CO-DE", "\\u0063ode")


@pytest.mark.parametrize("has_accounts", [False, True])
@pytest.mark.parametrize("code", OTHERS)
async def test_a_header_with_one_code_takes_the_fast_path(code: int, has_accounts: bool) -> None:
    """Also a second and a third time, when the kernels compare it with the one before."""
    first = frame(header_of(SEND), REQUESTS[SEND][1])
    again = frame(header_of(code), REQUESTS[code][1])
    assert await assert_agreement([first, again, again, again], has_accounts=has_accounts) == [True] * 4


@pytest.mark.parametrize("has_accounts", [False, True])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("where", ["more", "last"])
@pytest.mark.parametrize("first", OTHERS)
async def test_of_two_codes_the_last_one_is_served(first: int, where: str, spelling: str, has_accounts: bool) -> None:
    frames = [frame(header_of(first), REQUESTS[first][1])]
    expected = [True]
    for last in (*(code for code in OTHERS if code != first), 10, 999, first):
        member = f'"{spelling}":{int(last)}'
        header = header_of(first, more=f"{member}," * (where == "more"), last=f",{member}" * (where == "last"))
        assert decode_command(0, header, None).code == last
        frames += [frame(header, REQUESTS[first][1])] * 2 + frames[:1]
        expected += [False, False, True]
    taken = await assert_agreement(frames, has_accounts=has_accounts)
    assert (taken[:-3], taken[-1]) == (expected[:-3], True)


@pytest.mark.parametrize("has_accounts", [False, True])
@pytest.mark.parametrize(
    "value",
    ["310", '"310"', '"0310"', "310.0", "3.1e2", "null", "true", '""', '"320"', '" 310"', "[310]", "-310", "{}"],
)
async def test_another_value_of_the_second_code(value: str, has_accounts: bool) -> None:
    usual = frame(header_of(SEND), REQUESTS[SEND][1])
    twice = frame(header_of(SEND, last=f',"code":{value}'), REQUESTS[SEND][1])
    await assert_agreement([usual, twice, usual], has_accounts=has_accounts)


@pytest.mark.parametrize(
    "members",
    ['"Opaque":9', '"FLAG":2', '"ext_fields":{}', '"extfields":null', '"remark":"x"', '"remark":7', '"custom":1'],
)
async def test_further_members_mean_the_same_on_all_paths(members: str) -> None:
    frames = []
    for code in OTHERS:
        usual = frame(header_of(code, is_signed=False), REQUESTS[code][1])
        other = frame(header_of(code, is_signed=False, last=f",{members}"), REQUESTS[code][1])
        frames += [usual, other, usual]
    await assert_agreement(frames, has_accounts=False)


@pytest.mark.parametrize("has_accounts", [False, True])
@pytest.mark.parametrize("flag", [1, 3, 4, 5, 6, 7, -1, 2**31 - 1, '"1"', '"2"', "null"])
async def test_a_response_with_the_code_of_a_request_is_served_by_no_path(flag: object, has_accounts: bool) -> None:
    """The bit 1 of the flag makes a response, which answers a request of the broker; further bits mean nothing."""
    frames = []
    for code in OTHERS:
        usual = frame(header_of(code), REQUESTS[code][1])
        other = frame(header_of(code).replace(b'"flag":0', f'"flag":{flag}'.encode()), REQUESTS[code][1])
        frames += [usual, other, other, usual]
    taken = await assert_agreement(frames, has_accounts=has_accounts)
    assert taken[1::4] + taken[2::4] == [False] * 6 or flag == '"2"'


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("first", OTHERS)
async def test_a_forged_code_opens_no_topic(first: int, path: bool | None) -> None:
    """Whatever code comes first, the permission that counts is that of the code that is served."""
    async with open_message_broker(has_kernels=path is True, accounts=make_manager(ACCOUNTS)) as broker:
        broker.add_topic("Secret")
        if path is None:
            broker.use_general_path()
        connection = broker.connect()
        for warm in OTHERS:  # sessions and kept headers are there
            assert await code_of_answer(broker, connection, header_of(warm), warm) in (0, ResponseCode.PULL_NOT_FOUND)
        stored = broker.stored_bytes
        for last in (SEND, PULL):
            if first == last:
                continue
            forged = header_of(first, topic="Secret", last=f',"code":{int(last)}')
            if last == PULL:
                forged = forged.replace(b'"b":"Secret"', b'"topic":"Secret"')
            for _ in range(2):
                assert await code_of_answer(broker, connection, forged, first) != ResponseCode.SUCCESS
        assert broker.stored_bytes == stored


async def code_of_answer(broker: MessageBroker, connection: Connection, header: bytes, code: int) -> int:
    broker.serve(frame(header, REQUESTS[code][1]), connection)
    await broker.run_tasks()
    (answer,) = received(connection)
    return answer.code
