"""Registration with nameservers that are only a transport: requests by address, answers as they would be."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import cast

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.metadata import registration_body
from rocketpy.broker.metadata.registration import RegistrationService
from rocketpy.errors import RemotingConnectError
from rocketpy.nameserver.routes.broker_table import BrokerRegistration
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.bodies.topic import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import PERM_READ_WRITE, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.registration import (
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from rocketpy.remoting.client import RemotingClient
from rocketpy.runner import run_inline
from tests.broker.tables_of_a_broker import Tables

NS1, NS2 = BOTH = "ns1:9876", "ns2:9876"
BROKER = "127.0.0.1:10911"
REGISTER, QUERY = RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION


class Nameservers:
    """What was asked of each address, and what each answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, RemotingCommand]] = []
        self.unreachable: set[str] = set()
        self.refusing: set[str] = set()
        self.broken: set[str] = set()
        self.order_topics: dict[str, str] | None = None
        self.body: bytes | None = None
        """What a registration is answered with when no topics are ordered."""
        self.knows: DataVersion | None = None
        self.timeouts: list[float] = []
        self.master: tuple[str | None, str | None] = (None, None)
        """Address for requests and for replication, as every nameserver answers them."""

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        if address in self.broken:
            raise KeyError("a bug")
        await trio.lowlevel.checkpoint()
        self.timeouts.append(timeout_s)
        request.opaque = len(self.asked)
        self.asked.append((address, request))
        if address in self.unreachable:
            raise RemotingConnectError(f"cannot connect to {address}: refused")
        if address in self.refusing:
            return make_response(request, ResponseCode.SYSTEM_ERROR, "no")
        if request.code == QUERY:
            changed = decode_body(request.body, DataVersion) != self.knows
            return make_response(request, header=QueryDataVersionResponseHeader(changed))
        body = self.body if self.order_topics is None else encode_body(KVTable(self.order_topics))
        master_addr, ha_server_addr = self.master
        header = RegisterBrokerResponseHeader(ha_server_addr=ha_server_addr, master_addr=master_addr)
        return make_response(request, header=header, body=body)

    def codes(self, address: str) -> list[int]:
        return [request.code for asked, request in self.asked if asked == address]


def topics_of(request: RemotingCommand) -> TopicConfigSerializeWrapper:
    """Return the topics that a registration brings."""
    return decode_body(request.body, RegisterBrokerBody).topic_config_serialize_wrapper


class Gated(Nameservers):
    """Nameservers that answer once the gate is open that was there when they were asked."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = trio.Event()
        self.gate.set()

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        await self.gate.wait()
        return await super().request(address, request, timeout_s)


class Search:
    """What a slave has been answered of its master."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str | None, str | None]] = []

    @property
    def is_complete(self) -> bool:
        return bool(self.taken) and None not in self.taken[-1]

    def take(self, nameserver: str, master_addr: str | None, ha_server_addr: str | None) -> None:
        self.taken.append((nameserver, master_addr, ha_server_addr))


def service_of(
    tables: Tables, nameservers: Nameservers, *, at: Sequence[str] = (NS1,), search: Search | None = None
) -> RegistrationService:
    return RegistrationService(
        config=tables.config,
        namesrv_addresses=at,
        broker_addr=BROKER,
        ha_server_addr="127.0.0.1:10912",
        topic_config_manager=tables.topics,
        master_search=search or Search(),
        client=cast(RemotingClient, nameservers),
        run_blocking=run_inline,
    )


class Routes(Nameservers):
    """A nameserver with tables; ``taken_max`` registrations are taken, the next one fails."""

    def __init__(self) -> None:
        super().__init__()
        self.routes: RouteInfoManager[object] = RouteInfoManager()
        self.taken_max = 1_000_000

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        if request.code == REGISTER:
            self.taken_max -= 1
            if self.taken_max < 0:
                raise RemotingConnectError("gone")
            header = read_header(request, RegisterBrokerRequestHeader)
            wrapper = topics_of(request)
            result = self.routes.register_broker(
                BrokerRegistration(
                    cluster_name=header.cluster_name,
                    broker_addr=header.broker_addr,
                    broker_name=header.broker_name,
                    broker_id=header.broker_id,
                    ha_server_addr=header.ha_server_addr,
                    data_version=wrapper.data_version,
                    filter_servers=[],
                ),
                connection=self,
                now=0.0,
            )
            if result.takes_topics:
                self.routes.put_topics(header.broker_name, wrapper.topic_config_table.values())
        self.knows = self.routes.data_version_of(BROKER)
        return await super().request(address, request, timeout_s)


async def test_a_table_that_does_not_fit_a_frame_is_registered_in_parts(
    tables: Tables, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to end the broker, and every start after it; with a real frame: ``test_registration_end_to_end``."""
    monkeypatch.setattr(registration_body, "PART_BYTES_MAX", 1000)
    for number in range(46):
        tables.topics.update_topic_config(TopicConfig(f"%RETRY%{number:0120}", 1, 1))
    nameservers = Routes()
    service = service_of(tables, nameservers)
    await nursery.start(service.run)
    assert list(chain(*nameservers.routes.all_topics())) == list(tables.topics.topic_config_table)
    assert nameservers.knows == tables.topics.data_version
    part_count = len(nameservers.asked) - 1
    assert part_count >= 4
    # The next rounds only show that the broker is alive: nothing that an operator has changed there is undone.
    assert sum(nameservers.routes.wipe_write_perm("broker-a")) > 46
    await trio.sleep(31)
    assert nameservers.codes(NS1) == [QUERY, *[REGISTER] * part_count, QUERY, REGISTER]
    route = nameservers.routes.pick_up_topic_route_data(f"%RETRY%{0:0120}")
    assert route is not None
    assert route.queue_datas[0].perm == 4
    assert service.statistics().registered_count == 2


async def test_a_registration_that_broke_off_is_made_again_whole(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration_body, "PART_BYTES_MAX", 200)  # a topic each
    nameservers = Routes()
    service = service_of(tables, nameservers)
    for taken in range(4):
        nameservers.taken_max = taken
        await service.register_all()
        assert nameservers.routes.data_version_of(BROKER) != tables.topics.data_version
    nameservers.taken_max = 100
    await service.register_all()
    assert list(chain(*nameservers.routes.all_topics())) == list(tables.topics.topic_config_table)
    assert nameservers.routes.data_version_of(BROKER) == tables.topics.data_version


async def test_an_unexpected_failure_is_contained_in_the_round_with_one_nameserver(
    tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    nameservers = Nameservers()
    nameservers.broken.add(NS1)
    service = service_of(tables, nameservers, at=BOTH)
    await service.register_all()
    assert nameservers.codes(NS2) == [REGISTER]
    assert service.statistics().registered_count == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    await service.unregister_all()
    assert nameservers.codes(NS2) == [REGISTER, RequestCode.UNREGISTER_BROKER]


async def test_every_nameserver_gets_all_topics(tables: Tables) -> None:
    nameservers = Nameservers()
    await service_of(tables, nameservers, at=BOTH).register_all()
    assert sorted(address for address, _ in nameservers.asked) == [NS1, NS2]
    for _, request in nameservers.asked:
        header = read_header(request, RegisterBrokerRequestHeader)
        assert attrs.astuple(header)[:5] == ("broker-a", "127.0.0.1:10911", "DefaultCluster", "127.0.0.1:10912", 0)
        assert request.body is not None
        assert header.body_crc32 == zlib.crc32(request.body) & 0x7FFFFFFF
        assert topics_of(request) == tables.topics.wrapper()


async def test_the_topics_can_be_compressed(tables_with: Callable[..., Tables]) -> None:
    tables, nameservers = tables_with(compressed_register=True), Nameservers()
    await service_of(tables, nameservers).register_all()
    request = nameservers.asked[0][1]
    header = read_header(request, RegisterBrokerRequestHeader)
    assert header.compressed
    assert request.body is not None
    assert header.body_crc32 == zlib.crc32(request.body) & 0x7FFFFFFF
    body = RegisterBrokerBody.decode_compressed(request.body)
    assert body.topic_config_serialize_wrapper == tables.topics.wrapper()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_round_releases_its_new_topics_also_when_it_fails_and_no_later_ones(
    tables: Tables, nursery: trio.Nursery, fails: bool
) -> None:
    def create(topic: str) -> None:
        tables.topics.create_topic_in_send_message_back_method(topic, 1, PERM_READ_WRITE, 0)

    def waiting() -> set[str]:
        return {topic for topic in ("first", "second") if topic in tables.topics.new}

    nameservers = Gated()
    await nursery.start(service_of(tables, nameservers).run)
    nameservers.unreachable |= {NS1} if fails else set()
    nameservers.gate = round_of_first = trio.Event()
    create("first")
    await trio.testing.wait_all_tasks_blocked()
    create("second")
    assert waiting() == {"first", "second"}
    nameservers.gate = round_of_second = trio.Event()
    round_of_first.set()
    await trio.testing.wait_all_tasks_blocked()
    assert waiting() == {"second"}
    round_of_second.set()
    await trio.testing.wait_all_tasks_blocked()
    assert waiting() == set()


async def test_a_nameserver_has_so_long_to_answer(tables_with: Callable[..., Tables]) -> None:
    tables, nameservers = tables_with(register_broker_timeout_mills=2500), Nameservers()
    await service_of(tables, nameservers).register_all()
    assert nameservers.timeouts == [2.5]


async def test_the_period_is_a_setting(
    tables_with: Callable[..., Tables], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    tables, nameservers = tables_with(register_name_server_period=20_000), Nameservers()
    await nursery.start(service_of(tables, nameservers).run)
    await trio.sleep(61)
    assert nameservers.codes(NS1) == [REGISTER] * 4


async def test_a_change_of_a_topic_is_registered_at_once_and_several_together(
    tables: Tables, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nameservers = Nameservers()
    await nursery.start(service_of(tables, nameservers).run)
    for topic in "abc":
        tables.topics.update_topic_config(TopicConfig(topic))
    await trio.testing.wait_all_tasks_blocked()
    assert len(nameservers.asked) == 2
    assert {"a", "b", "c"} <= topics_of(nameservers.asked[1][1]).topic_config_table.keys()
    assert trio.current_time() == 0


class OneAtATime(Gated):
    """Nameservers that refuse a registration while another one of the broker is under way, as ours do for long ones."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: set[str] = set()

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        assert address not in self.under_way
        self.under_way.add(address)
        try:
            return await super().request(address, request, timeout_s)
        finally:
            self.under_way.discard(address)


async def test_a_nameserver_gets_one_registration_at_a_time_and_the_last_one_has_all_changes(
    tables: Tables, nursery: trio.Nursery
) -> None:
    """An operator's script creates topics while the broker registers the one before: nothing of it may be refused."""
    nameservers = OneAtATime()
    service = service_of(tables, nameservers, at=BOTH)
    await nursery.start(service.run)
    nameservers.gate = trio.Event()
    answered: list[str] = []

    async def create(topic: str) -> None:
        tables.topics.update_topic_config(TopicConfig(topic))
        await service.register_all()
        for address in BOTH:
            last = [request for asked, request in nameservers.asked if asked == address][-1]
            assert topic in topics_of(last).topic_config_table
        answered.append(topic)

    for topic in "abcde":
        nursery.start_soon(create, topic)
        await trio.testing.wait_all_tasks_blocked()
    assert answered == []
    nameservers.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(answered) == list("abcde")
    assert nameservers.codes(NS1) == nameservers.codes(NS2)
    assert len(nameservers.codes(NS1)) <= 4, "the first, a, the others together, and what the loop saw of them"
    assert service.statistics().failed_count == 0


async def test_a_registration_that_was_cancelled_is_not_taken_for_one_by_those_that_wait(
    tables: Tables, nursery: trio.Nursery
) -> None:
    """The operator's connection may end meanwhile."""
    nameservers = OneAtATime()
    nameservers.gate = trio.Event()
    service = service_of(tables, nameservers)
    scope = trio.CancelScope()

    async def ends_early() -> None:
        with scope:
            await service.register_all()

    nursery.start_soon(ends_early)
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(service.register_all)
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    nameservers.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert nameservers.codes(NS1) == [REGISTER]
    assert topics_of(nameservers.asked[0][1]) == tables.topics.wrapper()


async def test_without_force_only_outdated_nameservers_are_registered_with(
    tables_with: Callable[..., Tables], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    tables, nameservers = tables_with(force_register=False), Nameservers()
    await nursery.start(service_of(tables, nameservers).run)
    nameservers.knows = tables.topics.data_version
    await trio.sleep(31)
    nameservers.knows = None
    await trio.sleep(30)
    nameservers.refusing.add(NS1)
    await trio.sleep(30)
    assert nameservers.codes(NS1) == [REGISTER, QUERY, QUERY, REGISTER, QUERY, REGISTER]


async def test_an_unreachable_nameserver_does_not_delay_the_others(tables: Tables) -> None:
    nameservers = Nameservers()
    service = service_of(tables, nameservers, at=BOTH)
    nameservers.unreachable.add(NS1)
    for _ in range(3):
        await service.register_all()
    assert len(nameservers.codes(NS2)) == 3
    statistics = service.statistics()
    assert (statistics.registered_count, statistics.failed_count, statistics.unreachable) == (3, 3, (NS1,))
    nameservers.unreachable.clear()
    await service.register_all()
    assert service.statistics().unreachable == ()


async def test_a_broker_that_is_taken_for_a_nameserver_is_named(
    tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    class Broker(Nameservers):
        async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
            await trio.lowlevel.checkpoint()
            code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            return make_response(request, code, f" request type {request.code} not supported")

    await service_of(tables, Broker(), at=[NS1]).register_all()
    (fields,) = [vars(each)["fields"] for each in caplog.records if hasattr(each, "fields")]
    assert fields["why"].startswith("this is no nameserver, expected its address (port 9876 by default): code 3: ")


async def test_the_first_nameserver_says_which_topics_are_ordered(tables: Tables) -> None:
    tables.topics.update_topic_config(TopicConfig("t"))
    nameservers = Nameservers()
    nameservers.order_topics = {"t": "broker-a:4"}
    await service_of(tables, nameservers, at=[NS2]).register_all()
    config = tables.topics.select_topic_config("t")
    assert config is not None
    assert config.order


@pytest.mark.parametrize(("body", "is_malformed"), [(b"nonsense", True), (b"", False), (None, False)])
async def test_a_malformed_response_body_is_skipped(
    tables: Tables, caplog: pytest.LogCaptureFixture, body: bytes | None, is_malformed: bool
) -> None:
    nameservers = Nameservers()
    nameservers.body = body
    service = service_of(tables, nameservers)
    await service.register_all()
    assert not tables.topics.stored.has_changes
    assert service.statistics().registered_count == 1
    assert ("nameserver answered a registration with a malformed body" in caplog.messages) is is_malformed


async def test_unregistration_is_sent_to_all(tables: Tables) -> None:
    nameservers = Nameservers()
    nameservers.unreachable.add(NS1)
    await service_of(tables, nameservers, at=BOTH).unregister_all()
    assert sorted(address for address, _ in nameservers.asked) == [NS1, NS2]
    for _, request in nameservers.asked:
        assert request.code == RequestCode.UNREGISTER_BROKER
        header = read_header(request, UnRegisterBrokerRequestHeader)
        assert attrs.astuple(header) == ("broker-a", "127.0.0.1:10911", "DefaultCluster", 0)


async def test_without_nameservers_it_only_waits(tables: Tables, nursery: trio.Nursery) -> None:
    nameservers = Nameservers()
    service = service_of(tables, nameservers, at=())
    await nursery.start(service.run)
    await service.unregister_all()
    assert nameservers.asked == []


async def test_a_slave_registers_queries_and_unregisters_with_its_own_id(tables_with: Callable[..., Tables]) -> None:
    tables, nameservers = tables_with(broker_id=3, force_register=False), Nameservers()
    service = service_of(tables, nameservers)
    await service.register_all(force=False)
    await service.unregister_all()
    query, register, unregister = (request for _, request in nameservers.asked)
    assert read_header(query, QueryDataVersionRequestHeader).broker_id == 3
    assert read_header(register, RegisterBrokerRequestHeader).broker_id == 3
    assert read_header(unregister, UnRegisterBrokerRequestHeader).broker_id == 3


async def test_each_answer_of_a_nameserver_names_the_master(tables_with: Callable[..., Tables]) -> None:
    tables, nameservers, search = tables_with(broker_id=1), Nameservers(), Search()
    service = service_of(tables, nameservers, at=BOTH, search=search)
    nameservers.unreachable.add(NS2)
    await service.register_all()
    nameservers.unreachable.clear()
    nameservers.master = ("m:10911", "m:10912")
    await service.register_all()
    assert search.taken[0] == (NS1, None, None)
    assert sorted(search.taken[1:]) == [(NS1, "m:10911", "m:10912"), (NS2, "m:10911", "m:10912")]


async def test_a_slave_without_a_master_registers_again_soon(
    tables_with: Callable[..., Tables], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Java waits for the next period, which is 30 s."""
    tables, nameservers, search = tables_with(broker_id=1, force_register=False), Nameservers(), Search()
    await nursery.start(service_of(tables, nameservers, search=search).run)
    assert nameservers.codes(NS1) == [REGISTER]
    await trio.sleep(7)
    assert nameservers.codes(NS1) == [REGISTER] * 3
    nameservers.master = ("m:10911", "m:10912")
    await trio.sleep(3)
    assert search.is_complete
    await trio.sleep(60)
    assert nameservers.codes(NS1) == [REGISTER] * 6
    nameservers.master = (None, None)
    await trio.sleep(30)
    assert nameservers.codes(NS1) == [REGISTER] * 7
    await trio.sleep(9)
    assert nameservers.codes(NS1) == [REGISTER] * 10


async def test_a_slave_that_has_lost_its_master_registers_soon(
    tables_with: Callable[..., Tables], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """What it knows may be right: the master may be back at the same address, or be named at another one by now."""
    tables, nameservers, search = tables_with(broker_id=1), Nameservers(), Search()
    nameservers.master = ("m:10911", "m:10912")
    await nursery.start(service_of(tables, nameservers, search=search).run)
    await trio.sleep(20)
    assert nameservers.codes(NS1) == [REGISTER]
    search.taken.clear()
    await trio.sleep(3.1)
    assert nameservers.codes(NS1) == [REGISTER] * 2
    await trio.sleep(27)
    assert nameservers.codes(NS1) == [REGISTER] * 2
    tables.topics.update_topic_config(TopicConfig("t"))
    await trio.testing.wait_all_tasks_blocked()
    assert nameservers.codes(NS1) == [REGISTER] * 3
