"""Topics of histories that are deleted, and what is left of them in the end.

A deletion holds on every broker whose log has what the master's had when it answered: also after a change of roles, if
the slave knew of it or must have. What a loss of power may have taken is not looked at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio

from property_tests.cluster_exemptions import is_flushed
from property_tests.cluster_nemesis import Nemesis
from property_tests.cluster_plan import Operation, is_fault
from property_tests.cluster_record import Deletion, History, RoleChange
from property_tests.cluster_status_checks import RECOVERY_SECONDS
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
TAKEN_SECONDS = 14.0
"""Slaves take the tables of their masters every 10 s."""
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
            log = self._nemesis.brokers[master].log
            self._history.deletions.append(Deletion(topic, name, asked_at, trio.current_time(), log))
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
        """Whether a new master had not taken it, or a loss of power may have taken it."""
        changes = [each for each in self._history.changes if each.name == deletion.name]
        if not all(self._is_taken(deletion, each) for each in changes if each.at >= deletion.asked_at):
            return True
        hosts = self._history.plan.hosts_of(deletion.name)
        return any(
            loss.at >= deletion.asked_at
            and not (loss.is_power and is_flushed(self._history, loss.broker, deletion.answered_at, loss.at))
            for loss in self._history.losses
            if loss.broker in hosts
        )

    def _is_taken(self, deletion: Deletion, change: RoleChange) -> bool:
        """Whether a new master had the log of a deletion, and knew of it, or must have known."""
        if change.log.end_offset < deletion.log.end_offset or change.log.parts_from(deletion.log) is not None:
            return False
        return deletion.topic in change.deletions or self._is_calm(deletion, change.at)

    def _is_calm(self, deletion: Deletion, until: float) -> bool:
        """Whether nothing kept slaves from the master's tables for as long as they need for them."""
        if until - deletion.answered_at < TAKEN_SECONDS:
            return False
        return not any(
            is_fault(each)
            and (deletion.name in each.target or "nameserver" in each.target)
            and self._history.began_at + each.at_s < until
            and self._history.began_at + each.at_s + each.seconds + RECOVERY_SECONDS > deletion.answered_at
            for each in self._history.plan.operations
        )

    async def _ask(self, client: RemotingClient, name: str, request: RemotingCommand) -> RemotingCommand:
        address = self._nemesis.brokers[self._nemesis.roles(name)[0]].address
        return await client.request(address, request, _PATIENCE_SECONDS)
