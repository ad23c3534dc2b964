"""Lag of a query, from the progress that Spark reports."""

from __future__ import annotations

import json

import attrs

from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.stream.offsets import StreamOffset, write_offset
from rocketpy.spark.stream.progress import queue_lags

A0, A1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)


@attrs.frozen
class Progress:
    endOffset: str | None  # noqa: N815 - Spark's name
    latestOffset: str | None  # noqa: N815 - Spark's name


def text(offsets: dict[MessageQueue, int]) -> str:
    return json.dumps(write_offset(StreamOffset(offsets)))


def test_the_lag_is_the_distance_from_the_end_of_the_batch_to_the_end_of_the_queue() -> None:
    assert queue_lags(Progress(text({A0: 5, A1: 7}), text({A0: 9, A1: 7}))) == {A0: 4, A1: 0}


def test_a_queue_that_no_batch_has_read_lags_by_all_it_has() -> None:
    assert queue_lags(Progress(text({A0: 5}), text({A0: 5, A1: 3}))) == {A0: 0, A1: 3}


def test_there_is_no_lag_before_anything_is_known() -> None:
    assert queue_lags(Progress(None, None)) == {}
    assert queue_lags(Progress(text({A0: 5}), "null")) == {}
