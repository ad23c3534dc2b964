"""The producer of histories that has transactions.

It begins half messages, decides about each some time after it was answered, and ends it by a request of its own or only
when a broker asks. It may be killed at any time: what it has decided outlives it, as in a database, and its next
process answers the brokers.
"""

from __future__ import annotations

import math

import trio

from property_tests.cluster_plan import TRANSACTIONS, Decision
from property_tests.cluster_record import History, Sent, Transaction, body_of
from property_tests.group_clients import send
from rocketpy.client.config import ClientConfig
from rocketpy.client.instance import ClientInstance, open_client_instance
from rocketpy.client.results import SendStatus
from rocketpy.errors import RemotingError, RocketpyError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    SendMessageResponseHeader,
)
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.properties import encode_properties
from rocketpy.protocol.stored_message import decode_message
from rocketpy.protocol.sysflag import TRANSACTION_PREPARED_TYPE
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from rocketpy.remoting.connection import Connection
from rocketpy.testing.cluster_world import ClusterWorld, environment_of
from rocketpy.testing.sim.host import SimProcess

TOPIC, GROUP = "T", "P"
HEARTBEAT_SECONDS = 3.0
_ROUTES_EVERY = 3
_PATIENCE_SECONDS = 3.0
_STATUSES = {int(status.value): status for status in SendStatus}


class TransactionalProducer:
    """Its orders, and a process after the other that carries them out."""

    def __init__(self, world: ClusterWorld, history: History) -> None:
        self._world = world
        self._history = history
        self._give, self._orders = trio.open_memory_channel[Sent](math.inf)

    def begin(self, decision: Decision, decides_after_s: float, *, is_left_to_checks: bool) -> None:
        """Order a transaction."""
        sent = Sent(
            len(self._history.sent),
            TRANSACTIONS,
            trio.current_time(),
            transaction=Transaction(decision, decides_after_s, is_left_to_checks),
        )
        self._history.sent.append(sent)
        self._give.send_nowait(sent)

    async def run(self, process: SimProcess) -> None:
        """Be one process."""
        config = ClientConfig(name_servers=self._world.name_servers)
        async with (
            open_client_instance(config, environment=environment_of(process)) as instance,
            open_remoting_client(network=process.network) as client,
            trio.open_nursery() as nursery,
        ):
            life = _Life(self._history, instance, client, process)
            client.register(RequestCode.CHECK_TRANSACTION_STATE, life.answer_check)
            nursery.start_soon(life.keep_registered)
            process.started()
            async for sent in self._orders:
                nursery.start_soon(life.carry_out, sent)


class _Life:
    """One process."""

    def __init__(self, history: History, instance: ClientInstance, client: RemotingClient, process: SimProcess) -> None:
        self._history = history
        self._instance = instance
        self._client = client
        self._process = process

    async def keep_registered(self) -> None:
        """Send heartbeats to every master: only then it can be asked."""
        count = 0
        while True:
            if count % _ROUTES_EVERY == 0:
                self._instance.request_route_refresh()
            count += 1
            try:
                queues = await self._instance.routes.publish_queues(TOPIC)
                addresses = {await self._instance.routes.publish_address(queue): None for queue in queues}
            except RocketpyError:
                addresses = {}
            async with trio.open_nursery() as nursery:
                for address in addresses:
                    nursery.start_soon(self._register, address)
                await trio.sleep(HEARTBEAT_SECONDS)

    async def carry_out(self, sent: Sent) -> None:
        """Send a half message, decide, and perhaps end it."""
        assert sent.transaction is not None
        sent.asked_at = trio.current_time()
        try:
            header = await self._send_half(sent)
            sent.answered_at = trio.current_time()
            self._history.note(str(sent))
            if sent.transaction.is_left_to_checks or sent.transaction.decision is Decision.NEVER:
                return
            await trio.sleep_until(sent.transaction.decided_at)
            await self._end(sent, header)
        except RocketpyError as failure:
            self._instance.request_route_refresh()
            sent.failure = f"{type(failure).__name__}: {failure}"
            self._history.note(f"{sent}: {sent.failure}")

    def answer_check(self, connection: Connection, request: RemotingCommand) -> None:
        """Answer a broker that asks, if there is a decision."""
        header = read_header(request, CheckTransactionStateRequestHeader)
        number = int(decode_message(request.body or b"").body.split()[0])
        transaction = self._history.sent[number].transaction
        assert transaction is not None, f"#{number} is no half message"
        if transaction.decision is Decision.NEVER or transaction.decided_at > trio.current_time():
            return
        end = EndTransactionRequestHeader(
            producer_group=GROUP,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=transaction.decision.value,
            from_transaction_check=True,
            msg_id=header.msg_id,
        )
        connection.oneway(make_request(RequestCode.END_TRANSACTION, end, oneway=True))

    # ---- private --------------------------------------------------------------------------------------------------

    async def _register(self, address: str) -> None:
        body = encode_body(HeartbeatData(self._instance.client_id, [ProducerData(GROUP)], []))
        try:
            await self._client.request(address, make_request(RequestCode.HEART_BEAT, body=body), HEARTBEAT_SECONDS)
        except RemotingError:
            self._instance.request_route_refresh()

    async def _send_half(self, sent: Sent) -> EndTransactionRequestHeader:
        """Return what ends it."""
        assert sent.transaction is not None
        queues = await self._instance.routes.publish_queues(TOPIC)
        queue = queues[sent.number % len(queues)]
        properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"K{sent.number}"}
        request = send(
            body_of(sent.number),
            topic=TOPIC,
            queue_id=queue.queue_id,
            sys_flag=TRANSACTION_PREPARED_TYPE,
            born_timestamp_ms=self._process.clock.timestamp_ms(),
            properties=encode_properties(properties),
        )
        answer = await self._client.request(
            await self._instance.routes.publish_address(queue), request, _PATIENCE_SECONDS
        )
        if answer.code not in _STATUSES:
            raise RemotingError(f"{answer.code} {answer.remark}")
        header = read_header(answer, SendMessageResponseHeader)
        sent.transaction.decided_at = trio.current_time() + sent.transaction.decides_after_s
        sent.status, sent.broker = _STATUSES[answer.code], queue.broker_name
        sent.queue_offset = header.queue_offset  # of the half queue
        sent.physical_offset = decode_offset_msg_id(header.msg_id)[1]
        return EndTransactionRequestHeader(
            producer_group=GROUP,
            tran_state_table_offset=header.queue_offset,
            commit_log_offset=sent.physical_offset,
            commit_or_rollback=sent.transaction.decision.value,
            msg_id=f"K{sent.number}",
        )

    async def _end(self, sent: Sent, header: EndTransactionRequestHeader) -> None:
        assert sent.transaction is not None
        assert sent.broker is not None
        address = await self._instance.routes.publish_address(MessageQueue(TOPIC, sent.broker, 0))
        request = make_request(RequestCode.END_TRANSACTION, header)
        answer = await self._client.request(address, request, _PATIENCE_SECONDS)
        if answer.code == ResponseCode.SUCCESS:
            sent.transaction.ended_at = trio.current_time()
        self._history.note(f"{sent}: its end is answered {answer.code} {answer.remark or ''}")
