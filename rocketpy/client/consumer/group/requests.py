"""Requests about a consumer group: who its members are, and the locks of orderly consumers.

Compatibility: ``MQClientAPIImpl`` and ``RebalanceImpl`` (4.9.8). A broker that does not answer who the members are is
not the last to be asked: another of the topic's is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random

import trio

from rocketpy.client.instance import ClientInstance
from rocketpy.errors import RocketpyError
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.group import GetConsumerListByGroupResponseBody
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.client import GetConsumerListByGroupRequestHeader
from rocketpy.protocol.message import MessageQueue

LOCK_SECONDS = 1.0


class GroupRequests:
    """The requests of one member of a group."""

    def __init__(self, *, instance: ClientInstance, group: str, randomness: Random) -> None:
        self._instance = instance
        self._group = group
        self._randomness = randomness

    async def member_ids(self, topic: str) -> list[str] | None:
        """Return the sorted client ids of the group, None when no broker of the topic says who they are."""
        addresses = self._instance.routes.table.addresses_of_topic(topic)
        self._randomness.shuffle(addresses)
        request = GetConsumerListByGroupRequestHeader(self._group)
        for address in addresses:
            try:
                response = await self._instance.request(
                    address, make_request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, request)
                )
                ids = decode_body(response.body, GetConsumerListByGroupResponseBody).consumer_id_list
            except RocketpyError:
                continue
            if ids:
                return sorted(ids)
        return None

    async def lock(self, queues: Collection[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Lock queues at their masters; return those that are locked now, and those whose broker said no.

        The others are unknown: their broker did not answer within a second.
        """
        locked: set[MessageQueue] = set()
        refused: set[MessageQueue] = set()
        async with trio.open_nursery() as nursery:
            for broker_queues in _by_broker(queues):
                nursery.start_soon(self._lock, broker_queues, locked, refused)
        return locked, refused

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Give locks back, and wait for the answers; a broker that does not answer lets them expire."""
        async with trio.open_nursery() as nursery:
            for broker_queues in _by_broker(queues):
                nursery.start_soon(self._unlock, broker_queues)

    async def _lock(self, queues: list[MessageQueue], locked: set[MessageQueue], refused: set[MessageQueue]) -> None:
        body = encode_body(LockBatchRequestBody(self._group, self._instance.client_id, queues))
        try:
            address = await self._instance.routes.publish_address(queues[0])
            response = await self._instance.request(
                address, make_request(RequestCode.LOCK_BATCH_MQ, body=body), timeout_s=LOCK_SECONDS
            )
            held = set(decode_body(response.body, LockBatchResponseBody).lock_ok_mq_set)
        except RocketpyError:
            return
        locked |= held.intersection(queues)
        refused |= set(queues) - held

    async def _unlock(self, queues: list[MessageQueue]) -> None:
        body = encode_body(UnlockBatchRequestBody(self._group, self._instance.client_id, queues))
        try:
            address = await self._instance.routes.publish_address(queues[0])
            await self._instance.request(
                address, make_request(RequestCode.UNLOCK_BATCH_MQ, body=body), timeout_s=LOCK_SECONDS
            )
        except RocketpyError:
            return


def _by_broker(queues: Iterable[MessageQueue]) -> list[list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return list(found.values())
