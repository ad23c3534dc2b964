"""The page of the client: its programs run, its excerpts are of the examples, its figures are those of the code."""

from __future__ import annotations

import asyncio
import re
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

import attrs
import pytest

from rocketpy import client
from rocketpy.client import ConsumerConfig, Message, ProducerConfig, aio
from rocketpy.client.consumer.config import MAX_RECONSUME_TIMES
from rocketpy.client.consumer.consumer import TASKS
from rocketpy.client.trace.trace_dispatcher import FLUSH_SECONDS, QUEUE_ENTRIES_MAX
from rocketpy.client.validators import GROUP_LENGTH_MAX
from rocketpy.errors import BrokerError, BrokersError, ClientError, RemotingConnectError
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.protocol.topic_name import RETRY_PREFIX, TOPIC_LENGTH_MAX, TRACE_TOPIC
from rocketpy.store.config import MessageStoreConfig
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.docs.example_programs import EXAMPLES
from tests.page_text import blocks, links, missing_imports

PAGE = (EXAMPLES.parent / "client.md").read_text()
PROGRAMS = [each for each in blocks(PAGE, "python") if re.match(r"import|from", each)]
EXCERPTS = [each for each in blocks(PAGE, "python") if each not in PROGRAMS]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInThread]:
    with open_broker_in_thread(BrokerOptions()) as broker:
        yield broker


def test_the_programs_run_in_their_order(broker: BrokerInThread) -> None:
    outputs = []
    for program in PROGRAMS:
        with redirect_stdout(StringIO()) as printed:
            exec(program.replace("127.0.0.1:9876", broker.name_server), {})
        outputs.append(printed.getvalue())
    assert outputs[0].startswith("SendStatus.SEND_OK")
    assert "b'first message'" in outputs[1]
    assert "b'first message'" in outputs[2]
    assert sorted(message.body for message in broker.messages("hello")) == [
        b"first message",
        b"from asyncio",
        b"from plain code",
    ]


async def test_no_nameserver_is_another_error_than_none_that_answers() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `RemotingConnectError`"))
    assert "no nameserver answers" in row
    assert "`NoNameServerError` (10004)" in PAGE
    for name_server, expected in (("", ClientError), ("127.0.0.1:1", RemotingConnectError)):
        with pytest.raises(expected) as caught:
            async with client.open_producer(name_server) as producer:
                await producer.send(Message("hello", b"x"))
        assert getattr(caught.value, "response_code", 10004) == 10004


def windows(text: str, size: int) -> Iterator[str]:
    """Yield all runs of so many lines, without their common indentation."""
    lines = text.splitlines()
    for begin in range(len(lines) - size + 1):
        yield textwrap.dedent("\n".join(lines[begin : begin + size]))


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=lambda each: each.splitlines()[0])
def test_an_excerpt_is_the_text_of_an_example(excerpt: str) -> None:
    text = textwrap.dedent(excerpt.rstrip("\n"))
    size = len(text.splitlines())
    assert [path.name for path in EXAMPLES.glob("*.py") if text in windows(path.read_text(), size)]


def test_links_lead_somewhere_and_imports_work() -> None:
    assert [target for target in links(PAGE) if not (EXAMPLES.parent / target).exists()] == []
    assert [name for program in PROGRAMS for name in missing_imports(program)] == []


def test_the_names_on_the_page_are_public() -> None:
    public = [getattr(client, name) for name in client.__all__] + [BrokerError, BrokersError]
    known = {*client.__all__, "until_end", TRACE_TOPIC, "ROCKETPY_PURE"}
    for each in public:
        known.update(dir(each))
        if attrs.has(each):
            known.update(field.name for field in attrs.fields(each))
    named = set(re.findall(r"`(?:\w+\.)?(\w*_\w+)[`(=]", PAGE))
    assert len(named) > 30
    assert named - known == {"response_code"}, "BrokerError sets it"


def test_the_figures_on_the_page_are_the_defaults() -> None:
    producer, consumer = ProducerConfig(), ConsumerConfig()
    mib = 1 << 20
    for text in (
        f"up to {('no', 'one', 'two', 'three')[1 + producer.retry_times_when_send_failed]} attempts",
        f"`send_msg_timeout` ({producer.send_msg_timeout // 1000} s)",
        f"{producer.max_message_size // mib} MiB (`max_message_size`",
        f"{producer.back_pressure_for_async_send_num:,} messages, "
        f"{producer.back_pressure_for_async_send_size // mib} MiB",
        f"After {MAX_RECONSUME_TIMES} retries",
        f"`consume_timeout` ({consumer.consume_timeout} min)",
        f"while {consumer.pull_threshold_for_queue:,} of its messages, or {consumer.pull_threshold_size_for_queue} MiB",
        f"{consumer.consume_concurrently_max_span:,} offsets apart",
        f"{PROPERTIES_SIZE_MAX:,} bytes",
        f"{TOPIC_LENGTH_MAX} characters; {GROUP_LENGTH_MAX}, "
        f"of which {TOPIC_LENGTH_MAX - len(RETRY_PREFIX)} leave room for `{RETRY_PREFIX}`",
        f"tasks={TASKS}",
        f"up to {QUEUE_ENTRIES_MAX:,} sends and batches wait",
        f"at most {FLUSH_SECONDS:g} s.",
        f"| {len(MessageStoreConfig().message_delay_level.split())}, up to two hours",
    ):
        assert text in PAGE, text
    assert consumer.persist_consumer_offset_interval == 5_000
    assert "five seconds before (`persist_consumer_offset_interval`)" in PAGE


def test_a_client_stays_open_over_the_cells_of_a_notebook(broker: BrokerInThread) -> None:
    """A cell is a task of its own; the blocks are entered in one and left in another."""

    async def notebook() -> None:
        opening = aio.open_client(broker.name_server)
        opened = await asyncio.create_task(opening.__aenter__())
        sending = opened.producer("notebook")
        producer = await asyncio.create_task(sending.__aenter__())
        await asyncio.create_task(producer.send(Message("notebook", b"a cell")))
        await asyncio.create_task(sending.__aexit__(None, None, None))
        await asyncio.create_task(opening.__aexit__(None, None, None))

    asyncio.run(notebook())
    assert [message.body for message in broker.messages("notebook")] == [b"a cell"]
