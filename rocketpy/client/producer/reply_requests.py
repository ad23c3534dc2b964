"""Messages that ask for a reply: the producer's half of request and reply.

The reply comes by way of a broker, as a request to this client, and finds its requester by a correlation id.

Compatibility: ``DefaultMQProducerImpl.request`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import trio

from rocketpy.client.instance import ClientInstance
from rocketpy.client.producer.send_request import SendRequest, SendRequestMaker
from rocketpy.client.route_finder import TopicTemplate
from rocketpy.client.validators import UNSPECIFIED
from rocketpy.errors import BrokerError, ClientError, NoReplyError, NoRouteError, RemotingError
from rocketpy.protocol.message import Message, MessageExt
from rocketpy.protocol.namespace import wrap_namespace
from rocketpy.protocol.properties import (
    PROPERTY_CORRELATION_ID,
    PROPERTY_MESSAGE_REPLY_TO_CLIENT,
    PROPERTY_MESSAGE_TTL,
)
from rocketpy.remoting.arrivals import let_readers_read

Send = Callable[[SendRequest, float], Awaitable[None]]
"""Sends a request, in so many seconds."""


class ReplyRequests:
    """Requests of one producer."""

    def __init__(self, *, instance: ClientInstance, maker: SendRequestMaker, template: TopicTemplate) -> None:
        self._instance = instance
        self._maker = maker
        self._template = template

    async def request(self, message: Message, timeout_s: float, send: Send) -> MessageExt:
        """Send a message and return its reply, see :meth:`Producer.request`."""
        deadline = trio.current_time() + timeout_s
        correlation_id = str(UUID(int=self._instance.randomness.getrandbits(128), version=4))
        own = {
            PROPERTY_CORRELATION_ID: correlation_id,
            PROPERTY_MESSAGE_REPLY_TO_CLIENT: self._instance.client_id,
            PROPERTY_MESSAGE_TTL: str(int(timeout_s * 1000)),
        }
        request = self._maker.message(message, properties=own)
        await self._become_known(message.topic, timeout_s)
        with self._instance.replies.expecting(correlation_id) as waiting:
            try:
                await send(request, deadline - trio.current_time())
            except (BrokerError, RemotingError) as failure:
                raise ClientError(
                    UNSPECIFIED, f"send request message to <{message.topic}> fail: {failure}"
                ) from failure
            with trio.move_on_at(deadline):
                await waiting.arrived.wait()
            remoting = self._instance.remoting
            await let_readers_read(waiting.arrived.is_set, lambda: remoting.frames_received)
            if waiting.reply is None:
                raise NoReplyError(
                    f"send request message to <{message.topic}> OK, but wait reply message timeout, "
                    f"{timeout_s * 1000:g} ms.",
                )
            return waiting.reply

    async def _become_known(self, topic: str, timeout_s: float) -> None:
        """Before the first request of a topic: a broker that does not know this client cannot pass the reply on.

        Raises NoRouteError when no nameserver answers in time. Heartbeats get half of what is left then: one broker
        that does not answer them keeps no request from another.
        """
        wrapped = wrap_namespace(self._maker.namespace, topic)
        if self._instance.routes.table.publish_queues(wrapped):
            return
        deadline = trio.current_time() + timeout_s
        with trio.move_on_at(deadline) as looking_up:
            await self._instance.routes.publish_queues(wrapped, self._template)
        if looking_up.cancelled_caught:
            asked = ", ".join(self._instance.name_servers.addresses)
            raise NoRouteError(f"send request message to <{topic}> fail: no answer from {asked} in {timeout_s:g} s")
        with trio.move_on_after((deadline - trio.current_time()) / 2):
            await self._instance.heartbeats.send()
