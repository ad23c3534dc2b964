"""The pull side in a whole broker: filters over restarts, notes about them in the store, figures for operators."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
import trio
import trio.lowlevel

from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.remoting.client import RemotingClient
from rocketpy.store.queue.extension import read_ext_unit
from tests.broker.test_app import client_of, pull, running, send, settings_at
from tests.patience import PATIENCE_SECONDS
from tests.remoting.patient_client import open_patient_client

SQL = "a > 1 AND TAGS IS NULL"


def filtering(directory: Path, *, notes: bool = True) -> BrokerSettings:
    """A broker that selects by properties, and notes in the store who wants what."""
    settings = settings_at(directory)
    return attrs.evolve(
        settings,
        broker=attrs.evolve(settings.broker, enable_property_filter=True, enable_calc_filter_bit_map=notes),
        store=attrs.evolve(settings.store, enable_consume_queue_ext=True),
    )


async def heartbeat(client: RemotingClient, address: str, client_id: str, expression: str) -> None:
    subscription = SubscriptionData("hello", expression, 1, expression_type="SQL92")
    body = HeartbeatData(client_id, [], [ConsumerData("g", subscription_data_set=[subscription])])
    answer = await client.request(address, make_request(RequestCode.HEART_BEAT, body=encode_body(body)))
    assert answer.code == ResponseCode.SUCCESS


def message(a: int) -> RemotingCommand:
    request = send(body=b"%d" % a)
    assert request.ext_fields is not None
    request.ext_fields["i"] = f"a\x01{a}"
    return request


def pull_as_subscribed() -> RemotingCommand:
    request = pull()
    assert request.ext_fields is not None
    request.ext_fields |= {"sysFlag": "0", "subVersion": "1"}
    return request


async def pulled(client: RemotingClient, address: str) -> list[bytes]:
    answer = await client.request(address, pull_as_subscribed())
    assert answer.code == ResponseCode.SUCCESS, answer
    return [each.body or b"" for each in decode_messages(answer.body or b"")]


async def test_a_filter_is_in_its_file_and_selects_again_after_a_restart(tmp_path: Path) -> None:
    settings = filtering(tmp_path / "store")
    async with client_of(settings) as (client, at):
        await client.request(at.address, message(0))
        await heartbeat(client, at.address, "c1", SQL)
        for a in (1, 2, 3):
            await client.request(at.address, message(a))
        assert await pulled(client, at.address) == [b"2", b"3"]
    file = tmp_path / "store" / "config" / "consumerFilter.json"
    kept = json.loads(file.read_text())["filterDataByTopic"]["hello"]["groupFilterData"]["g"]
    assert (kept["expression"], kept["dead"]) == (SQL, True), "with its last connection the group has left"
    async with client_of(settings) as (client, at):
        assert (await client.request(at.address, pull_as_subscribed())).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        await heartbeat(client, at.address, "c1", SQL)
        await client.request(at.address, message(4))
        assert await pulled(client, at.address) == [b"2", b"3", b"4"]


@pytest.mark.parametrize("notes", [True, False])
async def test_the_store_records_matching_filters_if_it_is_configured(tmp_path: Path, notes: bool) -> None:
    async with client_of(filtering(tmp_path / "store", notes=notes)) as (client, at):
        await client.request(at.address, message(0))
        await heartbeat(client, at.address, "c1", SQL)
        await client.request(at.address, message(1))
        await client.request(at.address, message(2))
    (file,) = (tmp_path / "store" / "consumequeue_ext" / "hello" / "0").iterdir()
    content, position, bits = file.read_bytes(), 0, []
    for _ in range(3):
        unit = read_ext_unit(content, position)
        assert unit is not None
        bits.append(int.from_bytes(unit.bit_map).bit_count())
        position += unit.size
    assert bits == ([0, 0, 3] if notes else [0, 0, 0])


async def test_operators_read_which_groups_disagree_and_which_lag(tmp_path: Path) -> None:
    async with running(filtering(tmp_path / "store")) as at:
        async with open_patient_client() as one, open_patient_client() as two:
            await heartbeat(one, at.address, "c1", SQL)
            await heartbeat(two, at.address, "c2", "a > 2")
            table = await runtime_info(one, at.address)
            assert table["inconsistentSubscriptionGroups"] == "1"
            assert (table["consumerLagTotal"], table["stuckConsumerQueues"]) == ("0", "0")
        async with open_patient_client() as one:
            with trio.fail_after(PATIENCE_SECONDS):
                while (await runtime_info(one, at.address))["inconsistentSubscriptionGroups"] != "0":
                    await trio.lowlevel.checkpoint()


async def runtime_info(client: RemotingClient, address: str) -> dict[str, str]:
    answer = await client.request(address, make_request(RequestCode.GET_BROKER_RUNTIME_INFO))
    return dict(decode_body(answer.body, KVTable).table)
