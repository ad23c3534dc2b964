"""Transactions as Java recorded them: its checks, its answers, and the store that it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker.metadata.groups import CHECK_GROUP
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import EndTransactionRequestHeader
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketpy.store.config import BrokerRole
from rocketpy.store.disk.os_disk import OsDisk
from tests.broker.tables_of_a_broker import Tables, make_tables
from tests.broker.test_golden_frames import NULL_POINTER, Exchange, of, recorded_requests
from tests.broker.transaction.transaction_broker import TransactionBroker, open_transaction_broker
from tests.store.golden_store import unpack_store

JAVA_STORE = {
    "mapped_file_size_commit_log": 65536,
    "mapped_file_size_consume_queue": 6000,
    "max_hash_slot_num": 500,
    "max_index_num": 2000,
}
LAST_STORED_MS = 1_795_252_011_000


def test_every_recorded_end_is_understood() -> None:
    ends = [read_header(each, EndTransactionRequestHeader) for _, each in recorded_requests(RequestCode.END_TRANSACTION)
            if each.ext_fields]  # fmt: skip
    assert {end.commit_or_rollback for end in ends} == {8, 12}
    assert {end.from_transaction_check for end in ends} <= {True, False}
    assert {end.producer_group for end in ends} == {"GoldTxProducer", "X"}


@pytest.mark.parametrize("exchange", of(RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE))
async def test_a_refusal_is_java_s(exchange: Exchange) -> None:
    java = exchange.java
    role = BrokerRole.SLAVE if java.code == ResponseCode.SLAVE_NOT_AVAILABLE else BrokerRole.ASYNC_MASTER
    async with open_transaction_broker(store={"broker_role": role}) as broker:
        (ours,) = await broker.ask_all(exchange.request)
        if java.code == ResponseCode.SUCCESS:  # that record is not in this store
            assert ours.code == ResponseCode.SYSTEM_ERROR
            return
        assert (ours.code, ours.ext_fields or {}) == (java.code, java.ext_fields or {})
        remark = java.remark or ""
        assert remark.startswith(NULL_POINTER) or not exchange.fields or (ours.remark or "").startswith(remark)


# ---- a store of Java's ----------------------------------------------------------------------------------------------


async def half_states(broker: TransactionBroker) -> list[tuple[int, bytes, str | None]]:
    return [
        (half.queue_offset, half.body, half.properties.get("TRANSACTION_CHECK_TIMES")) for half in await broker.halves()
    ]


def tables_of(root: Path, **settings: object) -> Tables:
    """Tables as Java wrote them, a minute after the last message."""
    tables = make_tables(root / "config", **settings)
    tables.offsets.load()
    tables.clock.advance_ms(LAST_STORED_MS + 60_000 - tables.clock.timestamp_ms())
    return tables


async def test_java_left_nothing_open_and_we_find_nothing(tmp_path: Path) -> None:
    """Committed, rolled back, committed by a check, given up, and given up before the end: all are done with."""
    root = unpack_store("store-clean", tmp_path)
    tables = tables_of(root, transaction_check_max=2)
    store = {**JAVA_STORE, "store_path_root_dir": str(root)}
    async with open_transaction_broker(disk=OsDisk(), tables=tables, store=store) as broker:
        producer = broker.producer("GoldTxProducer")
        before = broker.store.wrote_offset
        assert broker.open_count == 0
        assert await broker.round(producer) == []
        assert broker.store.wrote_offset == before
        assert tables.offsets.query_offset(CHECK_GROUP, TRANS_HALF_TOPIC, 0) == 10
        assert tables.offsets.query_offset(CHECK_GROUP, TRANS_OP_HALF_TOPIC, 0) == 3


async def test_from_java_s_earlier_offsets_we_do_what_java_did(tmp_path: Path) -> None:
    """The offsets as they were before the round that gave up the last transaction: so do we, and not the others."""
    root = unpack_store("store-clean", tmp_path)
    tables = tables_of(root, transaction_check_max=2)
    tables.offsets.commit_offset("", CHECK_GROUP, TRANS_HALF_TOPIC, 0, 8)
    store = {**JAVA_STORE, "store_path_root_dir": str(root)}
    async with open_transaction_broker(disk=OsDisk(), tables=tables, store=store) as broker:
        producer = broker.producer("GoldTxProducer")
        assert broker.open_count == 2
        before = [message.body for message in await broker.given_up()]
        assert await broker.asked(producer, after_s=0) == [b"tx still open at the end"]
        assert (await half_states(broker))[10:] == [(10, b"tx still open at the end", "2")]
        assert [message.body for message in await broker.given_up()] == [*before, b"tx still open at the end"]


async def test_without_java_s_offsets_the_ops_say_what_is_done(tmp_path: Path) -> None:
    """Java's copies do not say what they are copies of, so Java and we look at each of them again."""
    root = unpack_store("store-clean", tmp_path)
    tables = tables_of(root)
    tables.offsets.remove_offset(CHECK_GROUP)
    store = {**JAVA_STORE, "store_path_root_dir": str(root)}
    async with open_transaction_broker(disk=OsDisk(), tables=tables, store=store) as broker:
        producer = broker.producer("GoldTxProducer")
        checks = await broker.round(producer)
        assert [(check.message.keys, check.message.properties["TRANSACTION_CHECK_TIMES"]) for check in checks] == [
            ("checked", "1"),
            ("never", "1"),
            ("never", "2"),
            ("never", "3"),
            ("open", "1"),
            ("open", "2"),
            ("open", "3"),
        ]
