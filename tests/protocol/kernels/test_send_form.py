"""A form knows the headers that are like its own; ``test_send_header`` compares what is read of them."""

from __future__ import annotations

import pytest

from rocketpy.protocol.kernels.send_form import OPAQUE, QUEUE_ID, UNIQ_KEY, SendForm

HEADER = (
    b'{"code":310,"extFields":{"a":"P","b":"T","c":"D","d":"4","e":"3","f":"0","g":"17","h":"0",'
    b'"i":"UNIQ_KEY\\u0001K\\u0002WAIT\\u0001true","Signature":"S"},"flag":0,"opaque":7}'
)


def form_of(header: bytes) -> SendForm | None:
    form = SendForm()
    return form if form.read_whole(header, frozenset((b"DELAY",))) else None


def test_a_header_is_like_itself_and_nothing_is_like_none() -> None:
    form = form_of(HEADER)
    assert form is not None
    assert form.is_like(HEADER)
    assert form.names == ("T", "P")
    for nothing in (b"", b"{", HEADER):
        assert not SendForm().is_like(nothing)


@pytest.mark.parametrize(
    ("old", "new", "is_like"),
    [
        (b'"e":"3"', b'"e":"12345"', True),
        (b'"g":"17"', b'"g":"1"', True),
        (b"0001K", b"0001another key", True),
        (b'"S"', b'"another signature"', True),
        (b'"opaque":7', b'"opaque":77', True),
        (b'"e":"3"', b'"e":""', False),
        (b'"e":"3"', b'"e":"x"', False),
        (b'"b":"T"', b'"b":"U"', False),
        (b'"h":"0"', b'"h":"1"', False),
        (b"0001K", b"0001K\\u0002a\\u0001b", False),
        (b"0001K", b"0001", False),
        (b"true", b"trux", False),
        (b'"flag":0', b'"flag":2', False),
        (b"7}", b"7} ", False),
        (b"7}", b"7", False),
    ],
)
def test_only_the_values_that_differ_between_sends_may_differ(old: bytes, new: bytes, is_like: bool) -> None:
    form = form_of(HEADER)
    assert form is not None
    assert HEADER.count(old) == 1
    assert form.is_like(HEADER.replace(old, new)) == is_like


def test_values_are_found_where_they_have_moved() -> None:
    form = form_of(HEADER)
    assert form is not None
    header = HEADER.replace(b'"e":"3"', b'"e":"12345"').replace(b"0001K", b"0001key").replace(b":7}", b":99}")
    assert form.is_like(header)
    values = {value.kind: value for value in form.varying}
    assert (values[QUEUE_ID].number, values[OPAQUE].number) == (12345, 99)
    assert header[values[UNIQ_KEY].begin : values[UNIQ_KEY].end] == b"key"


def test_the_form_of_a_batch_has_its_properties_as_they_are() -> None:
    batch = (
        HEADER.replace(b"310", b"320")
        .replace(b"UNIQ_KEY\\u0001K\\u0002", b"")
        .replace(b'"Signature"', b'"m":"true","Signature"')
    )
    form = form_of(batch)
    assert form is not None
    assert (form.is_batch, form.batch_properties) == (True, "WAIT\x01true")
    assert form.is_like(batch.replace(b'"e":"3"', b'"e":"12345"').replace(b'"S"', b'"T"'))
    for other in (HEADER, batch.replace(b"320", b"310"), batch.replace(b"true", b"trux")):
        assert not form.is_like(other)
    for other in (batch.replace(b"320", b"310"), batch.replace(b"320", b"321"), batch.replace(b',"m":"true"', b"")):
        assert form_of(other) is None


def test_a_property_with_a_meaning_of_its_own_or_one_that_is_there_twice_is_no_form() -> None:
    assert form_of(HEADER.replace(b"UNIQ_KEY", b"DELAY")) is None
    assert form_of(HEADER.replace(b"WAIT", b"UNIQ_KEY")) is None
