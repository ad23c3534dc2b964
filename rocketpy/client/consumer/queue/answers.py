"""Reads the answer to a pull, and refuses one that does not fit what was asked.

Rule: the messages of a :class:`~rocketpy.client.results.PullResult` are of the queue that was asked, ascending, from
the asked offset on and below ``next_begin_offset``. So an acknowledged offset never passes a message that was not
handled, whatever a broker answers. An answer with more messages than asked for, or with bodies of more than
:data:`BODIES_SIZE_MAX`, is taken in part: the next pull begins with the first one that is left.

Compatibility: ``PullAPIWrapper.processPullResult`` (4.9.8). Java takes any messages at any offsets, compares no
checksums of bodies, and silently drops what follows a record that it cannot decode; here such an answer is a
RemoteProtocolError, and a consumer pulls again after its pause. As in Java, the tags are compared again here, because
the broker compares only their hashes. Messages that were dispatched to several queues (INNER_MULTI_DISPATCH) have the
topic and offset of the first one, and are not compared.
"""

from __future__ import annotations

from rocketpy.client.answers import ON_LOOP_UNPACKED_MAX, Answers
from rocketpy.client.consumer.queue.pull_plan import PullRequest
from rocketpy.client.instance import read_response
from rocketpy.client.results import PullResult, PullStatus
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.heartbeat import SUB_ALL
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.compression import DECOMPRESSED_SIZE_MAX, UnpackedSizeError
from rocketpy.protocol.headers.pull import PullMessageResponseHeader
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.properties import PROPERTY_INNER_MULTI_DISPATCH
from rocketpy.protocol.selector.tag import has_tag
from rocketpy.protocol.stored_message import decode_message

BODIES_SIZE_MAX = 64 << 20
"""Bytes of decompressed bodies after which the rest of an answer is left for the next pull: 16 MiB may hold records
that grow a thousandfold."""

ON_LOOP_BODY_MAX = 524_288
"""Bytes of an answer that is read on the event loop: 25 ms of work, if they are all properties."""


async def pull_result(answers: Answers, response: RemotingCommand, pull: PullRequest) -> PullResult:
    """As :func:`read_pull_answer`; what is long, or grows when it is unpacked, is read off the event loop."""
    if len(response.body or b"") <= ON_LOOP_BODY_MAX:
        try:
            return read_pull_answer(response, pull, unpacked_max=ON_LOOP_UNPACKED_MAX)
        except UnpackedSizeError:
            pass
    return await answers.in_worker(read_pull_answer, response, pull)


def read_pull_answer(
    response: RemotingCommand, pull: PullRequest, unpacked_max: int = DECOMPRESSED_SIZE_MAX
) -> PullResult:
    """Return the result of a pull; RemoteProtocolError for an answer that does not fit it.

    Also for bodies that have more than ``unpacked_max`` bytes when they are decompressed, each one.
    """
    queue, queue_offset = pull.queue, pull.queue_offset
    header = read_response(response, PullMessageResponseHeader)
    status = PullStatus(response.code)
    following = header.next_begin_offset
    highest = max(header.max_offset, queue_offset)
    messages: list[MessageExt] = []
    if status is PullStatus.FOUND:
        messages, last, following = _records(
            response.body or b"", queue, queue_offset, following, pull.max_msg_nums, unpacked_max
        )
        # A broker looks up the end of the queue before it reads, so the answer may have what was stored meanwhile.
        highest = max(header.max_offset, last + 1)
        if pull.subscription.sub_string != SUB_ALL:
            following = min(following, highest)  # what the filter left out past the end is read again
        if pull.subscription.tags_set:
            messages = [each for each in messages if has_tag(pull.subscription, each.tags)]
    lowest = min(0, queue_offset) if status is PullStatus.OFFSET_ILLEGAL else queue_offset
    # Where nothing was found, brokers may skip a whole file of the ConsumeQueue, past the end of the queue.
    is_exact = status in (PullStatus.FOUND, PullStatus.OFFSET_ILLEGAL)
    if following < lowest or (is_exact and following > highest):
        expected = f"{status.name} with a next offset from {lowest} to {highest}"
        raise _unexpected(queue, queue_offset, expected, f"{following}")
    return PullResult(
        status=status,
        messages=tuple(messages),
        next_begin_offset=following,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        suggest_which_broker_id=header.suggest_which_broker_id,
    )


def _records(
    body: bytes, queue: MessageQueue, queue_offset: int, following: int, count_max: int, unpacked_max: int
) -> tuple[list[MessageExt], int, int]:
    """Return the messages of an answer, the offset of the last one, and the offset of the next pull."""
    topic, queue_id, broker_name = queue.topic, queue.queue_id, queue.broker_name
    messages: list[MessageExt] = []
    position = size = 0
    highest = queue_offset - 1
    while position < len(body):
        if len(messages) >= count_max or size > BODIES_SIZE_MAX:
            return messages, highest, highest + 1
        message = decode_message(body, position, check_crc=True, broker_name=broker_name, unpacked_max=unpacked_max)
        if PROPERTY_INNER_MULTI_DISPATCH in message.properties:
            if highest >= following - 1:
                raise _unexpected(queue, queue_offset, "no further message", f"one named {message.msg_id}")
            highest += 1
        elif message.topic != topic or message.queue_id != queue_id:
            found = f"one of queue {message.queue_id} of {message.topic}"
            raise _unexpected(queue, queue_offset, "messages of that queue", found)
        elif highest < message.queue_offset < following:
            highest = message.queue_offset
        else:
            expected = f"an offset from {highest + 1} to {following - 1}"
            raise _unexpected(queue, queue_offset, expected, f"{message.queue_offset}")
        messages.append(message)
        position += message.store_size
        size += len(message.body)
    return messages, highest, following


def _unexpected(queue: MessageQueue, queue_offset: int, expected: str, found: str) -> RemoteProtocolError:
    where = f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name}"
    return RemoteProtocolError(f"pull of {where} from {queue_offset} on: expected {expected}, found {found}")
