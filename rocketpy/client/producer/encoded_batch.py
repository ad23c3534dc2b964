"""A batch that the program has encoded itself, for programs that hold many messages in another form than objects.

A message costs the producer some microseconds: an object, its properties as text, its checks. A program with columns of
messages can encode thousands at once. The body is that of SEND_BATCH_MESSAGE (:mod:`rocketpy.protocol.batch`), and
the program keeps what the producer otherwise ensures: every message has WAIT (the same in all of a batch) and UNIQ_KEY,
INSTANCE_ID in a client with a namespace, no delay level, and no property that RocketMQ reserves.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class EncodedBatch:
    """Messages of one topic, back to back as in the body of SEND_BATCH_MESSAGE.

    ``wait_store_msg_ok`` is the WAIT of all of them. The producer checks the topic and the size of the body; a broker
    refuses a body that it cannot decode.
    """

    topic: str
    body: bytes
    wait_store_msg_ok: bool = True
