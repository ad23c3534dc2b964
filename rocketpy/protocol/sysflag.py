"""The bits of the three system flags: of a message, of a pull and of a topic.

They share a name in RocketMQ and nothing else. A bit keeps its meaning on the wire and on disk.
"""

from __future__ import annotations

# MessageSysFlag: ``sysFlag`` of a send request and of a stored record.
COMPRESSED_FLAG = 0x1
MULTI_TAGS_FLAG = 0x2
TRANSACTION_NOT_TYPE = 0x0
TRANSACTION_PREPARED_TYPE = 0x4
TRANSACTION_COMMIT_TYPE = 0x8
TRANSACTION_ROLLBACK_TYPE = 0xC
TRANSACTION_TYPE_MASK = 0xC
NO_QUEUE_FLAG = TRANSACTION_PREPARED_TYPE & TRANSACTION_ROLLBACK_TYPE
"""Set in both: a record that is prepared or rolled back gets no queue offset and no ConsumeQueue unit."""
BORN_HOST_V6_FLAG = 0x10
STORE_HOST_V6_FLAG = 0x20
NEED_UNWRAP_FLAG = 0x40
INNER_BATCH_FLAG = 0x80
COMPRESSION_TYPE_MASK = 0x700

# PullSysFlag: ``sysFlag`` of a pull request.
PULL_COMMIT_OFFSET_FLAG = 0x1
PULL_SUSPEND_FLAG = 0x2
PULL_SUBSCRIPTION_FLAG = 0x4
PULL_CLASS_FILTER_FLAG = 0x8
PULL_LITE_PULL_FLAG = 0x10

# TopicSysFlag: ``topicSysFlag`` of a TopicConfig and a QueueData.
TOPIC_UNIT_FLAG = 0x1
TOPIC_UNIT_SUB_FLAG = 0x2


def transaction_type(sys_flag: int) -> int:
    """Return which of the four ``TRANSACTION_*_TYPE`` values a message's flag carries."""
    return sys_flag & TRANSACTION_TYPE_MASK


def with_transaction_type(sys_flag: int, transaction: int) -> int:
    """Return a message's flag with its transaction type replaced (``resetTransactionValue``)."""
    return sys_flag & ~TRANSACTION_TYPE_MASK | transaction


def pull_sys_flag(*, commit_offset: bool, suspend: bool, subscription: bool, class_filter: bool) -> int:
    """Return the flag of a pull request (``PullSysFlag.buildSysFlag``)."""
    return (
        (PULL_COMMIT_OFFSET_FLAG if commit_offset else 0)
        | (PULL_SUSPEND_FLAG if suspend else 0)
        | (PULL_SUBSCRIPTION_FLAG if subscription else 0)
        | (PULL_CLASS_FILTER_FLAG if class_filter else 0)
    )
