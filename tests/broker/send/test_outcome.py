"""When a producer is answered: at once, after the flush, or never; and that every message is flushed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest

from rocketpy.broker.send.answers import Receipt, SendAnswers
from rocketpy.broker.send.outcome import SendOutcome
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus, StoredCallback
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import STORE_HOST, MessageBroker, open_message_broker

RECEIPT = Receipt(7, SerializeType.JSON, "ID", 1, 2)
OK, TIMEOUT = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_DISK_TIMEOUT


@attrs.define
class Disk:
    """A fake store with what SendOutcome uses; the test calls the waiting callbacks."""

    waits_for_storing: bool
    wrote_offset: int = 100
    waiting: list[tuple[int, StoredCallback]] = attrs.field(factory=list)
    flush_count: int = 0

    def wait_stored(self, end: int, callback: StoredCallback) -> None:
        self.waiting.append((end, callback))

    def flush_soon(self) -> None:
        self.flush_count += 1

    def writable_or_why(self) -> str | None:
        return "the disk is full"

    def stores(self, status: PutMessageStatus = OK) -> None:
        waiting, self.waiting = self.waiting, []
        for _, callback in waiting:
            callback(status)


def outcome_over(disk: Disk) -> SendOutcome:
    answers = SendAnswers(region_id="R", trace_on=True, store_host=STORE_HOST, message_size_max=10)
    store: MessageStore = disk  # type: ignore[assignment]
    return SendOutcome(store=store, answers=answers)


@pytest.fixture
async def broker() -> AsyncIterator[MessageBroker]:
    async with open_message_broker() as broker:
        yield broker


def codes(connection: Connection) -> list[int]:
    return [answer.code for answer in received(connection)]


async def test_without_sync_flush_the_answer_comes_at_once(broker: MessageBroker) -> None:
    disk, connection = Disk(waits_for_storing=False), broker.connect()
    outcome_over(disk).stored(connection, RECEIPT, oneway=False, wait=None)
    assert codes(connection) == [ResponseCode.SUCCESS]
    outcome_over(disk).stored(connection, RECEIPT, oneway=True, wait=None)
    assert codes(connection) == []
    assert disk.waiting == []


@pytest.mark.parametrize(("status", "code"), [(OK, 0), (TIMEOUT, ResponseCode.FLUSH_DISK_TIMEOUT)])
async def test_under_sync_flush_it_comes_with_the_disks(
    broker: MessageBroker, status: PutMessageStatus, code: int
) -> None:
    disk, connection = Disk(waits_for_storing=True), broker.connect()
    outcome_over(disk).stored(connection, RECEIPT, oneway=False, wait="true")
    assert (codes(connection), connection.deferred_count) == ([], 1)
    disk.stores(status)
    assert (codes(connection), connection.deferred_count) == ([code], 0)


@pytest.mark.parametrize(("oneway", "wait", "answers"), [(True, None, []), (False, "false", [0])])
async def test_who_does_not_wait_is_flushed_all_the_same(
    broker: MessageBroker, oneway: bool, wait: str | None, answers: list[int]
) -> None:
    disk, connection = Disk(waits_for_storing=True), broker.connect()
    outcome = outcome_over(disk)
    outcome.stored(connection, RECEIPT, oneway=oneway, wait=wait)
    assert codes(connection) == answers
    assert (disk.waiting, disk.flush_count) == ([], 1)


async def test_a_peer_that_waits_too_often_is_refused(broker: MessageBroker) -> None:
    connection = broker.connect(limits=ConnectionLimits(deferred_replies_max=1))
    outcome = outcome_over(Disk(waits_for_storing=True))
    outcome.check_may_wait(connection, oneway=False)
    outcome.stored(connection, RECEIPT, oneway=False, wait=None)
    outcome.check_may_wait(connection, oneway=True)
    with pytest.raises(RequestError, match="too many sends wait for the disk") as refusal:
        outcome.check_may_wait(connection, oneway=False)
    assert refusal.value.response_code == ResponseCode.SYSTEM_BUSY
    outcome_over(Disk(waits_for_storing=False)).check_may_wait(connection, oneway=False)


def test_what_is_not_stored_says_why() -> None:
    request = RemotingCommand(code=10, opaque=9)
    outcome = outcome_over(Disk(waits_for_storing=True))
    answer = outcome.not_stored(request, PutMessageStatus.SERVICE_NOT_AVAILABLE, b"body", b"")
    assert (answer.code, answer.opaque) == (ResponseCode.SERVICE_NOT_AVAILABLE, 9)
    assert answer.remark == "service not available now: the disk is full"
