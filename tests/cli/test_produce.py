"""``rocketpy produce``: lines to messages, at once and in bulk."""

from __future__ import annotations

import signal

import pytest

from rocketpy.cli.outcome import CommandError
from rocketpy.cli.produce import BATCH_MESSAGES_MAX, LINE_SIZE_MAX, LineFormat, LineReader, batches, send_lines
from rocketpy.errors import BrokerError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import Message
from tests.cli.conftest import TOPIC, line, run, started
from tests.client.fake_cluster import FakeCluster
from tests.patience import until

PLAIN = LineFormat(topic=TOPIC, properties={}, key_separator=b"")


# ---- pure parts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_do_not_depend_on_how_they_arrive(size: int) -> None:
    text = b"one\n\ntwo\r\n three \nlast without end"
    reader = LineReader()
    found = [each for at in range(0, len(text), size) for each in reader.take(text[at : at + size])]
    assert found + reader.take(b"") == [b"one", b"two\r", b" three ", b"last without end"]


def test_an_endless_line_is_refused_before_it_fills_memory() -> None:
    reader = LineReader()
    reader.take(b"x" * LINE_SIZE_MAX)
    with pytest.raises(CommandError, match="longer than 4194304 bytes"):
        reader.take(b"x")


def test_a_line_becomes_a_message() -> None:
    plain = LineFormat(topic="T", properties={"TAGS": "a"}, key_separator=b"")
    assert plain.message(b"k:v") == Message("T", b"k:v", {"TAGS": "a"})
    keyed = LineFormat(topic="T", properties={"KEYS": "template"}, key_separator=b"::")
    assert keyed.message(b"k::v::w") == Message("T", b"v::w", {"KEYS": "k"})
    assert keyed.message(b"no separator") == Message("T", b"no separator", {"KEYS": "template"})
    assert keyed.message(b"::v") == Message("T", b"v", {"KEYS": "template"})


def test_batches_are_bounded_by_number_and_size() -> None:
    many = [Message("T", b"x")] * (2 * BATCH_MESSAGES_MAX + 1)
    assert [len(batch) for batch in batches(many)] == [BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX, 1]
    large = [Message("T", b"x" * 200_000)] * 3
    assert [len(batch) for batch in batches(large)] == [1, 1, 1]
    assert list(batches([])) == []


# ---- sending in this process ---------------------------------------------------------------------------------------


async def test_lines_that_arrive_together_are_one_batch(cluster: FakeCluster) -> None:
    chunks = [b"one\ntwo\n", b"thr", b"ee\n", b""]
    await send_lines(lambda: chunks.pop(0), PLAIN, cluster.address, "", False)
    assert sorted(cluster.broker.bodies(TOPIC)) == [b"one", b"three", b"two"]
    assert len(cluster.broker.asked(RequestCode.SEND_BATCH_MESSAGE)) == 1
    assert len(cluster.broker.asked(RequestCode.SEND_MESSAGE_V2)) == 1


async def test_a_failure_tells_how_many_were_stored_before(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    chunks = [b"one\n", b"two\n", b""]

    def read() -> bytes:
        if len(chunks) == 2:
            cluster.broker.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.MESSAGE_ILLEGAL, "no more")
        return chunks.pop(0)

    with pytest.raises(BrokerError, match="no more"):
        await send_lines(read, PLAIN, cluster.address, "", False)
    assert capsys.readouterr().err == "sent 1 message to TopicTest\n"


async def test_a_queue_may_be_chosen(cluster: FakeCluster) -> None:
    chunks = [b"one\n", b"two\nthree\n", b""]
    await send_lines(lambda: chunks.pop(0), PLAIN, cluster.address, "broker-a:2", False)
    assert [each.body for each in cluster.broker.queues[TOPIC, 2]] == [b"one", b"two", b"three"]


# ---- the command ---------------------------------------------------------------------------------------------------


async def test_a_file_is_sent_with_tag_keys_and_properties(cluster: FakeCluster) -> None:
    arguments = ("produce", "-t", TOPIC, "-n", cluster.address, "-T", "blue", "-K", "=", "-p", "a=b", "-p", "c=d=e")
    ended = await run(*arguments, "-v", stdin=b"k1=one\nk2=two\n")
    assert ended.status == 0, ended
    assert [
        (each.body, each.tags, each.keys, each.properties["a"], each.properties["c"])
        for each in cluster.broker.messages(TOPIC)
    ] == [(b"one", "blue", "k1", "b", "d=e"), (b"two", "blue", "k2", "b", "d=e")]
    assert ended.output == b""
    first, last = ended.errors.splitlines()
    assert first.startswith("SEND_OK 2 at broker-a queue ")
    assert last == "sent 2 messages to TopicTest"


async def test_a_line_typed_alone_goes_out_at_once_and_control_c_ends_it(cluster: FakeCluster) -> None:
    async with started("produce", "-t", TOPIC, "-n", cluster.address, "-k", "key") as process:
        assert process.stdin is not None
        for number in range(3):
            await process.stdin.send_all(b"line %d\n" % number)
            await until(lambda number=number: len(cluster.broker.bodies(TOPIC)) == number + 1)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        assert await line(process.stderr) == b"sent 3 messages to TopicTest\n"
        assert await line(process.stderr) == b""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-t", TOPIC, "-q", "9"), "no queue '9', expected one of: broker-a:0"),
        (("-t", "ReadOnly"), "no topic named 'ReadOnly' at 127"),
    ],
)
async def test_refusals_are_one_sentence_and_status_1(
    cluster: FakeCluster, arguments: tuple[str, ...], sentence: str
) -> None:
    cluster.add_topic("ReadOnly", perm=4)
    ended = await run("produce", "-n", cluster.address, *arguments, stdin=b"x\n")
    assert ended.status == 1, ended
    count, failure = ended.errors.splitlines()
    assert count.startswith("sent 0 messages")
    assert failure.startswith("rocketpy: ")
    assert sentence in failure


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-t", "a b"), "illegal characters"),
        (("-t", TOPIC, "-p", "PGROUP=x"), "The Property<PGROUP> is used by system"),
    ],
)
async def test_what_no_message_may_have_is_refused_though_none_comes(
    cluster: FakeCluster, arguments: tuple[str, ...], sentence: str
) -> None:
    ended = await run("produce", "-n", cluster.address, *arguments, stdin=b"")
    assert ended.status == 1
    (failure,) = ended.errors.splitlines()
    assert failure.startswith("rocketpy: ")
    assert sentence in failure


async def test_the_tag_may_still_be_given_as_before_with_a_warning(cluster: FakeCluster) -> None:
    ended = await run("produce", "-t", TOPIC, "-n", cluster.address, "-g", "blue", stdin=b"x\n")
    assert ended.errors.splitlines()[0] == "rocketpy: -g TAG is deprecated: use -T TAG or --tag TAG"
    (sent,) = cluster.broker.messages(TOPIC)
    assert sent.tags == "blue"
