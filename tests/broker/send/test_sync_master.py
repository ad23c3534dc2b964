"""What a SYNC_MASTER answers to each kind of request that stores, over frames; slaves are played by the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE, TRANSACTION_PREPARED_TYPE, TRANSACTION_ROLLBACK_TYPE
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.remoting.connection import Connection
from rocketpy.store.config import BrokerRole, FlushDiskType
from rocketpy.store.message_store import MessageStore
from tests.broker.broker_on_bytes import received
from tests.broker.delay.delayed import TrioWallClock, open_delayed
from tests.broker.message_broker import MessageBroker, open_message_broker, send
from tests.broker.send.test_batch import item, send_batch
from tests.broker.send.test_long_batch import LONG
from tests.broker.send.test_request_reply import ask, reply, requester
from tests.broker.send.test_send_back import send_back
from tests.broker.transaction.transaction_broker import end_request, open_transaction_broker
from tests.store.ha.slave_peer import SlavePeer
from tests.store.ha.sync_master import slave_of

Jumping = trio.testing.MockClock
OK, NONE, TIMEOUT = ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT
SYNC_MASTER = {"broker_role": BrokerRole.SYNC_MASTER, "max_message_size": 1 << 18}
V1 = RequestCode.SEND_MESSAGE
PREPARED = TRANSACTION_PREPARED_TYPE
EXACT_S = 0.02


@attrs.define
class Slave:
    """A slave that has the whole log, and what it is to do with the rest."""

    peer: SlavePeer
    store: MessageStore
    begin: int

    async def store_all(self) -> None:
        """Receive the log to its end, and acknowledge it."""
        end = self.store.max_physical_offset
        await self.peer.receive(end - self.begin)
        await self.peer.report(end)
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def a_slave_of(store: MessageStore) -> AsyncIterator[Slave]:
    async with trio.open_nursery() as nursery:
        begin = store.max_physical_offset
        yield Slave(await slave_of(store, nursery), store, begin)
        nursery.cancel_scope.cancel()


def codes(connection: Connection) -> list[int]:
    return [answer.code for answer in received(connection)]


WAITS: dict[str, Callable[[], RemotingCommand]] = {
    "the fast path": send,
    "a header of version 1": lambda: send(code=V1),
    "a binary header": lambda: send(serialize_type=SerializeType.ROCKETMQ),
    "the general path": lambda: send(properties="UNIQ_KEY\x010A\x02WAIT\x01true\x02TRACE_ON\x01false"),
    "no word of waiting": lambda: send(properties="UNIQ_KEY\x010A"),
    "a delayed message": lambda: send(properties="UNIQ_KEY\x010A\x02WAIT\x01true\x02DELAY\x013"),
    "a half message": lambda: send(properties="UNIQ_KEY\x010A\x02TRAN_MSG\x01true\x02PGROUP\x01P", sys_flag=PREPARED),
    "a batch": lambda: send_batch(item(b"1", b"") * 3),
    "a long batch": lambda: send_batch(LONG),
}
DOES_NOT_WAIT: dict[str, Callable[[], RemotingCommand]] = {
    "a message": lambda: send(properties="UNIQ_KEY\x010A\x02WAIT\x01false"),
    "a message of version 1": lambda: send(code=V1, properties="UNIQ_KEY\x010A\x02WAIT\x01false"),
    "a batch": lambda: send_batch(item(b"1", b"") * 3, "WAIT\x01false"),
    "a send-back": send_back,
}
NEVER_ANSWERED: dict[str, Callable[[], RemotingCommand]] = {
    "a message": lambda: send(oneway=True),
    "a message of version 1": lambda: send(code=V1, oneway=True),
    "a batch": lambda: send_batch(item(b"1", b"") * 3, oneway=True),
    "a send-back": lambda: send_back(oneway=True),
}


@pytest.mark.parametrize("request_of", WAITS.values(), ids=WAITS)
async def test_the_code_of_a_stored_message_says_what_its_slave_did(
    request_of: Callable[[], RemotingCommand], autojump_clock: Jumping
) -> None:
    async with open_message_broker(store=SYNC_MASTER) as broker:
        connection = broker.connect()
        assert [answer.code for answer in await broker.ask_all(request_of(), connection)] == [NONE]
        async with a_slave_of(broker.store) as slave:
            assert await broker.ask_all(request_of(), connection) == []
            assert connection.deferred_count == 1
            await slave.store_all()
            (answer,) = received(connection)
            assert (answer.code, answer.remark) == (OK, None)
            began = trio.current_time()
            assert await broker.ask_all(request_of(), connection) == []
            await trio.sleep(3 - EXACT_S)
            assert codes(connection) == []
            await trio.sleep(2 * EXACT_S)
            (late,) = received(connection)
            assert (late.code, late.remark) == (TIMEOUT, None)
            assert trio.current_time() - began <= 3 + EXACT_S
            assert (late.ext_fields or {}).keys() == (answer.ext_fields or {}).keys()
        await broker.settle()
        assert [each.code for each in await broker.ask_all(request_of(), connection)] == [NONE], "it has gone"
        assert connection.deferred_count == 0


@pytest.mark.parametrize("request_of", DOES_NOT_WAIT.values(), ids=DOES_NOT_WAIT)
async def test_who_does_not_wait_is_answered_at_once(
    request_of: Callable[[], RemotingCommand], autojump_clock: Jumping
) -> None:
    async with open_message_broker(store=SYNC_MASTER) as broker:
        await broker.ask(send())
        connection = broker.connect()
        assert (await broker.ask(request_of(), connection)).code == OK
        async with a_slave_of(broker.store):
            assert (await broker.ask(request_of(), connection)).code == OK
            assert connection.deferred_count == 0


@pytest.mark.parametrize("request_of", NEVER_ANSWERED.values(), ids=NEVER_ANSWERED)
async def test_a_oneway_request_is_stored_and_never_answered(
    request_of: Callable[[], RemotingCommand], autojump_clock: Jumping
) -> None:
    async with open_message_broker(store=SYNC_MASTER) as broker:
        await broker.ask(send())
        async with a_slave_of(broker.store) as slave:
            connection, before = broker.connect(), broker.stored_bytes
            assert await broker.ask_all(request_of(), connection) == []
            assert broker.stored_bytes > before
            assert connection.deferred_count == 0
            await slave.store_all()
            await trio.sleep(5)
            assert codes(connection) == []


@pytest.mark.parametrize(("wait", "waits"), [("true", True), ("false", False)])
async def test_a_reply_is_answered_after_its_copy_is_stored(wait: str, waits: bool, autojump_clock: Jumping) -> None:
    """With SUCCESS, whatever the slave does: the code says whether the requester got it."""
    properties = f"REPLY_TO_CLIENT\x01c1\x02CORRELATION_ID\x01x\x02WAIT\x01{wait}"
    async with open_message_broker(store=SYNC_MASTER) as broker:
        began = trio.current_time()
        answer, _ = await ask(broker, reply(properties=properties), requester(broker))
        assert (answer.code, trio.current_time()) == (OK, began), "no slave is waited for, nor the timer"
        async with a_slave_of(broker.store):
            answer, _ = await ask(broker, reply(properties=properties), requester(broker))
            assert answer.code == OK
            assert trio.current_time() - began == pytest.approx(3 if waits else 0, abs=EXACT_S)


@pytest.mark.parametrize("how", [TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE])
async def test_the_end_of_a_transaction_succeeds_whatever_its_slave_does(how: int, autojump_clock: Jumping) -> None:
    async with open_transaction_broker(store=SYNC_MASTER) as broker:
        connection = broker.connect()

        def ends(half: object, *, oneway: bool = False) -> None:
            connection.receive(encode_frame(end_request(half, how, oneway=oneway)))  # type: ignore[arg-type]
            with broker.dispatcher.burst:
                connection.serve(1)

        ends(broker.half())
        assert codes(connection) == [OK], "with its burst"
        async with a_slave_of(broker.store) as slave:
            half = broker.half()
            ends(half)
            assert codes(connection) == []
            await slave.store_all()
            assert codes(connection) == [OK]
            ends(half)
            assert codes(connection) == [OK], "it has ended before, and the slave has that"
            began = trio.current_time()
            ends(broker.half())
            while connection.deferred_count:
                await trio.sleep(0.001)
            assert codes(connection) == [OK]
            assert trio.current_time() - began == pytest.approx(3, abs=EXACT_S)
            ends(broker.half(), oneway=True)
            await slave.store_all()
            assert (codes(connection), connection.deferred_count) == ([], 0)


async def test_a_delivery_does_not_wait_for_slaves(autojump_clock: Jumping) -> None:
    """Each level goes on at once: its copies have WAIT=false."""
    role = BrokerRole.SYNC_MASTER
    async with (
        open_delayed(clock=TrioWallClock(), levels="1s", broker_role=role) as delayed,
        a_slave_of(delayed.store) as slave,
    ):
        for _ in range(3):
            delayed.send(1, b"a")
        await trio.sleep(1.1)
        assert delayed.bodies() == [b"a"] * 3
        assert delayed.at_s() == [1.0] * 3
        await slave.store_all()
        assert delayed.store.max_offset_in_queue(SCHEDULE_TOPIC, 0) == 3


# ---- bursts ---------------------------------------------------------------------------------------------------------


@attrs.define
class Sends:
    """What the broker has written each time that it sends."""

    broker: MessageBroker
    seen: list[tuple[bool, list[int]]] = attrs.Factory(list)
    """Whether all that was put was written, and the codes of the answers."""

    def __attrs_post_init__(self) -> None:
        self.broker.transport.flush = self.flush  # type: ignore[method-assign]

    def flush(self, connection: Connection) -> None:
        is_written = self.broker.store.max_physical_offset == self.broker.store.wrote_offset
        self.seen.append((is_written, codes(connection)))


@pytest.mark.parametrize("flush_disk_type", FlushDiskType)
async def test_without_a_slave_a_burst_is_answered_in_one_send_after_it_is_written(
    flush_disk_type: FlushDiskType, autojump_clock: Jumping
) -> None:
    store = SYNC_MASTER | {"flush_disk_type": flush_disk_type}
    async with open_message_broker(store=store) as broker:
        sends, connection = Sends(broker), broker.connect()
        requests = [send(), send(code=V1), send_batch(item(b"1", b"")), send(properties="WAIT\x01false")]
        connection.receive(b"".join(map(encode_frame, requests)))
        with broker.dispatcher.burst:
            connection.serve(10)
            assert broker.store.max_physical_offset == 0
        if flush_disk_type is FlushDiskType.ASYNC_FLUSH:
            assert [(is_written, sorted(found)) for is_written, found in sends.seen] == [(True, [OK, NONE, NONE, NONE])]
        else:
            assert sends.seen == [(True, [OK])], "the others wait for the disk as well"
            await broker.settle()
            assert sends.seen[1:] == [(True, [NONE] * 3)]
        assert broker.send_path.taken == [True, False]


async def test_a_report_is_answered_in_one_send_for_each_connection(autojump_clock: Jumping) -> None:
    async with open_message_broker(store=SYNC_MASTER) as broker, a_slave_of(broker.store) as slave:
        sends = Sends(broker)
        connections = [broker.connect(), broker.connect()]
        with broker.dispatcher.burst:
            for connection in connections:
                connection.receive(encode_frame(send()) * 5)
                connection.serve(10)
        assert sends.seen == []
        await slave.store_all()
        assert sends.seen == [(True, [OK] * 5)] * 2
