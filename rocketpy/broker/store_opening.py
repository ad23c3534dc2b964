"""Opens the store of a broker: connects it to the tables, held pulls, logs and plug-ins."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from rocketpy.broker.metadata.named_queues import NamedQueues
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.broker.metadata.topic_deletions import TopicDeletions
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.replication.promotion import cut_offsets, set_back_to_queues
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.tables import Tables
from rocketpy.clock import Clock
from rocketpy.runner import RunBlocking
from rocketpy.store.config import BrokerRole
from rocketpy.store.disk.interface import Disk
from rocketpy.store.ha.tail_cut import CutReport
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import OpenRunner, open_message_store
from rocketpy.store.plug_in import StoreFactory, wrapped_store
from rocketpy.store.recovery.recovery import RecoveryReport
from rocketpy.store.status import StoreReports

_log = logging.getLogger("rocketpy.broker")
_store_log = logging.getLogger("rocketpy.store")
_store_error_log = logging.getLogger("rocketpy.store.error")


@asynccontextmanager
async def open_broker_store(
    settings: BrokerSettings,
    tables: Tables,
    hold_service: PullRequestHoldService,
    *,
    disk: Disk,
    clock: Clock,
    run_blocking: RunBlocking,
    store_host: bytes,
    plug_ins: Sequence[StoreFactory] = (),
    flush_replies: Callable[[], None] | None = None,
    open_runner: OpenRunner | None = None,
    memory_bytes: int | None = None,
    process_descriptors_max: int | None = None,
) -> AsyncIterator[MessageStore]:
    """Open the store for the block, as ``open_message_store`` does.

    When the block begins there is a topic for every queue, and no consumer offset is past its queue if this master was
    a slave.

    Queue units get delivery times and filter bit maps from the tables, messages may name existing topics, arrivals wake
    held pulls.
    """
    async with open_message_store(
        settings.store,
        disk=disk,
        clock=clock,
        run_blocking=run_blocking,
        store_host=store_host,
        tags_code=tables.levels.tags_code,
        bit_map_of=tables.filters.bit_map_of if settings.broker.enable_calc_filter_bit_map else None,
        may_be_named=NamedQueues(tables.topics).may_be_named,
        message_arriving=hold_service.message_arriving,
        flush_replies=flush_replies,
        reports=_REPORTS,
        open_runner=open_runner,
        memory_bytes=memory_bytes,
        process_descriptors_max=process_descriptors_max,
    ) as opened:
        store = wrapped_store(opened, plug_ins)
        if store.index_behind:
            _log.info("%d bytes of the log are not indexed yet: the index is built while the broker serves, see "
                      "indexBehind in its runtime info", store.index_behind)  # fmt: skip
        await _fit_tables(tables, store, is_slave=settings.store.broker_role is BrokerRole.SLAVE)
        yield store


async def _fit_tables(tables: Tables, store: MessageStore, *, is_slave: bool) -> None:
    """Carry out deletions of topics; give each queue a topic; let tables forget what the log has not, or no more.

    A master that was a slave has no offset past its queue.
    """
    deletions = TopicDeletions(deleted=tables.deleted_topics, offsets=tables.offsets, store=store)
    await deletions.carry_out(waits_for_records=is_slave and not store.was_cut)
    restored = tables.topics.restore_from_queues(store.queues())
    if restored:
        _log.warning("topics with messages that topics.json did not have: %s", ", ".join(restored))
    await _cut_tables(tables, store)
    if tables.offset_differences.has_followed and not is_slave:
        count = set_back_to_queues(tables.offsets, store.max_offset_in_queue)
        if count:
            _log.warning("%d consumer offsets were set back to the ends of their queues: the messages up to them "
                         "had not arrived when this broker was a slave", count)  # fmt: skip


async def _cut_tables(tables: Tables, store: MessageStore) -> None:
    """Let offsets and delay progress forget what they say of records that were cut, or that the log has not."""
    differences, delay_offsets = tables.offset_differences, tables.delay_offsets
    forgetting: list[StoredTable] = []
    for table in (tables.offsets.stored, delay_offsets.stored):
        mark = tables.marks.mark_of(table)
        if not store.was_cut and not await store.log_marks.has(mark):
            _log.warning("%s is of a log with a record that ends at %d, which this one has not: what the file says of "
                         "later records is forgotten", table.path, mark.offset)  # fmt: skip
            forgetting.append(table)
    if store.was_cut:
        _log.warning("what offsets and progress of delayed messages said of the part that was cut is forgotten")
        forgetting = [tables.offsets.stored, delay_offsets.stored]
    if tables.offsets.stored in forgetting:
        cut_offsets(tables.offsets, store.max_offset_in_queue)
        if store.was_cut or differences.has_followed:
            differences.log_was_cut()
            await differences.stored.persist()
    if delay_offsets.stored in forgetting:
        delay_offsets.forget()
    for table in forgetting:
        await tables.marks.note(table, await store.log_marks.now())
        await table.persist()
    if store.was_cut:
        await store.tables_were_cut()


def _log_recovered(report: RecoveryReport) -> None:
    """Log the result of recovery; a truncated tail that looks like a damaged record is a warning."""
    _store_log.info(
        "recovered: log end %d, %d records read from %d on, %d queue entries written",
        report.end_offset,
        report.record_count,
        report.scanned_from,
        report.unit_count,
    )
    if report.after_a_crash:
        _store_log.info("the last run was not shut down: %s", report.after_a_crash)
    if report.checkpoint_fault:
        _store_error_log.warning("%s: they count as none, and more of the log is read", report.checkpoint_fault)
    if report.why:
        _store_error_log.warning("the log was cut at %d: %s", report.end_offset, report.why)


def _log_cut(report: CutReport) -> None:
    """Log that records were cut, with the place where they are; or that nothing was, against an order."""
    order = report.order
    if report.refusal:
        _store_error_log.error("the log was not cut at %d: %s", order.offset, report.refusal)
    else:
        _store_error_log.warning(
            "the log was cut at %d, where it parted from the master's: the %d bytes up to its end at %d are kept in %s",
            order.offset, order.end_offset - order.offset, order.end_offset, report.kept_path)  # fmt: skip


def _log_recovering(reached_offset: int, end_offset: int) -> None:
    _store_log.info("recovering: at offset %d of the log, whose last file ends at %d", reached_offset, end_offset)


def _log_full(why: str | None) -> None:
    """Log that messages are refused, and that they are accepted again."""
    if why is not None:
        _store_error_log.error("sends are refused: %s", why)
    else:
        _store_error_log.warning("sends are accepted again, the disk has space")


_REPORTS = StoreReports(cut=_log_cut, recovered=_log_recovered, recovering=_log_recovering, full=_log_full)
