"""Running consumers: Java's spellings."""

from __future__ import annotations

from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.running import (
    PROP_CONSUME_ORDERLY,
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)


def test_javas_spellings_are_on_the_wire_only() -> None:
    assert '"droped":true' in encode_text(ProcessQueueInfo(dropped=True))
    assert '"cachedMsgSizeInMiB":7' in encode_text(ProcessQueueInfo(cached_msg_size_in_mib=7))
    assert encode_text(ConsumeStatus(consume_ok_tps=1.5)) == (
        '{"consumeFailedMsgs":0,"consumeFailedTPS":0.0,"consumeOKTPS":1.5,"consumeRT":0.0,"pullRT":0.0,"pullTPS":0.0}'
    )
    assert PROP_CONSUME_ORDERLY == "PROP_CONSUMEORDERLY"


def test_a_stack_is_there_only_when_it_was_asked_for() -> None:
    assert "jstack" not in encode_text(ConsumerRunningInfo())
    assert decode_body(encode_text(ConsumerRunningInfo(jstack="x\n\tat y")), ConsumerRunningInfo).jstack == "x\n\tat y"


def test_a_result_is_a_name() -> None:
    result = ConsumeMessageDirectlyResult(consume_result=CMResult.CR_LATER, remark="no")
    assert encode_text(result) == (
        '{"autoCommit":true,"consumeResult":"CR_LATER","order":false,"remark":"no","spentTimeMills":0}'
    )
    assert decode_body(encode_text(result), ConsumeMessageDirectlyResult) == result
