"""A dishonest client of histories: every promise must hold beside it.

It knows everything: where the logs end, what records look like, which transactions there are. On the replication port
it reports what it cannot have; in bodies it sends what looks like records, and then names their offsets; in flags and
properties it says what only a broker may say. It does not play a slave that receives the log and lies about having
it: nothing on the wire tells such a one from an honest slave.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import trio

from property_tests.cluster_plan import LIAR
from property_tests.cluster_record import History, Sent, body_of
from property_tests.group_clients import send
from rocketpy.client.results import SendStatus
from rocketpy.errors import RemotingError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.query import ViewMessageRequestHeader
from rocketpy.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    EndTransactionRequestHeader,
    SendMessageResponseHeader,
)
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.properties import encode_properties
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from rocketpy.store.ha.protocol import encode_report
from rocketpy.testing.cluster_world import SimBroker
from rocketpy.testing.sim.host import SimProcess
from tests.forged_record import HEAD_SIZE, body_posing_as_record

TOPIC, OWN_TOPIC, GROUP = "T", "Mine", "P"
_FORGED_NUMBERS_FROM = 900_000
_FAR = 1 << 40
_PATIENCE_SECONDS = 3.0
_STATUSES = {int(status.value): status for status in SendStatus}


class Liar:
    """Its orders, and what it does."""

    def __init__(self, history: History, master_of: Callable[[str], SimBroker]) -> None:
        """``master_of`` has the broker that is the master of a name."""
        self._history = history
        self._master_of = master_of
        self._give, self._orders = trio.open_memory_channel[tuple[str, str, float]](math.inf)

    def lie(self, name: str, lie: str, seconds: float) -> None:
        """Order a lie to the master of a name; ``seconds`` is how long a false slave stays."""
        self._give.send_nowait((name, lie, seconds))

    async def run(self, process: SimProcess) -> None:
        """Carry out the orders."""
        async with open_remoting_client(network=process.network) as client, trio.open_nursery() as nursery:
            process.started()
            async for name, lie, seconds in self._orders:
                broker = self._master_of(name)
                try:
                    if lie == "record":
                        await self._forge_record(client, broker)
                    elif lie == "flags":
                        await self._send_with_flags(client, name, broker)
                    else:
                        nursery.start_soon(self._report, process, broker, lie, seconds)
                except RemotingError as failure:
                    self._history.note(f"{LIAR}: {failure}")

    # ---- private --------------------------------------------------------------------------------------------------

    async def _report(self, process: SimProcess, broker: SimBroker, lie: str, seconds: float) -> None:
        end_offset = broker.log.end_offset
        reports = {
            "ahead": [end_offset + _FAR],
            "ahead later": [end_offset, end_offset + _FAR],
            "nonsense": [-1, process.randomness.getrandbits(62)],
        }[lie]
        with trio.move_on_after(seconds):
            try:
                stream = await process.network.connect(f"{broker.host.address}:{broker.settings.store.ha_listen_port}")
            except RemotingError:
                return
            async with stream:
                try:
                    for report in reports:
                        await stream.send_all(encode_report(report))
                        await trio.sleep(0.1)
                    while await stream.receive_some():
                        pass
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return

    async def _forge_record(self, client: RemotingClient, broker: SimBroker) -> None:
        """Send bodies that hold a message of the topic and a half message, and name these by their offsets."""
        number = _FORGED_NUMBERS_FROM + len(self._history.sent)
        for topic in (TOPIC, TRANS_HALF_TOPIC):
            body, _ = body_posing_as_record(
                broker.log.end_offset,
                topic=topic,
                body=body_of(number),
                properties={"REAL_TOPIC": TOPIC, "PGROUP": GROUP, "RETRY_TOPIC": TOPIC},
            )
            answer = await self._ask(client, broker, send(body, topic=OWN_TOPIC))
            if answer.code not in _STATUSES:
                continue
            header = read_header(answer, SendMessageResponseHeader)
            inner_offset = decode_offset_msg_id(header.msg_id)[1] + HEAD_SIZE
            for request in _requests_about(inner_offset):
                answer = await self._ask(client, broker, request)
                if answer.code == ResponseCode.SUCCESS:
                    self._history.lies.append(f"{broker.name} accepted {request} about bytes of a body")

    async def _send_with_flags(self, client: RemotingClient, name: str, broker: SimBroker) -> None:
        """Send a message of its own that says it is the commit of an honest transaction: one like any other."""
        halves = [each for each in self._history.sent if each.transaction and each.broker == name]
        victim = halves[-1] if halves else Sent(0, LIAR, 0.0)
        properties = {
            "UNIQ_KEY": f"K{victim.number}",
            "TRAN_PREPARED_QUEUE_OFFSET": str(victim.queue_offset),
            "TRANSACTION_CHECK_TIMES": "99",
            "REAL_TOPIC": "Elsewhere",
            "REAL_QID": "7",
            "RECONSUME_TIME": "99",
        }
        sent = Sent(len(self._history.sent), LIAR, trio.current_time())
        self._history.sent.append(sent)
        request = send(
            body_of(sent.number),
            topic=TOPIC,
            sys_flag=TRANSACTION_COMMIT_TYPE,
            properties=encode_properties(properties),
        )
        answer = await self._ask(client, broker, request)
        sent.answered_at = trio.current_time()
        if answer.code in _STATUSES:
            header = read_header(answer, SendMessageResponseHeader)
            sent.status, sent.broker, sent.queue = _STATUSES[answer.code], name, (name, header.queue_id)
            sent.queue_offset = header.queue_offset
            sent.physical_offset = decode_offset_msg_id(header.msg_id)[1]
        self._history.note(str(sent))

    async def _ask(self, client: RemotingClient, broker: SimBroker, request: RemotingCommand) -> RemotingCommand:
        return await client.request(broker.address, request, _PATIENCE_SECONDS)


def _requests_about(physical_offset: int) -> list[RemotingCommand]:
    end = EndTransactionRequestHeader(
        producer_group=GROUP,
        tran_state_table_offset=0,
        commit_log_offset=physical_offset,
        commit_or_rollback=TRANSACTION_COMMIT_TYPE,
        from_transaction_check=True,
        msg_id="K",
    )
    back = ConsumerSendMsgBackRequestHeader(
        offset=physical_offset, group="consumer-0", delay_level=1, origin_topic=TOPIC, max_reconsume_times=16
    )
    return [
        make_request(RequestCode.END_TRANSACTION, end),
        make_request(RequestCode.CONSUMER_SEND_MSG_BACK, back),
        make_request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=physical_offset)),
    ]
