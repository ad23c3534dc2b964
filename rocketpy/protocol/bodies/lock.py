"""Locks on queues, which orderly consumers take from the broker."""

from __future__ import annotations

import attrs

from rocketpy.protocol.bodies.codec import JavaSet, named
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen
class LockBatchRequestBody(ValueMethods):
    """The queues that a client of a group wants to hold or to go on holding."""

    consumer_group: str
    client_id: str
    mq_set: JavaSet[MessageQueue] = attrs.field(factory=list)


@attrs.frozen
class LockBatchResponseBody(ValueMethods):
    """The queues of the request that the client holds now."""

    lock_ok_mq_set: JavaSet[MessageQueue] = attrs.field(factory=list, metadata=named("lockOKMQSet"))


@attrs.frozen
class UnlockBatchRequestBody(ValueMethods):
    """The queues that a client of a group gives back."""

    consumer_group: str
    client_id: str
    mq_set: JavaSet[MessageQueue] = attrs.field(factory=list)
