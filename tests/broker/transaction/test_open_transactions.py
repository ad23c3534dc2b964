"""The table of open transactions: what it takes for new, and in which order it gives what it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker.transaction.open_transactions import OpenTransactions
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from tests.broker.message_broker import send
from tests.broker.whole_broker import broker_settings, open_whole_broker


def opened(known_end: int = 0, **newest: int) -> OpenTransactions:
    transactions = OpenTransactions()
    transactions.load({int(origin[1:]): offset for origin, offset in newest.items()}, known_end)
    return transactions


def test_the_first_is_the_one_whose_newest_record_is_the_oldest() -> None:
    transactions = opened()
    transactions.catch_up(3)
    assert transactions.first() == (0, 0)
    transactions.renewed(0, 3)
    assert transactions.first() == (1, 1)
    transactions.ended(1)
    transactions.renewed(2, 4)
    assert transactions.first() == (0, 3)
    transactions.ended(0)
    transactions.ended(2)
    assert transactions.first() is None
    assert transactions.known_end == 5


def test_skipped_transactions_come_first_again() -> None:
    """In the old order, whatever has happened meanwhile: offsets move up to the first."""
    transactions = opened()
    transactions.catch_up(6)
    skipped = {}
    for _ in range(4):
        origin, queue_offset = transactions.first() or (-1, -1)
        skipped[origin] = queue_offset
        transactions.skip(origin)
    assert skipped == {0: 0, 1: 1, 2: 2, 3: 3}
    assert transactions.first() == (4, 4)
    transactions.renewed(4, 6)  # looked at
    transactions.renewed(2, 7)  # taken up again by an operator
    transactions.ended(1)
    transactions.restore(skipped)
    seen = []
    while (first := transactions.first()) is not None:
        seen.append(first)
        transactions.ended(first[0])
    assert seen == [(0, 0), (3, 3), (5, 5), (4, 6), (2, 7)]


def test_half_messages_that_are_not_in_the_table_yet_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.broker.transaction.open_transactions.OPEN_MAX", 5)
    transactions = opened(10, o3=3, o8=9)
    assert transactions.has_room(12)
    assert not transactions.has_room(13)
    transactions.catch_up(13)
    assert not transactions.has_room(13)
    transactions.ended(3)
    assert transactions.has_room(13)
    assert OpenTransactions().has_room(1000), "how many of an earlier run are open is not known yet"


async def test_a_broker_takes_no_half_message_while_too_many_transactions_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is kept in memory, and copied in every round, until it has been checked fifteen times."""
    monkeypatch.setattr("rocketpy.broker.transaction.open_transactions.OPEN_MAX", 3)
    async with open_whole_broker(broker_settings(tmp_path)) as whole:

        async def code_of(request: RemotingCommand) -> int:
            (answer,) = await whole.ask_frame(encode_frame(request), whole.connect())
            return answer.code

        half = send(b"x", topic="TBW102", properties="TRAN_MSG\x01true\x02PGROUP\x01p")
        codes = [await code_of(half) for _ in range(5)]
        assert codes == [ResponseCode.SUCCESS] * 3 + [ResponseCode.SYSTEM_BUSY] * 2
        assert await code_of(send(b"x", topic="TBW102")) == ResponseCode.SUCCESS
