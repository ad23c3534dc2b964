"""Makes the appender that a store's settings ask for: with a transient store pool, multi-dispatch, extended units."""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.clock import Clock
from rocketpy.store.append.appender import MessageAppender
from rocketpy.store.append.transient_store_pool import TransientStorePool
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.queue.multi_dispatch import LmqLimit, MultiDispatch
from rocketpy.store.queue.unit_extensions import UnitExtensions
from rocketpy.store.recovery.dispatcher import BitMapOf
from rocketpy.store.recovery.store_files import StoreFiles

_SLAVE = "the broker is a slave: only its master appends"


def make_appender(
    config: MessageStoreConfig,
    *,
    files: StoreFiles,
    clock: Clock,
    store_host: bytes,
    message_arriving: Callable[[str, int, int], None] | None,
    bit_map_of: BitMapOf | None,
    may_be_named: Callable[[str], bool] | None = None,
) -> MessageAppender:
    """Return the appender of a store that has been recovered."""
    pool = None
    if config.has_transient_store_pool:
        pool = TransientStorePool(
            size_bytes=config.transient_store_pool_bytes, is_fail_fast=config.fast_fail_if_no_buffer_in_store_pool
        )
    limit, multi_dispatch = None, None
    if config.enable_lmq or config.enable_multi_dispatch:
        limit = LmqLimit(topics=files.queues.topics, count_max=config.max_lmq_consume_queue_num)
    if config.enable_multi_dispatch:
        multi_dispatch = MultiDispatch(queues=files.queues, limit=limit, may_be_named=may_be_named)
    return MessageAppender(
        commit_log=files.commit_log,
        queues=files.queues,
        clock=clock,
        store_host=store_host,
        message_size_max=config.max_message_size,
        index=files.index,
        message_arriving=message_arriving,
        refuse_all=_SLAVE if config.broker_role is BrokerRole.SLAVE else None,
        multi_dispatch=multi_dispatch,
        lmq_limit=limit,
        unit_extensions=UnitExtensions(bit_map_of=bit_map_of) if config.enable_consume_queue_ext else None,
        pool=pool,
    )
