"""Messages that are stored: by the broker's id, by unique key, by key; and what can be done with one of them.

The two ids of a message look alike: both have 32 digits. The broker's, ``offset_msg_id``, has
the address of a broker in it. :meth:`MessageAdmin.view` connects to that address, whatever it is, with a signed
request if the client has credentials; so an id from an untrusted source is a reason not to call it.
:meth:`MessageAdmin.find` connects to registered brokers only.

Compatibility: the calls of ``MQAdminImpl`` and ``DefaultMQAdminExtImpl`` about messages (4.9.8). There
``viewMessage(topic, id)`` takes every id for the broker's first and dials the address that a unique key seems to have,
which costs 3 seconds; and a unique key from before this month is not found.
"""

from __future__ import annotations

from functools import partial
from typing import cast

import attrs

from rocketpy.client.admin.requests import QUEUE_TIMEOUT_SECONDS, AdminRequests, cluster_addresses
from rocketpy.client.admin.traces import MessageTrace, trace_of
from rocketpy.client.answers import Answers
from rocketpy.client.instance import read_response
from rocketpy.errors import BrokersError, ClientError, RemoteProtocolError, RocketpyError
from rocketpy.protocol.bodies.running import ConsumeMessageDirectlyResult
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.client import ConsumeMessageDirectlyResultRequestHeader
from rocketpy.protocol.headers.query import (
    UNIQUE_KEY_QUERY,
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rocketpy.protocol.headers.send import ResumeCheckHalfMessageRequestHeader
from rocketpy.protocol.host import decode_host
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.message_id import decode_offset_msg_id, uniq_key_timestamp_ms
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.protocol.topic_name import TRACE_TOPIC

KEY_SEPARATOR = " "
END_OF_TIME_MS = 2**63 - 1
UNIQUE_KEY_COUNT = 32
"""How many messages a look-up by unique key asks for; a broker answers as many as its own setting says."""
CLOCK_MARGIN_MS = 1_000
"""A unique key is looked for from this long before its time on."""
_PORT_MAX = 65_535
_FOUND_OR_NOT = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)


@attrs.frozen
class QueryResult:
    """Messages with a key.

    ``failures`` has the brokers that did not answer: what only they have is missing.
    ``index_last_update_timestamp`` is how far the index has come, the latest of the brokers' (ms).
    """

    messages: tuple[MessageExt, ...]
    index_last_update_timestamp: int = 0
    failures: dict[str, RocketpyError] = attrs.field(factory=dict)


class MessageAdmin:
    """Look-ups of stored messages. Obtained as :attr:`AdminClient.messages`."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    # ---- one message ----------------------------------------------------------------------------------------------

    async def view(self, offset_msg_id: str) -> MessageExt:
        """Return the message with a broker's id, asked of the address inside the id.

        ClientError 208 when it is no such id, BrokerError 1 when the broker has no message there.
        """
        address, physical_offset = _address_in(offset_msg_id)
        response = await self._requests.ask_broker(
            address,
            RequestCode.VIEW_MESSAGE_BY_ID,
            ViewMessageRequestHeader(physical_offset),
            timeout_s=QUEUE_TIMEOUT_SECONDS,
        )
        messages = await self._requests.answers.unpacked(response.body, partial(decode_messages, count_max=1), address)
        if len(messages) != 1:
            raise RemoteProtocolError(f"VIEW_MESSAGE_BY_ID at {address}: expected one record, found {len(messages)}")
        return messages[0]

    async def find(self, topic: str, msg_id: str) -> MessageExt:
        """Return the message with an id of either kind.

        By the broker's id when a registered broker has the address inside it; else, or when there is no message, by the
        unique key. Errors as of :meth:`find_by_unique_key`.
        """
        try:
            address, _ = _address_in(msg_id)
            if address in cluster_addresses(await self._requests.cluster_info(), None):
                message = await self.view(msg_id)
                if msg_id in (message.msg_id, message.offset_msg_id):
                    return message
        except RocketpyError:  # a unique key by chance; if the cluster is the reason, the next request says so
            pass
        return await self.find_by_unique_key(topic, msg_id)

    async def find_by_unique_key(self, topic: str, unique_key: str) -> MessageExt:
        """Return the message with a unique key, the earliest if it was stored more than once.

        It is looked for from the time inside the key on, and if it is not there, among all messages of the topic.
        ClientError 208 when there is none, 17 when no broker has the topic.
        """
        now_ms = self._requests.instance.clock.timestamp_ms()
        try:
            begin = max(0, uniq_key_timestamp_ms(unique_key, now_ms=now_ms) - CLOCK_MARGIN_MS)
        except RemoteProtocolError:
            begin = 0  # set by the program that sent the message
        try:
            found = await self.query_unique_key(topic, unique_key, begin_timestamp=begin)
        except ClientError as failure:
            if failure.response_code != ResponseCode.NO_MESSAGE or begin == 0:
                raise
            found = await self.query_unique_key(topic, unique_key)
        return found.messages[0]

    # ---- by key ---------------------------------------------------------------------------------------------------

    async def query(
        self,
        topic: str,
        key: str,
        *,
        max_num: int = 64,
        begin_timestamp: int = 0,
        end_timestamp: int = END_OF_TIME_MS,
    ) -> QueryResult:
        """Return messages with a key, stored between two times (ms), of every broker of the topic.

        ``max_num`` of each broker, which has a bound of its own (64 by default). ClientError 208 when there are none,
        17 when no broker has the topic. When none is found and a broker has failed, that failure is raised.
        """
        results, failures = await self._query(topic, key, max_num, begin_timestamp, end_timestamp, is_unique=False)
        # A broker compares hashes only, and looks at nothing but its index.
        messages = [
            message
            for result in results
            for message in result.messages
            if message.topic == topic and key in (message.keys or "").split(KEY_SEPARATOR)
        ]
        return _result(results, messages, failures)

    async def query_unique_key(
        self,
        topic: str,
        unique_key: str,
        *,
        max_num: int = UNIQUE_KEY_COUNT,
        begin_timestamp: int = 0,
        end_timestamp: int = END_OF_TIME_MS,
    ) -> QueryResult:
        """Return the message with a unique key, stored between two times; of several the earliest. Errors as above."""
        results, failures = await self._query(
            topic, unique_key, max_num, begin_timestamp, end_timestamp, is_unique=True
        )
        matching = [each for result in results for each in result.messages if each.msg_id == unique_key]
        earliest = sorted(matching, key=lambda each: each.store_timestamp)[:1]
        return _result(results, earliest, failures)

    async def trace(self, msg_id: str, *, trace_topic: str = TRACE_TOPIC) -> MessageTrace:
        """Return what producers and consumers with ``enable_msg_trace`` have recorded of a message.

        ``msg_id`` is the unique key, :attr:`SendResult.msg_id`. Records come half a second after what they record.
        Errors as of :meth:`query`: ClientError 208 when there is no record.
        """
        found = await self.query(trace_topic, msg_id)
        return await self._requests.answers.in_worker(trace_of, msg_id, found.messages, found.failures)

    # ---- with one message -----------------------------------------------------------------------------------------

    async def consume_directly(
        self, group: str, client_id: str, msg_id: str, topic: str | None = None
    ) -> ConsumeMessageDirectlyResult:
        """Have a consumer consume a message now, outside its queues, and return what its listener said.

        ``msg_id`` is a broker's id, or of either kind if the topic is named. BrokerError 1 when the client is not
        online, 207 when it does not answer in 10 s.
        """
        message = await self._named(msg_id, topic)
        header = ConsumeMessageDirectlyResultRequestHeader(
            consumer_group=group, client_id=client_id, msg_id=message.offset_msg_id
        )
        response = await self._requests.ask_broker(
            message.store_host,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            header,
            timeout_s=3 * self._requests.timeout_s,
        )
        return await self._requests.answers.body(response, ConsumeMessageDirectlyResult, message.store_host)

    async def resume_check(self, msg_id: str, topic: str | None = None) -> None:
        """Have the broker check the transaction of a half message again that it has given up.

        BrokerError 1 when there is no open transaction.

        Compatibility: Java returns whether it worked, here an error says why it did not.
        """
        message = await self._named(msg_id, topic)
        header = ResumeCheckHalfMessageRequestHeader(message.offset_msg_id)
        await self._requests.ask_broker(message.store_host, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)

    # ---- requests -------------------------------------------------------------------------------------------------

    async def _named(self, msg_id: str, topic: str | None) -> MessageExt:
        return await self.view(msg_id) if topic is None else await self.find(topic, msg_id)

    async def _query(
        self, topic: str, key: str, max_num: int, begin: int, end: int, *, is_unique: bool
    ) -> tuple[list[QueryResult], dict[str, RocketpyError]]:
        """Return what each broker of the topic found, and which brokers failed."""
        header = QueryMessageRequestHeader(
            topic=topic, key=key, max_num=max_num, begin_timestamp=begin, end_timestamp=end
        )

        async def ask(address: str) -> QueryResult:
            request = make_request(RequestCode.QUERY_MESSAGE, header)
            cast(dict[str, str], request.ext_fields)[UNIQUE_KEY_QUERY] = "true" if is_unique else "false"
            response = await self._requests.send_to_broker(
                address, request, expected=_FOUND_OR_NOT, timeout_s=3 * QUEUE_TIMEOUT_SECONDS
            )
            return await _read_query(self._requests.answers, response, address)

        addresses = await self._requests.broker_addresses(topic)
        results, failures = await self._requests.each_or_failure(addresses.values(), ask)
        return list(results.values()), failures


async def _read_query(answers: Answers, response: RemotingCommand, address: str) -> QueryResult:
    updated = read_response(response, QueryMessageResponseHeader).index_last_update_timestamp
    if response.code != ResponseCode.SUCCESS:
        return QueryResult((), updated)
    return QueryResult(tuple(await answers.unpacked(response.body, decode_messages, address)), updated)


def _result(results: list[QueryResult], messages: list[MessageExt], failures: dict[str, RocketpyError]) -> QueryResult:
    if not messages:
        if len(failures) == 1 and not results:
            raise next(iter(failures.values()))
        if failures:
            raise BrokersError(failures, {})
        raise ClientError(ResponseCode.NO_MESSAGE, "query message by key finished, but no message.")
    return QueryResult(tuple(messages), max(each.index_last_update_timestamp for each in results), failures)


def _address_in(offset_msg_id: str) -> tuple[str, int]:
    """Return the broker's address and the physical offset in an id; ClientError 208 when it is none."""
    try:
        host, physical_offset = decode_offset_msg_id(offset_msg_id)
    except RemoteProtocolError as failure:
        raise ClientError(
            ResponseCode.NO_MESSAGE, f"query message by id finished, but no message. {failure}"
        ) from failure
    port = int.from_bytes(host[-4:], "big", signed=True)
    if not 0 < port <= _PORT_MAX:
        raise ClientError(
            ResponseCode.NO_MESSAGE,
            f"query message by id finished, but no message. {offset_msg_id} has no broker's address in it: port {port}",
        )
    return decode_host(host), physical_offset
