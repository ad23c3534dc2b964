"""No answer to a request of a broker keeps its loop longer than 50 ms: of nameservers, masters and slaves.

What consumers answer is in ``admin/test_clients.py``, what the client's requests are answered in
``tests/client/hostile/test_worst_answers.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

import rocketpy.broker
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.registration import RegistrationService
from rocketpy.broker.replication.broker_tables import BrokerTables
from rocketpy.broker.replication.brokers_of_one_id import BrokersOfOneId
from rocketpy.broker.replication.common_log import CommonLog
from rocketpy.broker.replication.offsets_from_slaves import OffsetsFromSlaves
from rocketpy.broker.replication.remote_log import RemoteLog
from rocketpy.errors import RocketpyError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo, KVTable
from rocketpy.protocol.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.frame import HEADER_LENGTH_MAX
from rocketpy.remoting.client import RemotingClient
from rocketpy.store.ha.divergence import RecordRange
from rocketpy.store.message_store import MessageStore
from tests.broker.tables_of_a_broker import Tables, make_tables
from tests.worst_answers import SIZE, Workers, in_a_task
from tests.worst_requests import SLICE_SECONDS_MAX, WORST_JSON, counted_slices, least_longest, worst_json

OWN, PEER = "10.0.0.1:10911", "10.0.0.2:10911"
FIELDS = ("offset", "changed", "masterAddr", "haServerAddr", "brokerName", "version", "queueId")
ONEWAY = {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
}
OF_CONSUMERS = {RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT}
"""Of the first the body is bounded before it is decoded, of the second nothing is read but the code."""


@attrs.define(eq=False)
class Peer:
    """Answers every request with the same."""

    answer: RemotingCommand

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        await trio.lowlevel.checkpoint()
        answer = make_response(request, self.answer.code, self.answer.remark, body=self.answer.body)
        answer.ext_fields = self.answer.ext_fields
        return answer

    async def oneway(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> None:
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class Asker:
    """What a broker asks others with."""

    peer: Peer
    tables: Tables
    workers: Workers = attrs.field(factory=Workers)

    @property
    def others(self) -> BrokerTables:
        return BrokerTables(self.peer, self.workers)

    @property
    def client(self) -> RemotingClient:
        return cast(RemotingClient, self.peer)

    def registration(self) -> RegistrationService:
        return RegistrationService(
            config=self.tables.config,
            namesrv_addresses=[PEER],
            broker_addr=OWN,
            ha_server_addr="",
            topic_config_manager=self.tables.topics,
            master_search=_NoSearch(),
            client=self.client,
            run_blocking=self.workers,
        )

    async def cluster(self) -> None:
        name = self.tables.config.broker_name
        await BrokersOfOneId(
            config=BrokerConfig(broker_name=name),
            namesrv_addresses=[PEER],
            broker_addr=OWN,
            client=self.client,
            run_blocking=self.workers,
        ).search()
        await OffsetsFromSlaves(
            config=self.tables.config,
            namesrv_addresses=[PEER],
            broker_addr=OWN,
            client=self.peer,
            tables=self.others,
            offsets=self.tables.offsets,
            resets=self.tables.offset_resets,
            store=cast(MessageStore, None),
            common_log=cast(CommonLog, _NoLog()),
            run_blocking=self.workers,
        ).take()

    async def figures(self) -> None:
        with suppress(RocketpyError):
            await self.others.state(PEER)
        await RemoteLog(self.peer, PEER).bounds()


class _NoSearch:
    is_complete = True

    def take(self, nameserver: str, master_addr: str | None, ha_server_addr: str | None) -> None:
        pass


class _NoLog:
    async def difference(self, address: str) -> str:
        return "it is empty"


ASK: dict[int, Callable[[Asker], Awaitable[object]]] = {
    RequestCode.REGISTER_BROKER: lambda asker: asker.registration().register_all(),
    RequestCode.QUERY_DATA_VERSION: lambda asker: asker.registration().register_all(force=False),
    RequestCode.UNREGISTER_BROKER: lambda asker: asker.registration().unregister_all(),
    RequestCode.GET_BROKER_CLUSTER_INFO: Asker.cluster,
    RequestCode.GET_BROKER_RUNTIME_INFO: Asker.figures,
    RequestCode.GET_ALL_CONSUMER_OFFSET: lambda asker: asker.others.consumer_offsets(PEER),
    RequestCode.GET_ALL_DELAY_OFFSET: lambda asker: asker.others.delay_offsets(PEER),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda asker: asker.others.groups(PEER),
    RequestCode.GET_ALL_TOPIC_CONFIG: lambda asker: asker.others.topics(PEER),
    RequestCode.GET_MAX_OFFSET: lambda asker: asker.others.max_offset(PEER, "T", 0),
    RequestCode.QUERY_CONSUMER_OFFSET: lambda asker: asker.others.consumer_offset(PEER, "g", "T", 0),
    RequestCode.UPDATE_CONSUMER_OFFSET: lambda asker: asker.others.commit(PEER, "g", "T", 0, 1, ago_ms=5),
    RequestCode.VIEW_MESSAGE_BY_ID: lambda asker: RemoteLog(asker.peer, PEER).shows(RecordRange(0, 100), bytes(100)),
}
"""How a broker sends each code."""


@cache
def wanted_bodies() -> list[bytes]:
    """Return what a code wants, as much of it as fits."""
    name = BrokerConfig().broker_name
    addresses = {number: f"10.0.{number // 250}.{number % 250}:10911" for number in range(1, SIZE // 30)}
    brokers = {f"b{number}": BrokerData("c", f"b{number}", {0: PEER}) for number in range(SIZE // 80)}
    return [
        encode_body(ClusterInfo(broker_addr_table={name: BrokerData("c", name, addresses)})),
        encode_body(ClusterInfo(broker_addr_table=brokers)),
        encode_body(KVTable({f"k{number}": "" for number in range(SIZE // 12)})),
        encode_body(SubscriptionGroupWrapper({f"g{n}": SubscriptionGroupConfig(f"g{n}") for n in range(4000)})),
        encode_body(TopicConfigSerializeWrapper({f"t{n}": TopicConfig(f"t{n}") for n in range(6000)})),
        b'{"offsetTable":{' + b",".join(b'"T@g%d":{0:7}' % number for number in range(SIZE // 16)) + b"}}",
        b'{"offsetTable":{' + b",".join(b"%d:7" % number for number in range(SIZE // 9)) + b"}}",
    ]


def answers() -> Iterator[tuple[str, RemotingCommand]]:
    """Yield the worst answers, each with what it is."""
    for what in WORST_JSON:
        yield what, RemotingCommand(0, body=worst_json(what, SIZE))
    for number, body in enumerate(wanted_bodies()):
        yield f"as it is wanted, number {number}", RemotingCommand(0, body=body)
    size = HEADER_LENGTH_MAX // len(FIELDS)
    for piece in ("9", "-", "\x01", "{"):
        yield f"fields full of {piece!r}", RemotingCommand(0, ext_fields=dict.fromkeys(FIELDS, piece * size))
    yield "a remark", RemotingCommand(1, remark="r" * HEADER_LENGTH_MAX)


@pytest.mark.parametrize("code", ASK, ids=lambda code: code.name)
async def test_no_answer_keeps_the_loop(code: int, tmp_path: Path) -> None:
    found = []
    asker = Asker(Peer(RemotingCommand(0)), make_tables(tmp_path))

    async def ask() -> None:
        with suppress(RocketpyError, OSError):
            await ASK[code](asker)

    with counted_slices() as slices:
        for what, answer in answers():
            asker.peer.answer = answer
            least = await least_longest(slices, partial(in_a_task, ask))
            if least >= SLICE_SECONDS_MAX:
                found.append(f"{what}: {least * 1000:.0f} ms")
    assert not found, "\n".join(found)


def test_no_code_that_a_broker_sends_is_missing() -> None:
    """Found by the code that is handed to whatever makes or sends a request."""
    senders = {"make_request", "_ask", "_table"}
    sent = set()
    for path in Path(rocketpy.broker.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in senders:
                sent |= {
                    RequestCode[each.attr]
                    for each in node.args
                    if isinstance(each, ast.Attribute) and getattr(each.value, "id", "") == "RequestCode"
                }
    assert sent == ASK.keys() | ONEWAY | OF_CONSUMERS
