"""Clients online: the members of producer and consumer groups, and what a single consumer says of itself.

A broker relays the questions to a consumer; they need the client id that :meth:`ClientAdmin.consumers` returns.

Compatibility: the calls of ``DefaultMQAdminExtImpl`` about connections (4.9.8).
"""

from __future__ import annotations

from rocketpy.client.admin.requests import AdminRequests
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import ClientError
from rocketpy.protocol.bodies.connection import ConsumerConnection, ProducerConnection, ProducerTableInfo
from rocketpy.protocol.bodies.offset import GetConsumerStatusBody
from rocketpy.protocol.bodies.running import ConsumerRunningInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.admin import (
    GetAllProducerInfoRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from rocketpy.protocol.headers.client import GetConsumerRunningInfoRequestHeader, GetConsumerStatusRequestHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.topic_name import RETRY_PREFIX


class ClientAdmin:
    """Clients that are online. Obtained as :attr:`AdminClient.clients`."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def consumers(self, group: str, address: str | None = None) -> ConsumerConnection:
        """Return the members of a consumer group, as a broker knows them; at random one that has the retry topic.

        BrokerError or ClientError 206 when no member is online, ClientError 17 when no broker knows the group.
        """
        asked = address or await self._requests.any_address(RETRY_PREFIX + group)
        response = await self._requests.ask_broker(
            asked, RequestCode.GET_CONSUMER_CONNECTION_LIST, GetConsumerConnectionListRequestHeader(group)
        )
        connection = await self._requests.answers.body(response, ConsumerConnection, asked)
        if not connection.connection_set:
            raise ClientError(
                ResponseCode.CONSUMER_NOT_ONLINE, f"Not found the consumer group connection: {group} at {asked}"
            )
        return connection

    async def producers(self, group: str, topic: str) -> ProducerConnection:
        """Return the members of a producer group, as one of the brokers of a topic knows them.

        BrokerError 1 or ClientError when no member is online.
        """
        asked = await self._requests.any_address(topic)
        response = await self._requests.ask_broker(
            asked, RequestCode.GET_PRODUCER_CONNECTION_LIST, GetProducerConnectionListRequestHeader(group)
        )
        connection = await self._requests.answers.body(response, ProducerConnection, asked)
        if not connection.connection_set:
            raise ClientError(UNSPECIFIED, f"Not found the producer group connection: {group} at {asked}")
        return connection

    async def all_producers(self, address: str) -> ProducerTableInfo:
        """Return the producers of one broker by group."""
        response = await self._requests.ask_broker(
            address, RequestCode.GET_ALL_PRODUCER_INFO, GetAllProducerInfoRequestHeader()
        )
        return await self._requests.answers.body(response, ProducerTableInfo, address)

    async def running_info(self, group: str, client_id: str, *, jstack: bool = False) -> ConsumerRunningInfo:
        """Return what a consumer says of itself: settings, subscriptions, queues, rates, stacks if asked for.

        BrokerError 1 when that client is not online, 207 when it does not answer in 10 s.
        """
        header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id, jstack_enable=jstack)
        address = await self._requests.first_address(RETRY_PREFIX + group)
        if address is None:
            raise ClientError(ResponseCode.CONSUMER_NOT_ONLINE, f"no broker of the group {group} has an address")
        response = await self._requests.ask_broker(
            address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, timeout_s=3 * self._requests.timeout_s
        )
        return await self._requests.answers.body(response, ConsumerRunningInfo, address)

    async def offsets(self, topic: str, group: str, client_id: str | None = None) -> dict[str, dict[MessageQueue, int]]:
        """Return the offsets that consumers have in memory, by client id and queue; of one client if it is named."""
        address = await self._requests.first_address(topic)
        if address is None:
            return {}
        header = GetConsumerStatusRequestHeader(topic=topic, group=group, client_addr=client_id)
        response = await self._requests.ask_broker(address, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
        return (await self._requests.answers.body(response, GetConsumerStatusBody, address)).consumer_table
