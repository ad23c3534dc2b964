"""Progress of consumer groups in histories: consumers that note what they commit, operators that set groups back, and
an observer that asks every broker what it has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import attrs
import trio

from property_tests.cluster_record import Commit, History, Offsets
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.config import PullConfig
from rocketpy.client.consumer.pull_consumer import PullConsumer, pull_consumer_role
from rocketpy.client.instance import ClientInstance, open_client_instance, read_response
from rocketpy.errors import RemotingError, RocketpyError
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.group import ConsumerOffsetSerializeWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.offset import (
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketpy.protocol.headers.queue_bounds import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from rocketpy.testing.cluster_world import ClusterWorld, SimBroker, environment_of
from rocketpy.testing.sim.host import SimProcess

TOPIC = "T"
QUEUES_OF_BROKER = 2
OBSERVED_EVERY_SECONDS = 3.0
_PATIENCE_SECONDS = 2.0


@attrs.frozen
class RecordedCommits:
    """Stands for the commits of a consumer: they are in the history, with the broker that was asked."""

    instance: ClientInstance
    group: str
    history: History
    names: Mapping[str, str]
    """The hosts of brokers by their addresses."""

    async def commit(self, queue: MessageQueue, consumer_offset: int) -> None:
        """As the product's consumer does."""
        commit = Commit(self.group, (queue.broker_name, queue.queue_id), consumer_offset, trio.current_time())
        address = await self.instance.routes.offset_address(queue)
        try:
            await _commit(self.instance, commit, address, self.names[address], self.history.commits)
        except RemotingError:
            self.instance.request_route_refresh()
            raise


@asynccontextmanager
async def open_recorded_consumer(
    world: ClusterWorld, history: History, process: SimProcess, *, group: str
) -> AsyncIterator[tuple[PullConsumer, ClientInstance]]:
    """Open a consumer of a group; yield it and what it asks through."""
    config = ClientConfig(name_servers=world.name_servers)
    async with (
        open_client_instance(config, environment=environment_of(process)) as instance,
        pull_consumer_role(instance, group, (), PullConfig()) as consumer,
    ):
        recorded = RecordedCommits(instance, group, history, _names(world))
        consumer.commit = recorded.commit  # type: ignore[method-assign]
        yield consumer, instance


async def set_back(world: ClusterWorld, history: History, group: str, back_ms: int, process: SimProcess) -> None:
    """Set a group back to what was stored some time ago, in each queue whose master answers, as an operator does."""
    config = ClientConfig(name_servers=world.name_servers)
    async with open_client_instance(config, environment=environment_of(process)) as instance:
        try:
            queues = await instance.routes.publish_queues(TOPIC)
        except RocketpyError as failure:
            history.note(f"{group} is not set back: {failure}")
            return
        timestamp_ms = process.clock.timestamp_ms() - back_ms
        for queue in queues:
            try:
                await _set_back_queue(world, history, instance, group, queue, timestamp_ms)
            except RocketpyError as failure:
                history.note(f"{group} is not set back in {queue.broker_name} queue {queue.queue_id}: {failure}")


class Observer:
    """Asks brokers for the offsets that they have, over links that no fault hits."""

    def __init__(self, history: History, brokers: Mapping[str, SimBroker]) -> None:
        self._history = history
        self._brokers = brokers
        self._client: RemotingClient | None = None

    async def run(self, process: SimProcess) -> None:
        """Ask all brokers again and again."""
        async with open_remoting_client(network=process.network) as self._client:
            process.started()
            while True:
                await trio.sleep(OBSERVED_EVERY_SECONDS)
                async with trio.open_nursery() as nursery:
                    for name, broker in self._brokers.items():
                        if broker.host.is_running:
                            nursery.start_soon(self.look, name)

    async def look_at_started(self, name: str) -> None:
        """Note which offsets a broker has that has just been started, and where its queues end, if it answers."""
        assert self._client is not None
        ends: dict[int, int] = {}
        for queue_id in range(QUEUES_OF_BROKER):
            header = GetMaxOffsetRequestHeader(topic=TOPIC, queue_id=queue_id)
            request = make_request(RequestCode.GET_MAX_OFFSET, header)
            with suppress(RemotingError):
                answer = await self._client.request(self._brokers[name].address, request, _PATIENCE_SECONDS)
                ends[queue_id] = read_response(answer, GetMaxOffsetResponseHeader).offset
        await self.look(name, ends)

    async def look(self, name: str, ends: dict[int, int] | None = None) -> None:
        """Note which offsets a broker has, if it answers."""
        assert self._client is not None
        asked_at, address = trio.current_time(), self._brokers[name].address
        request = make_request(RequestCode.GET_ALL_CONSUMER_OFFSET)
        try:
            answer = await self._client.request(address, request, _PATIENCE_SECONDS)
        except RemotingError:
            return
        if answer.code != ResponseCode.SUCCESS:
            return
        table = decode_body(answer.body or b"", ConsumerOffsetSerializeWrapper).offset_table
        of_queues = {
            (key.removeprefix(f"{TOPIC}@"), queue_id): offset
            for key, offsets in table.items()
            if key.startswith(f"{TOPIC}@")
            for queue_id, offset in offsets.items()
        }
        self._history.offsets.append(Offsets(name, asked_at, trio.current_time(), of_queues, ends or {}))


# ---- private --------------------------------------------------------------------------------------------------------


def _names(world: ClusterWorld) -> dict[str, str]:
    return {broker.address: name for name, broker in world.brokers.items()}


async def _commit(instance: ClientInstance, commit: Commit, address: str, name: str, commits: list[Commit]) -> None:
    commit.broker = name
    commits.append(commit)
    header = UpdateConsumerOffsetRequestHeader(
        consumer_group=commit.group,
        topic=TOPIC,
        queue_id=commit.queue[1],
        commit_offset=commit.consumer_offset,
    )
    await instance.request(address, make_request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
    commit.answered_at = trio.current_time()


async def _set_back_queue(
    world: ClusterWorld,
    history: History,
    instance: ClientInstance,
    group: str,
    queue: MessageQueue,
    timestamp_ms: int,
) -> None:
    """Never forward: the group would miss messages."""
    address = await instance.routes.publish_address(queue)
    query = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=TOPIC, queue_id=queue.queue_id)
    answer = await instance.request(address, make_request(RequestCode.QUERY_CONSUMER_OFFSET, query))
    current = read_response(answer, QueryConsumerOffsetResponseHeader).offset
    search = SearchOffsetRequestHeader(topic=TOPIC, queue_id=queue.queue_id, timestamp=timestamp_ms)
    answer = await instance.request(address, make_request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search))
    found = read_response(answer, SearchOffsetResponseHeader).offset
    if found < current:
        place = (queue.broker_name, queue.queue_id)
        reset = Commit(group, place, found, trio.current_time(), is_reset=True)
        await _commit(instance, reset, address, _names(world)[address], history.commits)
        history.note(f"    {reset}, from {current}")
