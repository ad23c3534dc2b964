"""Topics of histories that are deleted, and what is left of them in the end.

A deletion holds on every broker whose log has come as far as the master's had when it answered: also after a change of
roles. What a loss of power may have taken is not looked at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio

from property_tests.cluster_exemptions import is_flushed
from property_tests.cluster_nemesis import Nemesis
from property_tests.cluster_plan import Operation
from property_tests.cluster_record import Deletion, History
from property_tests.group_clients import send
from rocketpy.errors import RemotingError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.group import ConsumerOffsetSerializeWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetRequestHeader, GetMaxOffsetResponseHeader
from rocketpy.protocol.headers.topic import DeleteTopicRequestHeader
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from rocketpy.testing.sim.host import SimProcess

MESSAGES = 3
GROUP = "deleters"
_PATIENCE_SECONDS = 3.0


class Deletions:
    """Makes topics, sends to them, and deletes them; looks for them in the end."""

    def __init__(self, history: History, nemesis: Nemesis) -> None:
        self._history = history
        self._nemesis = nemesis
        self._count = 0

    async def carry_out(self, operation: Operation, process: SimProcess) -> None:
        """Be the client that makes one topic, and deletes it after some seconds."""
        self._count += 1
        topic, name = f"Deleted{self._count}", operation.target
        async with open_remoting_client(network=process.network) as client:
            process.started()
            try:
                for number in range(MESSAGES):
                    await self._ask(client, name, send(b"%06d " % number, topic=topic))
                offset = UpdateConsumerOffsetRequestHeader(
                    consumer_group=GROUP, topic=topic, queue_id=0, commit_offset=MESSAGES
                )
                await self._ask(client, name, make_request(RequestCode.UPDATE_CONSUMER_OFFSET, offset))
                await trio.sleep(operation.seconds)
                asked_at = trio.current_time()
                delete = make_request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic))
                master = self._nemesis.roles(name)[0]
                answer = await self._ask(client, name, delete)
            except RemotingError as failure:
                self._history.note(f"{topic} is not deleted: {failure}")
                return
        if answer.code == ResponseCode.SUCCESS and master == self._nemesis.roles(name)[0]:
            end_offset = self._nemesis.brokers[master].log.end_offset
            self._history.deletions.append(Deletion(topic, name, asked_at, trio.current_time(), end_offset))
            self._history.note(f"{topic} was deleted on {master}")

    async def look(self, process: SimProcess) -> None:
        """Note what the masters still have of deleted topics."""
        async with open_remoting_client(network=process.network) as client:
            for deletion in self._history.deletions:
                if not self._may_be_undone(deletion):
                    for what in [each async for each in self._left(client, deletion)]:
                        self._history.undeleted.append(f"{deletion.topic}, at {deletion.answered_at:.3f}: {what}")

    # ---- private --------------------------------------------------------------------------------------------------

    async def _left(self, client: RemotingClient, deletion: Deletion) -> AsyncIterator[str]:
        for queue_id in range(MESSAGES):
            header = GetMaxOffsetRequestHeader(topic=deletion.topic, queue_id=queue_id)
            request = make_request(RequestCode.GET_MAX_OFFSET, header)
            answer = await self._ask(client, deletion.name, request)
            if answer.code == ResponseCode.SUCCESS:
                end = read_header(answer, GetMaxOffsetResponseHeader).offset
                if end > 0:
                    yield f"queue {queue_id} ends at {end}"
        answer = await self._ask(client, deletion.name, make_request(RequestCode.GET_ALL_CONSUMER_OFFSET))
        table = decode_body(answer.body or b"", ConsumerOffsetSerializeWrapper).offset_table
        if f"{deletion.topic}@{GROUP}" in table:
            yield f"{GROUP} has {table[f'{deletion.topic}@{GROUP}']}"

    def _may_be_undone(self, deletion: Deletion) -> bool:
        """Whether a new master's log had not come as far, or a loss of power may have taken it."""
        changes = [each for each in self._history.changes if each.name == deletion.name]
        if any(each.at >= deletion.asked_at and each.log.end_offset < deletion.log_end for each in changes):
            return True
        hosts = self._history.plan.hosts_of(deletion.name)
        return any(
            loss.at >= deletion.asked_at
            and not (loss.is_power and is_flushed(self._history, loss.broker, deletion.answered_at, loss.at))
            for loss in self._history.losses
            if loss.broker in hosts
        )

    async def _ask(self, client: RemotingClient, name: str, request: RemotingCommand) -> RemotingCommand:
        address = self._nemesis.brokers[self._nemesis.roles(name)[0]].address
        return await client.request(address, request, _PATIENCE_SECONDS)
