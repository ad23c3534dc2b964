"""Reads the answer to a send.

Compatibility: ``MQClientAPIImpl.processSendResponse`` (4.9.8).
"""

from __future__ import annotations

from rocketpy.client.instance import read_response
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.results import SendResult, SendStatus
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.send import SendMessageResponseHeader
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.properties import PROPERTY_MSG_REGION, PROPERTY_TRACE_SWITCH

DEFAULT_REGION = "DefaultRegion"
_STORED = {int(status.value): status for status in SendStatus}


def stored_status(response: RemotingCommand) -> SendStatus | None:
    """Return how the message was stored, None for a refusal."""
    return _STORED.get(response.code)


def read_send_result(delivery: Delivery, status: SendStatus, response: RemotingCommand) -> SendResult:
    """Return what a broker has stored; RemoteProtocolError when a required field is missing or out of range."""
    fields, queue = response.ext_fields or {}, delivery.chosen
    assert queue is not None
    try:
        offset_msg_id, queue_id, queue_offset = fields["msgId"], int(fields["queueId"]), int(fields["queueOffset"])
    except (KeyError, ValueError):
        header = read_response(response, SendMessageResponseHeader)
        offset_msg_id, queue_id, queue_offset = header.msg_id, header.queue_id, header.queue_offset
    if not (0 <= queue_id < 2**31 and 0 <= queue_offset < 2**63):
        raise RemoteProtocolError(
            f"send to {delivery.request.topic}: expected a queue id and an offset, "
            f"found {queue_id:.9g} and {queue_offset:.19g}"
        )
    topic = delivery.request.message.topic  # as the program knows it, without the namespace
    if queue_id != queue.queue_id or topic != queue.topic:
        queue = MessageQueue(topic, queue.broker_name, queue_id)
    return SendResult(
        status,
        delivery.request.msg_id,
        offset_msg_id,
        queue,
        queue_offset,
        fields.get(PROPERTY_MSG_REGION) or DEFAULT_REGION,
        fields.get("transactionId"),
        fields.get(PROPERTY_TRACE_SWITCH) != "false",
    )
