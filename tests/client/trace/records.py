"""Trace records as Java's encoder was recorded to write them; a test names what is other in its own."""

from __future__ import annotations

from rocketpy.client.hooks import ConsumeReturnType, MessageType
from rocketpy.client.results import LocalTransactionState
from rocketpy.client.trace.trace_data import EndTransactionTrace, PubTrace, SubAfterTrace, SubBeforeTrace

ID, ID2 = "7F00000100002A139F5500000000000A", "7F00000100002A139F5500000000000B"
OFFSET_ID, REQUEST_ID = "7F00000100002A9F0000000000001234", "7F00000100002A139F5500000000F00D"
SENT_AT = 1795252097054


def pub(**changes: object) -> PubTrace:
    values: dict[str, object] = {
        "timestamp_ms": SENT_AT,
        "region_id": "DefaultRegion",
        "group": "g",
        "topic": "T",
        "msg_id": ID,
        "tags": "TagA",
        "keys": "k1 k2",
        "store_host": "127.0.0.1:10911",
        "body_length": 14,
        "cost_time_ms": 15,
        "message_type": MessageType.NORMAL_MSG,
        "offset_msg_id": OFFSET_ID,
        "is_success": True,
    }
    return PubTrace(**(values | changes))  # type: ignore[arg-type]


def before(**changes: object) -> SubBeforeTrace:
    values: dict[str, object] = {
        "timestamp_ms": SENT_AT,
        "region_id": "DefaultRegion",
        "group": "g",
        "request_id": REQUEST_ID,
        "msg_id": ID,
        "retry_times": 3,
        "keys": "k1",
    }
    return SubBeforeTrace(**(values | changes))  # type: ignore[arg-type]


def after(return_type: ConsumeReturnType = ConsumeReturnType.SUCCESS, **changes: object) -> SubAfterTrace:
    values: dict[str, object] = {
        "request_id": REQUEST_ID,
        "msg_id": ID,
        "cost_time_ms": 6,
        "is_success": return_type is ConsumeReturnType.SUCCESS,
        "keys": "k1",
        "return_type": return_type,
        "timestamp_ms": 1795252097060,
        "group": "g",
    }
    return SubAfterTrace(**(values | changes))  # type: ignore[arg-type]


def end(state: LocalTransactionState) -> EndTransactionTrace:
    return EndTransactionTrace(
        timestamp_ms=SENT_AT,
        region_id="DefaultRegion",
        group="g",
        topic="T",
        msg_id=ID,
        tags="TagA",
        keys="k",
        store_host="127.0.0.1:10911",
        message_type=MessageType.TRANS_MSG_COMMIT,
        transaction_id=ID,
        transaction_state=state,
        from_transaction_check=state is LocalTransactionState.UNKNOW,
    )
