"""Ordered topics: what the nameserver's ORDER_TOPIC_CONFIG says is at the broker with its next registration."""

from __future__ import annotations

from pathlib import Path

from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.topic import TopicConfigSerializeWrapper
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.namesrv import DeleteKVConfigRequestHeader, PutKVConfigRequestHeader
from rocketpy.protocol.headers.topic import CreateTopicRequestHeader
from rocketpy.remoting.client import RemotingClient
from tests.broker.test_app import send
from tests.client.real_cluster import RealCluster, open_real_cluster
from tests.remoting.patient_client import open_patient_client

NAMESPACE = "ORDER_TOPIC_CONFIG"


async def create(client: RemotingClient, cluster: RealCluster, topic: str) -> None:
    """Create a topic; the broker registers before it answers."""
    header = CreateTopicRequestHeader(
        topic=topic, default_topic="TBW102", read_queue_nums=2, write_queue_nums=2, perm=6,
        topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
    )  # fmt: skip
    answer = await client.request(cluster.broker_address, make_request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def ordered_topics(client: RemotingClient, cluster: RealCluster) -> set[str]:
    answer = await client.request(cluster.broker_address, make_request(RequestCode.GET_ALL_TOPIC_CONFIG))
    table = decode_body(answer.body, TopicConfigSerializeWrapper).topic_config_table
    return {topic for topic, config in table.items() if config.order}


async def test_a_topic_becomes_ordered_and_ordinary_again(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path) as cluster, open_patient_client() as client:
        await create(client, cluster, "ordered")
        assert await ordered_topics(client, cluster) == set()
        put = PutKVConfigRequestHeader(namespace=NAMESPACE, key="ordered", value="broker-a:2")
        await client.request(cluster.address, make_request(RequestCode.PUT_KV_CONFIG, put))
        await create(client, cluster, "another")
        assert await ordered_topics(client, cluster) == {"ordered"}

        update = make_request(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4")
        await client.request(cluster.broker_address, update)
        answer = await client.request(cluster.broker_address, send("ordered"))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "the broker[127.0.0.1] sending message is forbidden"
        assert (await client.request(cluster.broker_address, send("another"))).code == ResponseCode.SUCCESS

        delete = DeleteKVConfigRequestHeader(namespace=NAMESPACE, key="ordered")
        await client.request(cluster.address, make_request(RequestCode.DELETE_KV_CONFIG, delete))
        await create(client, cluster, "third")
        assert await ordered_topics(client, cluster) == set()
        assert (await client.request(cluster.broker_address, send("ordered"))).code == ResponseCode.SUCCESS
