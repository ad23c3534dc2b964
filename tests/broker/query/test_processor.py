"""Messages by key and by place, over bytes from a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.query.processor import (
    INDEX_WAIT_SECONDS,
    QUERIES_OF_ADDRESS_RUNNING_MAX,
    QUERIES_OF_ADDRESS_WAITING_MAX,
    QUERIES_RUNNING_MAX,
    QUERIES_WAITING_MAX,
)
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.remoting.connection import Connection
from rocketpy.store.ha.record_digest import digest_of
from rocketpy.store.index import query as message_query
from rocketpy.store.index.query import STEPS_USED_UP
from rocketpy.store.results import QueryMessageResult
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, send
from tests.forged_record import body_posing_as_record

NOW = 1_700_000_000_000


@pytest.fixture
async def broker() -> AsyncIterator[MessageBroker]:
    async with open_message_broker() as broker:
        yield broker


def query(
    key: str,
    topic: str = TOPIC,
    max_num: int = 32,
    begin: int = 0,
    end: int = 2**63 - 1,
    *,
    unique: str | None = None,
    serialize_type: SerializeType = SerializeType.JSON,
) -> RemotingCommand:
    header = QueryMessageRequestHeader(topic=topic, key=key, max_num=max_num, begin_timestamp=begin, end_timestamp=end)
    request = make_request(RequestCode.QUERY_MESSAGE, header)
    assert request.ext_fields is not None
    if unique is not None:
        request.ext_fields["_UNIQUE_KEY_QUERY"] = unique
    request.serialize_type = serialize_type
    return request


def view(offset: int, serialize_type: SerializeType = SerializeType.JSON) -> RemotingCommand:
    request = make_request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=offset))
    request.serialize_type = serialize_type
    return request


def bodies(answer: RemotingCommand) -> list[str]:
    return [(message.body or b"").decode() for message in decode_messages(answer.body or b"")]


async def send_keyed(broker: MessageBroker, body: str, keys: str, unique_key: str) -> RemotingCommand:
    return await broker.ask(send(body.encode(), properties=f"KEYS\x01{keys}\x02UNIQ_KEY\x01{unique_key}"))


# ---- by key ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serialize_type", list(SerializeType))
async def test_messages_by_key_and_by_unique_key(broker: MessageBroker, serialize_type: SerializeType) -> None:
    await send_keyed(broker, "one", "k1 k2", "U1")
    last_id = ((await send_keyed(broker, "two", "k2", "U2")).ext_fields or {})["msgId"]
    for key, found in (("k1", ["one"]), ("k2", ["one", "two"]), ("U1", ["one"]), ("U2", ["two"])):
        answer = await broker.ask(query(key, serialize_type=serialize_type))
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
        assert bodies(answer) == found
    assert answer.ext_fields == {
        "indexLastUpdateTimestamp": str(NOW),
        "indexLastUpdatePhyoffset": str(int(last_id[16:], 16)),
    }


async def test_a_query_for_an_id_has_a_limit_of_its_own() -> None:
    async with open_message_broker(store={"default_query_max_num": 2}) as broker:
        for _ in range(5):
            await send_keyed(broker, "one", "k", "U")
        assert len(bodies(await broker.ask(query("U", max_num=4)))) == 4
        assert len(bodies(await broker.ask(query("U", max_num=4, unique="true")))) == 2


async def test_as_many_whole_records_are_found_as_a_frame_can_carry() -> None:
    large = {"mapped_file_size_commit_log": 32 << 20, "max_message_size": 4 << 20}
    async with open_message_broker(store=large) as broker:
        for _ in range(5):
            await send_keyed(broker, "x" * (4 << 20), "k", "U")
        answer = await broker.ask(query("k"))
        assert answer.code == ResponseCode.SUCCESS
        assert len(bodies(answer)) == 3


@pytest.mark.parametrize("key", ["k2", "K1", "", "x" * 1000, "ü"])
async def test_nothing_is_found_with_a_header_all_the_same(broker: MessageBroker, key: str) -> None:
    await send_keyed(broker, "one", "k1", "U1")
    answer = await broker.ask(query(key))
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert answer.remark == "can not find message, maybe time range not correct"
    assert set(answer.ext_fields or {}) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
    assert answer.body is None


async def test_another_topic_has_other_keys(broker: MessageBroker) -> None:
    await send_keyed(broker, "one", "k1", "U1")
    assert (await broker.ask(query("k1", "Other"))).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_record_of_another_topic_with_the_same_hash_is_not_shown(broker: MessageBroker) -> None:
    """A reader of one topic could choose a key that leads into another: "Aa" and "BB" have one hash.

    Compatibility: RocketMQ shows it; its clients leave it out.
    """
    for topic, body in (("TopicAa", "mine"), ("TopicBB", "secret")):
        broker.tables.topics.update_topic_config(TopicConfig(topic))
        await broker.ask(send(body.encode(), topic=topic, properties="KEYS\x01k\x02UNIQ_KEY\x01U"))
    assert bodies(await broker.ask(query("k", "TopicAa"))) == ["mine"]
    assert bodies(await broker.ask(query("k", "TopicBB"))) == ["secret"]


class Gate:
    """Holds the queries of a store until it is opened, and counts them."""

    def __init__(self, broker: MessageBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: list[int] = []
        self.is_open = trio.Event()
        self.answers: dict[str, list[RemotingCommand]] = {}
        self._count = 0
        self._broker = broker
        self._query_message = broker.store.query_message
        monkeypatch.setattr(broker.store, "query_message", self._counted)

    async def _counted(self, *arguments: object) -> QueryMessageResult:
        self._count += 1
        self.running.append(self._count)
        try:
            await self.is_open.wait()
        finally:
            self._count -= 1
        return await self._query_message(*arguments)  # type: ignore[arg-type]

    async def ask(self, host: str) -> None:
        port = 50_000 + len(self.answers) + sum(map(len, self.answers.values()))
        answer = await self._broker.ask(query("k"), self._broker.connect((host, port)))
        self.answers.setdefault(host, []).append(answer)


async def test_few_queries_read_at_a_time_and_some_more_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_message_broker() as broker:
        await send_keyed(broker, "one", "k", "U")
        gate = Gate(broker, monkeypatch)
        async with trio.open_nursery() as nursery:
            for number in range(QUERIES_RUNNING_MAX + QUERIES_WAITING_MAX + 3):
                nursery.start_soon(gate.ask, f"10.0.0.{number}")
                await trio.testing.wait_all_tasks_blocked()
            answers = [answer for each in gate.answers.values() for answer in each]
            assert [answer.code for answer in answers] == [ResponseCode.SYSTEM_BUSY] * 3
            assert all("queries by key are running" in (answer.remark or "") for answer in answers)
            gate.is_open.set()
        answers = [answer for each in gate.answers.values() for answer in each]
        assert max(gate.running) == QUERIES_RUNNING_MAX
        assert [bodies(answer) for answer in answers[3:]] == [["one"]] * (QUERIES_RUNNING_MAX + QUERIES_WAITING_MAX)


@pytest.mark.parametrize("hosts", [("10.0.0.1",), ("10.0.0.1", "::ffff:10.0.0.1")])
async def test_one_address_leaves_room_for_the_queries_of_others(
    hosts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries that take long: those of an address with many connections hold neither all slots nor all places to wait.

    An address that came over IPv4 once and over IPv6 the other time is one.
    """
    own_max = QUERIES_OF_ADDRESS_RUNNING_MAX + QUERIES_OF_ADDRESS_WAITING_MAX
    async with open_message_broker() as broker:
        await send_keyed(broker, "one", "k", "U")
        gate = Gate(broker, monkeypatch)
        async with trio.open_nursery() as nursery:
            for number in range(own_max + 5):
                nursery.start_soon(gate.ask, hosts[number % len(hosts)])
                await trio.testing.wait_all_tasks_blocked()
            refused = [answer for each in gate.answers.values() for answer in each]
            assert [answer.code for answer in refused] == [ResponseCode.SYSTEM_BUSY] * 5
            assert all("for this address" in (answer.remark or "") for answer in refused)
            assert gate.running[-1] == QUERIES_OF_ADDRESS_RUNNING_MAX
            nursery.start_soon(gate.ask, "10.0.0.2")
            await trio.testing.wait_all_tasks_blocked()
            assert gate.running[-1] == QUERIES_OF_ADDRESS_RUNNING_MAX + 1, "another's runs at once"
            gate.is_open.set()
        assert [bodies(answer) for answer in gate.answers["10.0.0.2"]] == [["one"]]
        assert gate.running.count(max(gate.running)) >= 1
        for host in hosts:
            await gate.ask(host)
            assert bodies(gate.answers[host][-1]) == ["one"], "an address may ask again"


async def test_what_waits_for_a_slot_of_its_address_is_forgotten_when_it_is_cancelled(
    broker: MessageBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_keyed(broker, "one", "k", "U")
    gate = Gate(broker, monkeypatch)
    for _ in range(3):
        async with trio.open_nursery() as nursery:
            for _ in range(QUERIES_OF_ADDRESS_WAITING_MAX):
                nursery.start_soon(gate.ask, "10.0.0.1")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    gate.is_open.set()
    await gate.ask("10.0.0.1")
    assert [bodies(answer) for answer in gate.answers["10.0.0.1"]] == [["one"]]


async def test_a_query_that_ends_early_says_so_and_is_logged_once_a_minute(
    broker: MessageBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
) -> None:
    monkeypatch.setattr(message_query, "QUERY_STEPS_MAX", 2)
    for number in range(4):
        await send_keyed(broker, f"{number}", "k", f"U{number}")
    answer = await broker.ask(query("k"))
    assert (answer.code, bodies(answer), answer.remark) == (ResponseCode.SUCCESS, ["2", "3"], STEPS_USED_UP)
    answer = await broker.ask(query("k", end=NOW - 60_000))
    assert (answer.code, answer.remark) == (
        ResponseCode.QUERY_NOT_FOUND,
        "can not find message, maybe time range not correct",
    )
    for _ in range(2):
        await broker.ask(query("k"))
    logged = [each for each in caplog.messages if STEPS_USED_UP in each]
    assert len(logged) == 1
    assert f"for key 'k' of topic {TOPIC}" in logged[0]
    await trio.sleep(61)
    await broker.ask(query("k"))
    assert sum(STEPS_USED_UP in each for each in caplog.messages) == 2


@pytest.mark.parametrize("key", ["k", "other"])
async def test_an_answer_that_may_lack_something_says_so_after_a_wait(
    monkeypatch: pytest.MonkeyPatch, key: str, autojump_clock: trio.testing.MockClock
) -> None:
    why = "the index is 77 bytes of the log behind"
    async with open_message_broker() as broker:
        await send_keyed(broker, "one", "k", "U")
        query_message = broker.store.query_message

        async def incomplete(*arguments: object) -> QueryMessageResult:
            return attrs.evolve(await query_message(*arguments), why_incomplete=why)  # type: ignore[arg-type]

        monkeypatch.setattr(broker.store, "query_message", incomplete)
        monkeypatch.setattr(broker.store, "wait_indexed", trio.sleep_forever)
        asked_at = trio.current_time()
        answer = await broker.ask(query(key))
        assert trio.current_time() - asked_at == pytest.approx(INDEX_WAIT_SECONDS, abs=0.5)
    if key == "k":
        assert bodies(answer) == ["one"]
        assert answer.remark == why
    else:
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert answer.remark == f"can not find message, maybe time range not correct; {why}"


async def test_queries_that_wait_for_the_index_are_limited(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    answers: list[RemotingCommand] = []
    async with open_message_broker() as broker:
        await send_keyed(broker, "one", "k", "U")
        monkeypatch.setattr(broker.store, "wait_indexed", trio.sleep_forever)

        async def ask(connection: Connection) -> None:
            answers.append(await broker.ask(query("k"), connection))

        async with trio.open_nursery() as nursery:
            for number in range(QUERIES_WAITING_MAX + 3):
                nursery.start_soon(ask, broker.connect((f"10.0.0.{number}", 50_000)))
    assert [answer.code for answer in answers].count(ResponseCode.SYSTEM_BUSY) == 3
    assert [answer.code for answer in answers].count(ResponseCode.SUCCESS) == QUERIES_WAITING_MAX


async def test_who_does_not_read_the_answers_gets_no_more(
    broker: MessageBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_keyed(broker, "one", "k", "U")
    monkeypatch.setattr(Connection, "has_room", lambda connection, size: False)
    answer = await broker.ask(query("k"))
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert "too many replies wait" in (answer.remark or "")


async def test_only_what_was_stored_in_the_time_is_found(broker: MessageBroker) -> None:
    """Compatibility: the index keeps whole seconds; what began a file keeps its time to the millisecond."""
    await send_keyed(broker, "early", "k", "U1")
    broker.tables.clock.advance_ms(10_000)
    await send_keyed(broker, "late", "k", "U2")
    assert bodies(await broker.ask(query("k", end=NOW + 5000))) == ["early"]
    assert bodies(await broker.ask(query("k", begin=NOW + 5000))) == ["late"]
    assert (await broker.ask(query("k", begin=NOW + 60_000))).code == ResponseCode.QUERY_NOT_FOUND
    assert (await broker.ask(query("k", begin=NOW + 5000, end=NOW))).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("max_num", "unique", "count"),
    [(1, None, 1), (3, "false", 3), (5, None, 5), (1, "true", 5), (0, "TRUE", 5), (2**31 - 1, None, 5)],
)
async def test_a_query_by_unique_key_is_not_bound_by_the_number_asked_for(
    broker: MessageBroker, max_num: int, unique: str | None, count: int
) -> None:
    for number in range(5):
        await send_keyed(broker, str(number), "k", f"U{number}")
    assert len(bodies(await broker.ask(query("k", max_num=max_num, unique=unique)))) == count


async def test_without_an_index_nothing_is_found() -> None:
    async with open_message_broker(store={"message_index_enable": False}) as broker:
        await send_keyed(broker, "one", "k", "U")
        assert (await broker.ask(query("k"))).code == ResponseCode.QUERY_NOT_FOUND


# ---- by physical offset ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serialize_type", list(SerializeType))
@pytest.mark.parametrize("is_cold", [False, True])
async def test_the_record_at_a_physical_offset(serialize_type: SerializeType, is_cold: bool) -> None:
    disk = SimDisk()
    async with open_message_broker(disk=disk) as broker:
        await broker.ask(send(b"one"))
        answer = await broker.ask(send(b"two"))
        place = int((answer.ext_fields or {})["msgId"][16:], 16)
        if is_cold:
            disk.evict("/store/commitlog/00000000000000000000")
        answer = await broker.ask(view(place, serialize_type))
        assert (answer.code, answer.remark, answer.ext_fields or {}) == (ResponseCode.SUCCESS, None, {})
        assert bodies(answer) == ["two"]


async def test_an_offset_without_a_record_is_refused(broker: MessageBroker) -> None:
    """Compatibility: RocketMQ returns whatever bytes lie there."""
    await broker.ask(send(b"x" * 100))
    places = {*range(1, 300), broker.stored_bytes, 77_777_777, 2**63 - 1, -1, -(2**63)}
    for place in sorted(places):
        answer = await broker.ask(view(place))
        assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {place}")
        assert answer.body is None


async def test_a_record_in_a_body_is_refused(broker: MessageBroker) -> None:
    """Compatibility: RocketMQ shows it as a message of whatever topic it names."""
    body, place = body_posing_as_record(broker.stored_bytes, topic=TOPIC, queue_id=0, queue_offset=0)
    await broker.ask(send(body))
    answer = await broker.ask(view(place))
    assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {place}")


def compare(offset: int, size: object, digest: str) -> RemotingCommand:
    request = view(offset)
    assert request.ext_fields is not None
    request.ext_fields |= {"recordSize": str(size), "recordDigest": digest}
    return request


async def test_a_slave_is_answered_whether_the_log_has_its_record(broker: MessageBroker) -> None:
    await broker.ask(send(b"one"))
    answer = await broker.ask(send(b"two"))
    place = int((answer.ext_fields or {})["msgId"][16:], 16)
    record = (await broker.ask(view(place))).body or b""
    for digest, expected in ((digest_of(record), "true"), (digest_of(record[:-1] + b"?"), "false"), ("", "false")):
        answer = await broker.ask(compare(place, len(record), digest))
        assert (answer.code, answer.body, answer.ext_fields) == (0, None, {"recordIsEqual": expected})
    for request in (compare(place, "many", ""), compare(place, 2**31, "")):
        answer = await broker.ask(request)
        assert (answer.code, (answer.remark or "").partition(":")[0]) == (1, "CompareRecordRequestHeader.recordSize")


async def test_a_slave_may_compare_what_no_unit_names(broker: MessageBroker) -> None:
    """A record of a deleted topic cannot be viewed, but it is a part of the log: two logs with it are equal."""
    answer = await broker.ask(send(b"two"))
    place = int((answer.ext_fields or {})["msgId"][16:], 16)
    record = (await broker.ask(view(place))).body or b""
    broker.store.delete_topic_queues(TOPIC)
    assert (await broker.ask(view(place))).code == 1
    answer = await broker.ask(compare(place, len(record), digest_of(record)))
    assert answer.ext_fields == {"recordIsEqual": "true"}


async def test_messages_that_wait_are_there_to_be_viewed(broker: MessageBroker) -> None:
    """Delayed ones and half messages lie in queues of the broker's own, which name them."""
    for properties in ("UNIQ_KEY\x01A\x02DELAY\x013", "UNIQ_KEY\x01B\x02TRAN_MSG\x01true\x02PGROUP\x01P"):
        answer = await broker.ask(send(b"waits", properties=properties))
        place = int((answer.ext_fields or {})["msgId"][16:], 16)
        assert bodies(await broker.ask(view(place))) == ["waits"]


async def test_a_oneway_question_is_not_answered(broker: MessageBroker) -> None:
    await send_keyed(broker, "one", "k", "U")
    for request in (view(0), view(5), query("k"), query("x")):
        request.flag = 2
        assert await broker.ask_all(request) == []
