from __future__ import annotations

from typing import cast

import pytest
import trio
import trio.testing

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.replication.brokers_of_one_id import SEARCH_SECONDS, BrokersOfOneId
from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.remoting.client import RemotingClient
from rocketpy.runner import run_inline

NS1, NS2 = "ns1:9876", "ns2:9876"
OWN, OTHER = "10.0.0.1:10911", "10.0.0.9:10911"


class Nameservers:
    """Answers with the addresses of the broker ``broker-a``, by id; NS2 is not there."""

    def __init__(self, addresses: dict[int, str]) -> None:
        self.addresses = addresses
        self.body: bytes | None = None
        self.code = ResponseCode.SUCCESS

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        assert request.code == RequestCode.GET_BROKER_CLUSTER_INFO
        assert timeout_s == BrokerConfig().register_broker_timeout_mills / 1000, (
            "the connection is that of registrations"
        )
        await trio.lowlevel.checkpoint()
        if address == NS2:
            raise RemotingConnectError("nothing listens there")
        brokers = {"broker-a": BrokerData("c", "broker-a", self.addresses), "b": BrokerData("c", "b", {0: "x:1"})}
        body = encode_body(ClusterInfo(broker_addr_table=brokers)) if self.body is None else self.body
        return make_response(request, self.code, body=body)


def search_of(nameservers: Nameservers, broker_id: int = 0, name: str = "broker-a") -> BrokersOfOneId:
    return BrokersOfOneId(
        config=BrokerConfig(broker_name=name, broker_id=broker_id),
        namesrv_addresses=(NS2, NS1),
        broker_addr=OWN,
        client=cast(RemotingClient, nameservers),
        run_blocking=run_inline,
    )


@pytest.mark.parametrize(
    ("broker_id", "addresses"),
    [(0, {}), (0, {0: OWN}), (0, {1: OTHER}), (1, {0: OTHER}), (1, {0: OTHER, 1: OWN, 2: "10.0.0.3:10911"})],
)
async def test_nothing_is_found_where_every_broker_has_its_id(
    broker_id: int, addresses: dict[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    search = search_of(Nameservers(addresses), broker_id)
    await search.search()
    assert search.others == ()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("broker_id", "what"),
    [(0, "both accept messages, and neither gets those of the other"), (2, "consumers find only one of them")],
)
async def test_another_broker_of_the_id_is_an_error_in_the_log(
    broker_id: int, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    search = search_of(Nameservers({broker_id: OTHER}), broker_id)
    await search.search()
    assert search.others == (OTHER,)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert f"broker-a with brokerId {broker_id} is registered at {OTHER}, this one is {OWN}: {what}" in caplog.text


async def test_it_searches_every_minute_and_repeats_nothing_while_the_two_take_turns(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    nameservers = Nameservers({0: OWN})
    search = search_of(nameservers)
    await nursery.start(search.run)
    await trio.sleep(1)
    for address in (OTHER, OWN, OTHER, OWN, OTHER):
        nameservers.addresses = {0: address}
        await trio.sleep(SEARCH_SECONDS)
        assert search.others == (OTHER,)
    assert len(caplog.records) == 1
    nameservers.addresses = {0: OWN}
    await trio.sleep(2 * SEARCH_SECONDS)
    assert search.others == ()
    nameservers.addresses = {0: OTHER}
    await trio.sleep(SEARCH_SECONDS)
    assert len(caplog.records) == 2


@pytest.mark.parametrize(("code", "body"), [(ResponseCode.SYSTEM_ERROR, None), (0, b"nonsense"), (0, b"")])
async def test_a_nameserver_that_does_not_answer_it_is_skipped(code: int, body: bytes | None) -> None:
    nameservers = Nameservers({0: OTHER})
    nameservers.code, nameservers.body = code, body  # type: ignore[assignment]
    search = search_of(nameservers)
    await search.search()
    assert search.others == ()
