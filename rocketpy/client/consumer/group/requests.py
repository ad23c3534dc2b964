"""Requests about a consumer group: who its members are, and the locks of orderly consumers.

Compatibility: ``MQClientAPIImpl`` (4.9.8). A broker that does not answer who the members are is
not the last to be asked: another of the topic's is. Java's members believe a broker that was just restarted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from random import Random

from rocketpy.client.instance import ClientInstance
from rocketpy.client.states import StateSubject
from rocketpy.errors import RocketpyError
from rocketpy.protocol.bodies.codec import decode_peer_body, encode_body
from rocketpy.protocol.bodies.group import GetConsumerListByGroupResponseBody
from rocketpy.protocol.bodies.lock import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.client import GetConsumerListByGroupRequestHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.remoting.connection import Connection

LOCK_SECONDS = 1.0

_log = logging.getLogger("rocketpy.client")


class GroupRequests:
    """The requests of one member of a group."""

    def __init__(self, *, instance: ClientInstance, group: str, randomness: Random) -> None:
        self._instance = instance
        self._group = group
        self._randomness = randomness

    async def member_ids(self, topic: str) -> list[str] | None:
        """Return the sorted client ids of the group, None when no broker of the topic says who they are.

        One that has just come back is not asked: its members come back too, and would have queues taken from them.
        """
        addresses = self._instance.routes.table.addresses_of_topic(topic)
        addresses = [each for each in addresses if not self._instance.reconnects.is_settling(each)]
        self._randomness.shuffle(addresses)
        request = GetConsumerListByGroupRequestHeader(self._group)
        states, name, failed = self._instance.states, f"{self._group} at {topic}", None
        for address in addresses:
            try:
                response = await self._instance.request(
                    address, make_request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, request)
                )
                ids = await self._instance.answers.decoded(response.body, _ids_in, address)
            except RocketpyError as failure:
                failed = failure
                continue
            if ids:
                states.works(StateSubject.MEMBERS, name)
                return ids
        if failed is not None:
            states.fails(StateSubject.MEMBERS, name, failed)
        return None

    async def master_address(self, queue: MessageQueue) -> str:
        """Return the address of a queue's master; NoBrokerError when there is none."""
        return await self._instance.routes.publish_address(queue)

    async def connect(self, address: str) -> Connection:
        """Return the connection to a broker, opened within a second if need be."""
        return await self._instance.remoting.connect(address, LOCK_SECONDS)

    async def lock(self, address: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Lock queues at their master; return those that this member holds now. Waits a second for the answer."""
        body = encode_body(LockBatchRequestBody(self._group, self._instance.client_id, list(queues)))
        states, name = self._instance.states, f"{self._group} at {address}"
        try:
            response = await self._instance.request(
                address, make_request(RequestCode.LOCK_BATCH_MQ, body=body), timeout_s=LOCK_SECONDS
            )
            answer = await self._instance.answers.body(response, LockBatchResponseBody, address)
        except RocketpyError as failure:
            states.fails(StateSubject.LOCKS, name, failure)
            raise
        states.works(StateSubject.LOCKS, name)
        return set(answer.lock_ok_mq_set)

    async def unlock(self, address: str, queues: Collection[MessageQueue]) -> None:
        """Give locks back to their master. Waits a second for the answer."""
        body = encode_body(UnlockBatchRequestBody(self._group, self._instance.client_id, list(queues)))
        try:
            await self._instance.request(
                address, make_request(RequestCode.UNLOCK_BATCH_MQ, body=body), timeout_s=LOCK_SECONDS
            )
        except RocketpyError as failure:  # it releases them when they are not renewed
            _log.info("releasing the locks of group %s without an answer: %s", self._group, failure)
            raise


def _ids_in(body: bytes) -> list[str]:
    return sorted(decode_peer_body(body, GetConsumerListByGroupResponseBody).consumer_id_list)
