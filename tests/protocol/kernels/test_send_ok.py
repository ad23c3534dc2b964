"""SEND_OK by the kernel is, byte for byte, the frame of the generic encoder."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.broker.send.answers import Receipt, SendAnswers
from rocketpy.broker.send.kernel_path import ok_frames
from rocketpy.protocol.codes import SerializeType
from rocketpy.store.results import PutMessageStatus

NOT_NEGATIVE = st.integers(0, 2**63 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("region", ["DefaultRegion", "100%d %016X %%", 'é"'])
@given(st.integers(-(2**31), 2**31 - 1), NOT_NEGATIVE, st.integers(-(2**31), 2**31 - 1), INT64)
@example(0, 0, 0, 0)
@example(-(2**31), 2**63 - 1, -(2**31), -(2**63))
def test_frames_are_those_of_the_generic_encoder(
    region: str, opaque: int, physical_offset: int, queue_id: int, queue_offset: int
) -> None:
    answers = SendAnswers(region_id=region, trace_on=True, store_host=b"\x7f\0\0\1\0\0\x2a\x9f", message_size_max=1)
    frames = ok_frames(answers)
    receipt = Receipt(opaque, SerializeType.JSON, answers.msg_id(physical_offset), queue_id, queue_offset)
    expected = answers.stored(receipt, PutMessageStatus.PUT_OK)
    assert frames.frame(opaque, physical_offset, queue_id, queue_offset) == expected
    assert answers.success(opaque, physical_offset, queue_id, queue_offset) == expected
