"""The fast path of batches: the kernel and the columns answer and store the same, and the kernel takes what is usual.

Their agreement with the general path is tested in ``test_fast_and_general_path``.
"""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocketpy import BUILD
from rocketpy.broker.hooks import NO_HOOKS
from rocketpy.broker.send.fast_batch import READ_BATCH, ReadBatch
from rocketpy.broker.send.feature import SendFeature
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.kernels.batch import BatchItems, read_batch
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.config import FlushDiskType
from rocketpy.store.plug_in import PlugInMessageStore
from tests.broker.message_broker import MessageBroker, open_message_broker, send
from tests.broker.send.test_batch import item, send_batch
from tests.broker.send.test_fast_and_general_path import (
    BATCHES,
    JAVA,
    OWN,
    answers_of,
    batch,
    batch_body,
    batches_of_each_kind,
    between_usual_sends,
    contents,
    frame_of,
    send_fields,
)

SHARED = ("", "WAIT\x01true", "WAIT\x01false", "TAGS\x01all", "DELAY\x011", "a\x01KEYS\x01k", "a\x01\0")
USUAL = b"UNIQ_KEY\x010A\x02WAIT\x01true"


class NotedKernel:
    """The kernel, with a note of what it took."""

    def __init__(self) -> None:
        self.taken: list[bool] = []

    def __call__(self, body: bytes, suffix_size: int, count_max: int) -> BatchItems | None:
        items = read_batch(body, suffix_size, count_max)
        self.taken.append(items is not None)
        return items


async def served(kernel: ReadBatch | None, frames: list[bytes], **store: object) -> object:
    """Serve frames after a first message for each queue; return the answers, what is stored and what is indexed."""
    async with open_message_broker(read_batch=kernel, store=store) as broker:
        firsts = [frame_of(310, send_fields(e=str(queue_id))) for queue_id in range(4)]
        answers = await answers_of(broker, [*firsts, *frames])
        found = [await broker.store.query_message("TopicTest", key, 99, 0, 1 << 62) for key in ("0A", "k1", "k2")]
        return answers, await contents(broker), [each.body for each in found]


async def test_the_kernel_and_the_columns_agree_on_each_kind() -> None:
    frames = batches_of_each_kind()
    frames += [batch(own, shared) for own in ([JAVA], [OWN] * 3) for shared in SHARED]
    assert await served(read_batch, frames) == await served(None, frames)


@given(frames=st.lists(BATCHES, min_size=10, max_size=20))
@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.too_slow])
async def test_the_kernel_and_the_columns_agree(frames: list[bytes]) -> None:
    frames = between_usual_sends(frames)
    assert await served(read_batch, frames) == await served(None, frames)


async def test_the_kernel_and_the_columns_agree_under_sync_flush() -> None:
    sent = send_fields(i="WAIT\x01true", m="true")
    frames = [frame_of(320, sent, batch_body([JAVA] * 5), flag) for flag in (0, 2)]
    of_both = [await served(kernel, frames, flush_disk_type=FlushDiskType.SYNC_FLUSH) for kernel in (read_batch, None)]
    assert of_both[0] == of_both[1]


async def stored_by(kernel: NotedKernel, body: bytes, properties: str = "WAIT\x01true", **settings: object) -> bool:
    """Send a batch; return whether the store got it from the kernel."""
    async with open_message_broker(read_batch=kernel, **settings) as broker:  # type: ignore[arg-type]
        await broker.ask(send())
        packed = _note_packed(broker)
        await broker.ask(send_batch(body, properties))
        return packed == [True]


def _note_packed(broker: MessageBroker) -> list[bool]:
    packed: list[bool] = []
    put_packed = broker.store.put_packed

    def noted(*arguments: object) -> object:
        found = put_packed(*arguments)  # type: ignore[arg-type]
        packed.append(found is not None)
        return found

    broker.store.put_packed = noted  # type: ignore[assignment, method-assign]
    return packed


@pytest.mark.parametrize("own", [USUAL, b"", b"KEYS\x01k1 k2\x02" + USUAL + b"\x02TAGS\x01t", b"a\x01b"])
async def test_the_kernel_takes_ordinary_batches(own: bytes) -> None:
    assert await stored_by(NotedKernel(), item(b"1", own) * 3)


async def test_a_body_of_another_form_is_split_into_columns() -> None:
    kernel = NotedKernel()
    assert not await stored_by(kernel, item(b"1", b"TAGS\x01a\x02TAGS\x01b"))
    assert kernel.taken == [False]


async def test_the_kernel_is_not_asked_for_long_bodies() -> None:
    """They would take long in one piece; columns are prepared in slices."""
    kernel = NotedKernel()
    assert not await stored_by(kernel, item(b"1" * 140_000, USUAL))
    assert kernel.taken == []


async def test_the_limit_of_messages_counts_for_the_kernel_too() -> None:
    kernel = NotedKernel()
    assert not await stored_by(kernel, item(b"1", USUAL) * 4, batch_messages_max=3)
    assert kernel.taken == [False]


async def test_a_plug_in_gets_batches_by_the_method_that_it_may_override() -> None:
    class Counting(PlugInMessageStore):
        counts: ClassVar[list[int]] = []

        def put_batch(self, topic: str, queue_id: int, batch: MessageBatch, *rest: object) -> object:
            self.counts.append(len(batch.bodies))
            return self.store.put_batch(topic, queue_id, batch, *rest)  # type: ignore[arg-type]

    kernel = NotedKernel()
    async with open_message_broker() as broker:
        feature = SendFeature(
            attrs.evolve(broker.context, store=Counting(broker.store)),
            message_put=broker.message_put,
            hooks=NO_HOOKS,
            read_batch=kernel,
        )
        dispatcher = Dispatcher(end_burst=broker.store.end_burst)
        feature.register(dispatcher)
        broker.dispatcher.fast_paths.clear()
        broker.dispatcher.fast_paths.update(dispatcher.fast_paths)
        answer = await broker.ask(send_batch(item(b"1", USUAL) * 3))
        assert answer.code == ResponseCode.SUCCESS
        assert (Counting.counts, kernel.taken) == ([3], [])


def test_the_kernel_is_used_where_it_is_compiled() -> None:
    assert (READ_BATCH is not None) == BUILD.has_kernels
