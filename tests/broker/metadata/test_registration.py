"""Registration with nameservers that are only a transport: requests by address, answers as they would be."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from itertools import chain
from typing import cast

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.metadata import registration_body
from rocketpy.broker.metadata.registration import RegistrationService
from rocketpy.errors import LocalProtocolError, RemotingConnectError
from rocketpy.nameserver.routes.broker_table import BrokerRegistration
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.bodies.topic import DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.protocol.codes import PERM_READ_WRITE, RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.registration import (
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from rocketpy.remoting.client import RemotingClient
from tests.broker.tables_of_a_broker import Tables

NS1, NS2 = "ns1:9876", "ns2:9876"


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
        encode_frame(request)
        if address in self.unreachable:
            raise RemotingConnectError(f"cannot connect to {address}: refused")
        if address in self.refusing:
            return make_response(request, ResponseCode.SYSTEM_ERROR, "no")
        if request.code == RequestCode.QUERY_DATA_VERSION:
            changed = decode_body(request.body, DataVersion) != self.knows
            return make_response(request, header=QueryDataVersionResponseHeader(changed))
        body = self.body if self.order_topics is None else encode_body(KVTable(self.order_topics))
        master_addr, ha_server_addr = self.master
        header = RegisterBrokerResponseHeader(ha_server_addr=ha_server_addr, master_addr=master_addr)
        return make_response(request, header=header, body=body)

    def codes(self, address: str) -> list[int]:
        return [request.code for asked, request in self.asked if asked == address]


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
    tables: Tables, nameservers: Nameservers, *addresses: str, search: Search | None = None
) -> RegistrationService:
    return RegistrationService(
        config=tables.config,
        namesrv_addresses=addresses or (NS1, NS2),
        broker_addr="127.0.0.1:10911",
        ha_server_addr="127.0.0.1:10912",
        topic_config_manager=tables.topics,
        master_search=search or Search(),
        client=cast(RemotingClient, nameservers),
    )


class Routes(Nameservers):
    """A nameserver with tables; ``taken_max`` registrations are taken, the next one fails."""

    def __init__(self) -> None:
        super().__init__()
        self.routes: RouteInfoManager[object] = RouteInfoManager()
        self.taken_max = 1_000_000

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        if request.code == RequestCode.REGISTER_BROKER:
            self.taken_max -= 1
            if self.taken_max < 0:
                raise RemotingConnectError("gone")
            header = read_header(request, RegisterBrokerRequestHeader)
            wrapper = decode_body(request.body, RegisterBrokerBody).topic_config_serialize_wrapper
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
        self.knows = self.routes.data_version_of("127.0.0.1:10911")
        return await super().request(address, request, timeout_s)


async def test_a_table_that_does_not_fit_a_frame_is_registered_in_parts(
    tables: Tables, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """46,000 retry topics: 17 MB. It used to end the broker, and every start after it."""
    for number in range(46_000):
        topic = f"%RETRY%{number:0120}"
        tables.topics.topic_config_table[topic] = TopicConfig(topic, 1, 1)
    nameservers = Routes()
    service = service_of(tables, nameservers, NS1)
    await nursery.start(service.run)
    assert list(chain(*nameservers.routes.all_topics())) == list(tables.topics.topic_config_table)
    assert nameservers.knows == tables.topics.data_version
    part_count = len(nameservers.asked) - 1
    assert part_count >= 4
    # The next rounds only show that the broker is alive: nothing that an operator has changed there is undone.
    assert sum(nameservers.routes.wipe_write_perm("broker-a")) > 46_000
    await trio.sleep(31)
    query, register = RequestCode.QUERY_DATA_VERSION, RequestCode.REGISTER_BROKER
    assert nameservers.codes(NS1) == [query, *[register] * part_count, query, register]
    route = nameservers.routes.pick_up_topic_route_data(f"%RETRY%{0:0120}")
    assert route is not None
    assert route.queue_datas[0].perm == 4
    assert service.statistics().registered_count == 2


async def test_a_registration_that_broke_off_is_made_again_whole(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration_body, "PART_BYTES_MAX", 200)  # a topic each
    nameservers = Routes()
    service = service_of(tables, nameservers, NS1)
    for taken in range(4):
        nameservers.taken_max = taken
        await service.register_all()
        assert nameservers.routes.data_version_of("127.0.0.1:10911") != tables.topics.data_version
    nameservers.taken_max = 100
    await service.register_all()
    assert list(chain(*nameservers.routes.all_topics())) == list(tables.topics.topic_config_table)
    assert nameservers.routes.data_version_of("127.0.0.1:10911") == tables.topics.data_version


async def test_a_registration_that_cannot_be_sent_is_logged_and_ends_nothing(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> bytes:
        raise LocalProtocolError("frame: expected at most 16777216 bytes, found 19101722")

    monkeypatch.setattr("tests.broker.metadata.test_registration.encode_frame", refuse)
    nameservers = Nameservers()
    service = service_of(tables, nameservers, NS1)
    await service.register_all()
    await service.register_all()
    assert service.statistics().failed_count == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    await service.unregister_all()


async def test_an_unexpected_failure_is_contained_in_the_round_with_one_nameserver(
    tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    nameservers = Nameservers()
    nameservers.broken.add(NS1)
    service = service_of(tables, nameservers)
    await service.register_all()
    assert nameservers.codes(NS2) == [RequestCode.REGISTER_BROKER]
    assert service.statistics().registered_count == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    await service.unregister_all()
    assert nameservers.codes(NS2) == [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER]


async def test_every_nameserver_gets_all_topics(tables: Tables) -> None:
    nameservers = Nameservers()
    await service_of(tables, nameservers).register_all()
    assert sorted(address for address, _ in nameservers.asked) == [NS1, NS2]
    for _, request in nameservers.asked:
        header = read_header(request, RegisterBrokerRequestHeader)
        assert attrs.astuple(header)[:5] == ("broker-a", "127.0.0.1:10911", "DefaultCluster", "127.0.0.1:10912", 0)
        assert request.body is not None
        assert header.body_crc32 == zlib.crc32(request.body) & 0x7FFFFFFF
        body = decode_body(request.body, RegisterBrokerBody)
        assert body.topic_config_serialize_wrapper == tables.topics.wrapper()


async def test_the_topics_can_be_compressed(tables_with: Callable[..., Tables]) -> None:
    tables, nameservers = tables_with(compressed_register=True), Nameservers()
    await service_of(tables, nameservers, NS1).register_all()
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
    await nursery.start(service_of(tables, nameservers, NS1).run)
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
    await service_of(tables, nameservers, NS1).register_all()
    assert nameservers.timeouts == [2.5]


async def test_the_period_is_a_setting(
    tables_with: Callable[..., Tables], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    tables, nameservers = tables_with(register_name_server_period=20_000), Nameservers()
    await nursery.start(service_of(tables, nameservers, NS1).run)
    await trio.sleep(61)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER] * 4


async def test_a_read_only_broker_registers_its_topics_as_read_only(tables_with: Callable[..., Tables]) -> None:
    tables, nameservers = tables_with(broker_permission=4), Nameservers()
    await service_of(tables, nameservers, NS1).register_all()
    wrapper = decode_body(nameservers.asked[0][1].body, RegisterBrokerBody).topic_config_serialize_wrapper
    assert {each.perm for each in wrapper.topic_config_table.values()} == {4}


async def test_it_registers_before_it_says_started_then_periodically(
    tables: Tables, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nameservers = Nameservers()
    await nursery.start(service_of(tables, nameservers, NS1).run)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER]
    await trio.sleep(91)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER] * 4


async def test_a_change_of_a_topic_is_registered_at_once_and_several_together(
    tables: Tables, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nameservers = Nameservers()
    await nursery.start(service_of(tables, nameservers, NS1).run)
    for topic in "abc":
        tables.topics.update_topic_config(TopicConfig(topic))
    await trio.testing.wait_all_tasks_blocked()
    assert len(nameservers.asked) == 2
    wrapper = decode_body(nameservers.asked[1][1].body, RegisterBrokerBody).topic_config_serialize_wrapper
    assert {"a", "b", "c"} <= wrapper.topic_config_table.keys()
    assert trio.current_time() == 0


async def test_without_force_only_outdated_nameservers_are_registered_with(
    tables_with: Callable[..., Tables], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    tables, nameservers = tables_with(force_register=False), Nameservers()
    await nursery.start(service_of(tables, nameservers, NS1).run)
    nameservers.knows = tables.topics.data_version
    await trio.sleep(31)
    nameservers.knows = None
    await trio.sleep(30)
    nameservers.refusing.add(NS1)
    await trio.sleep(30)
    register, query = RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION
    assert nameservers.codes(NS1) == [register, query, query, register, query, register]


async def test_an_unreachable_nameserver_does_not_delay_the_others(tables: Tables) -> None:
    nameservers = Nameservers()
    service = service_of(tables, nameservers)
    nameservers.unreachable.add(NS1)
    for _ in range(3):
        await service.register_all()
    assert len(nameservers.codes(NS2)) == 3
    statistics = service.statistics()
    assert (statistics.registered_count, statistics.failed_count, statistics.unreachable) == (3, 3, (NS1,))
    nameservers.unreachable.clear()
    await service.register_all()
    assert service.statistics().unreachable == ()


async def test_the_first_nameserver_says_which_topics_are_ordered(tables: Tables) -> None:
    tables.topics.update_topic_config(TopicConfig("t"))
    nameservers = Nameservers()
    nameservers.order_topics = {"t": "broker-a:4"}
    await service_of(tables, nameservers, NS2).register_all()
    config = tables.topics.select_topic_config("t")
    assert config is not None
    assert config.order


@pytest.mark.parametrize(("body", "is_malformed"), [(b"nonsense", True), (b"", False), (None, False)])
async def test_a_malformed_response_body_is_skipped(
    tables: Tables, caplog: pytest.LogCaptureFixture, body: bytes | None, is_malformed: bool
) -> None:
    nameservers = Nameservers()
    nameservers.body = body
    service = service_of(tables, nameservers, NS1)
    await service.register_all()
    assert not tables.topics.stored.has_changes
    assert service.statistics().registered_count == 1
    assert ("nameserver answered a registration with a malformed body" in caplog.messages) is is_malformed


async def test_unregistration_is_sent_to_all(tables: Tables) -> None:
    nameservers = Nameservers()
    nameservers.unreachable.add(NS1)
    await service_of(tables, nameservers).unregister_all()
    assert sorted(address for address, _ in nameservers.asked) == [NS1, NS2]
    for _, request in nameservers.asked:
        assert request.code == RequestCode.UNREGISTER_BROKER
        header = read_header(request, UnRegisterBrokerRequestHeader)
        assert attrs.astuple(header) == ("broker-a", "127.0.0.1:10911", "DefaultCluster", 0)


async def test_without_nameservers_it_only_waits(tables: Tables, nursery: trio.Nursery) -> None:
    nameservers = Nameservers()
    service = RegistrationService(
        config=tables.config,
        namesrv_addresses=(),
        broker_addr="a:1",
        ha_server_addr="a:2",
        topic_config_manager=tables.topics,
        master_search=Search(),
        client=cast(RemotingClient, nameservers),
    )
    await nursery.start(service.run)
    await service.unregister_all()
    assert nameservers.asked == []


async def test_a_slave_registers_queries_and_unregisters_with_its_own_id(tables_with: Callable[..., Tables]) -> None:
    tables, nameservers = tables_with(broker_id=3, force_register=False), Nameservers()
    service = service_of(tables, nameservers, NS1)
    await service.register_all(force=False)
    await service.unregister_all()
    query, register, unregister = (request for _, request in nameservers.asked)
    assert read_header(query, QueryDataVersionRequestHeader).broker_id == 3
    assert read_header(register, RegisterBrokerRequestHeader).broker_id == 3
    assert read_header(unregister, UnRegisterBrokerRequestHeader).broker_id == 3


async def test_each_answer_of_a_nameserver_names_the_master(tables_with: Callable[..., Tables]) -> None:
    tables, nameservers, search = tables_with(broker_id=1), Nameservers(), Search()
    service = service_of(tables, nameservers, search=search)
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
    await nursery.start(service_of(tables, nameservers, NS1, search=search).run)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER]
    await trio.sleep(7)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER] * 3
    nameservers.master = ("m:10911", "m:10912")
    await trio.sleep(3)
    assert search.is_complete
    await trio.sleep(60)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER] * 6
    nameservers.master = (None, None)
    await trio.sleep(30)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER] * 7
    await trio.sleep(9)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER] * 10


async def test_a_slave_that_has_lost_its_master_registers_soon(
    tables_with: Callable[..., Tables], nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """What it knows may be right: the master may be back at the same address, or be named at another one by now."""
    tables, nameservers, search = tables_with(broker_id=1), Nameservers(), Search()
    nameservers.master = ("m:10911", "m:10912")
    await nursery.start(service_of(tables, nameservers, NS1, search=search).run)
    await trio.sleep(20)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER]
    search.taken.clear()
    await trio.sleep(3.1)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER] * 2
    await trio.sleep(27)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER] * 2
    tables.topics.update_topic_config(TopicConfig("t"))
    await trio.testing.wait_all_tasks_blocked()
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER] * 3


async def test_a_master_searches_no_master(
    tables: Tables, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nameservers = Nameservers()
    await nursery.start(service_of(tables, nameservers, NS1).run)
    await trio.sleep(29)
    assert nameservers.codes(NS1) == [RequestCode.REGISTER_BROKER]
