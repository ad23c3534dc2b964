"""The fast path of sends writes the same bytes as the general one."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.frame import FRAME_LENGTH_MAX, encode_frame
from rocketpy.protocol.frame.send_frame import SendFrames, escape_properties
from rocketpy.protocol.headers.send import SendMessageRequestHeaderV2
from rocketpy.protocol.properties import encode_properties

names = st.from_regex(r"[%|a-zA-Z0-9_-]{1,20}", fullmatch=True)
int32 = st.integers(-(2**31), 2**31 - 1)
texts = st.text(max_size=12)


HEADERS = st.builds(
    SendMessageRequestHeaderV2,
    producer_group=names,
    topic=names,
    default_topic=names,
    default_topic_queue_nums=st.just(4),
    queue_id=int32,
    sys_flag=int32,
    born_timestamp=st.integers(0, 2**62),
    flag=int32,
    reconsume_times=st.just(0),
    unit_mode=st.booleans(),
    batch=st.booleans(),
    broker_name=texts,
)


@given(
    code=st.sampled_from(
        [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2]
    ),
    header=HEADERS,
    properties=st.dictionaries(texts, texts, max_size=4),
    body=st.binary(min_size=1, max_size=40),
    opaque=st.integers(0, 2**31 - 1),
    oneway=st.booleans(),
)
def test_the_bytes_are_those_of_the_general_path(
    code: RequestCode,
    header: SendMessageRequestHeaderV2,
    properties: dict[str, str],
    body: bytes,
    opaque: int,
    oneway: bool,
) -> None:
    header = attrs.evolve(header, properties=encode_properties(properties))
    general = make_request(code, header, body, oneway=oneway)
    general.opaque = opaque
    escaped, size = escape_properties(properties)
    fields = SendFrames(
        producer_group=header.producer_group,
        default_topic=header.default_topic,
        default_topic_queue_nums=4,
        unit_mode=bool(header.unit_mode),
    ).fields(
        code,
        header.topic,
        escaped,
        body,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        batch=bool(header.batch),
    )
    frame = fields.frame(header.queue_id, header.broker_name or "", opaque, flag=2 if oneway else 0)
    assert frame == encode_frame(general)
    assert size == len(encode_properties(properties).encode("utf-8", "replace"))


def test_what_does_not_fit_is_refused() -> None:
    frames = SendFrames(producer_group="g", default_topic="TBW102", default_topic_queue_nums=4)
    with pytest.raises(LocalProtocolError, match="expected int32"):
        frames.fields(310, "T", "", b"x", sys_flag=0, born_timestamp=0, flag=2**31, batch=False)
    long = frames.fields(310, "T", "", bytes(FRAME_LENGTH_MAX), sys_flag=0, born_timestamp=0, flag=0, batch=False)
    with pytest.raises(LocalProtocolError, match="expected at most"):
        long.frame(0, "b", 0)
