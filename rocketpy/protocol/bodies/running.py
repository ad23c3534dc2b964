"""State of a running consumer, as it reports it to an administrator."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import attrs

from rocketpy.protocol.bodies.codec import JavaEnum, JavaSet, named
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.value_methods import ValueMethods

# Keys of ConsumerRunningInfo.properties. One of them lacks an underscore that the Java constant's name has.
PROP_NAMESERVER_ADDR = "PROP_NAMESERVER_ADDR"
PROP_THREADPOOL_CORE_SIZE = "PROP_THREADPOOL_CORE_SIZE"
PROP_CONSUME_ORDERLY = "PROP_CONSUMEORDERLY"
PROP_CONSUME_TYPE = "PROP_CONSUME_TYPE"
PROP_CLIENT_VERSION = "PROP_CLIENT_VERSION"
PROP_CONSUMER_START_TIMESTAMP = "PROP_CONSUMER_START_TIMESTAMP"


class CMResult(StrEnum):
    """Result of a listener for one message."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


@attrs.frozen
class ProcessQueueInfo(ValueMethods):
    """A consumer's local state of one queue: messages pulled and not yet consumed, locks, times."""

    commit_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mib: Int32 = attrs.field(default=0, metadata=named("cachedMsgSizeInMiB"))
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    last_lock_timestamp: Int64 = 0
    dropped: bool = attrs.field(default=False, metadata=named("droped"))
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


@attrs.frozen
class ConsumeStatus(ValueMethods):
    """Rates and times of a topic in one consumer; RT in milliseconds, TPS per second."""

    pull_rt: float = attrs.field(default=0.0, metadata=named("pullRT"))
    pull_tps: float = attrs.field(default=0.0, metadata=named("pullTPS"))
    consume_rt: float = attrs.field(default=0.0, metadata=named("consumeRT"))
    consume_ok_tps: float = attrs.field(default=0.0, metadata=named("consumeOKTPS"))
    consume_failed_tps: float = attrs.field(default=0.0, metadata=named("consumeFailedTPS"))
    consume_failed_msgs: Int64 = 0


@attrs.frozen
class ConsumerRunningInfo(ValueMethods):
    """The answer to GET_CONSUMER_RUNNING_INFO; ``jstack`` only when it was asked for."""

    properties: dict[str, str] = attrs.field(factory=dict)
    subscription_set: JavaSet[SubscriptionData] = attrs.field(factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = attrs.field(factory=dict)
    status_table: dict[str, ConsumeStatus] = attrs.field(factory=dict)
    jstack: str | None = None


@attrs.frozen
class ConsumeMessageDirectlyResult(ValueMethods):
    """The answer to CONSUME_MESSAGE_DIRECTLY: what a listener made of one message given to it by hand."""

    order: bool = False
    auto_commit: bool = True
    consume_result: Annotated[str, JavaEnum.of(CMResult)] | None = None
    remark: str | None = None
    spent_time_mills: Int64 = 0
