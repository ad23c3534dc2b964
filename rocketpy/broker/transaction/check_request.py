"""Encoding of CHECK_TRANSACTION_STATE: the check request to a producer, with the message as it would be delivered.

Compatibility: ``AbstractTransactionalMessageCheckListener.sendCheckMessage`` (4.9.8): offsets and offset id are those
of the copy appended for this check; store time and store host are those of the copied record; the body is as stored.
"""

from __future__ import annotations

import attrs

from rocketpy.broker.transaction.half_message import PROPERTY_ACCOUNT, real_queue
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.send import CheckTransactionStateRequestHeader
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.properties import PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX
from rocketpy.protocol.stored_message import encode_message


def check_request(half: MessageExt) -> RemotingCommand | None:
    """Return the check request for the record ``half``; None when it has no valid target topic and queue."""
    try:
        topic, queue_id = real_queue(half)
    except ValueError:
        return None
    unique_key = half.properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX)
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.physical_offset,
        msg_id=unique_key,
        transaction_id=unique_key,
        offset_msg_id=half.offset_msg_id,
    )
    properties = {name: value for name, value in half.properties.items() if name != PROPERTY_ACCOUNT}
    body = encode_message(attrs.evolve(half, topic=topic, queue_id=queue_id, properties=properties))
    return make_request(RequestCode.CHECK_TRANSACTION_STATE, header, body, oneway=True)
