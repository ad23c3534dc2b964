"""Brokers: the cluster they form, their figures, settings and statistics, and the units of their queues.

Compatibility: the calls of ``DefaultMQAdminExtImpl`` about brokers (4.9.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketpy.client.admin.requests import AdminRequests
from rocketpy.client.answers import Answers
from rocketpy.errors import RemoteProtocolError, SettingsError
from rocketpy.properties_text import decode_properties_text, format_property, read_properties
from rocketpy.protocol.bodies.queue import QueryConsumeQueueResponseBody
from rocketpy.protocol.bodies.route import ClusterInfo, KVTable
from rocketpy.protocol.bodies.stats import BrokerStatsData
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.headers.admin import ViewBrokerStatsDataRequestHeader
from rocketpy.protocol.headers.query import QueryConsumeQueueRequestHeader

SETTINGS_SHOWN_BYTES_MAX = 1_048_576
"""Bound of the settings that a server shows; those of a broker have some 20 KiB."""


class BrokerAdmin:
    """Administration of brokers. Obtained as :attr:`AdminClient.brokers`."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def clusters(self) -> ClusterInfo:
        """Return clusters, brokers and their addresses."""
        return await self._requests.cluster_info()

    async def runtime_info(self, address: str) -> dict[str, str]:
        """Return the figures of a broker by name, as ``mqadmin brokerStatus`` prints them."""
        response = await self._requests.ask_broker(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return (await self._requests.answers.body(response, KVTable, address)).table

    async def config(self, address: str) -> dict[str, str]:
        """Return the settings of a broker by key."""
        response = await self._requests.ask_address(address, RequestCode.GET_BROKER_CONFIG)
        return await read_settings(self._requests.answers, response.body, address)

    async def update_config(self, address: str, settings: Mapping[str, str]) -> None:
        """Change settings of a broker, which writes them to its configuration file.

        BrokerError 16 for a key that no request may change.
        """
        await self._requests.ask_broker(address, RequestCode.UPDATE_BROKER_CONFIG, body=settings_body(settings))

    async def stats(self, address: str, name: str, key: str) -> BrokerStatsData:
        """Return a statistic of a broker over minute, hour and day, such as TOPIC_PUT_NUMS of a topic.

        BrokerError 1 when it has none of that name and key.
        """
        header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
        response = await self._requests.ask_broker(address, RequestCode.VIEW_BROKER_STATS_DATA, header)
        return await self._requests.answers.body(response, BrokerStatsData, address)

    async def consume_queue(
        self, address: str, topic: str, queue_id: int, *, index: int, count: int, group: str | None = None
    ) -> QueryConsumeQueueResponseBody:
        """Return units of a ConsumeQueue from an index on, its bounds, and what the filter of a group makes of them."""
        header = QueryConsumeQueueRequestHeader(
            topic=topic, queue_id=queue_id, index=index, count=count, consumer_group=group
        )
        response = await self._requests.ask_broker(address, RequestCode.QUERY_CONSUME_QUEUE, header)
        return await self._requests.answers.body(response, QueryConsumeQueueResponseBody, address)


def settings_body(settings: Mapping[str, str]) -> bytes:
    """Return settings as the body of a request that changes them: ``java.util.Properties`` text."""
    return "".join(format_property(key, value) + "\n" for key, value in settings.items()).encode()


async def read_settings(answers: Answers, body: bytes | None, address: str) -> dict[str, str]:
    """Return the settings that a server shows; of one that is there twice the last.

    RemoteProtocolError for more than :data:`SETTINGS_SHOWN_BYTES_MAX`, and for what is no properties text.
    """
    return await answers.decoded(body, _settings_in, address)


def _settings_in(body: bytes) -> dict[str, str]:
    if len(body) > SETTINGS_SHOWN_BYTES_MAX:
        raise RemoteProtocolError(f"settings: expected at most {SETTINGS_SHOWN_BYTES_MAX} bytes, found {len(body)}")
    try:
        return {line.key: line.value for line in read_properties(decode_properties_text(body))}
    except SettingsError as failure:
        raise RemoteProtocolError(f"settings: expected properties, found {failure}") from failure
