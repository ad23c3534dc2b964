"""Registration of a broker with more topics than a frame holds, at a real nameserver."""

from __future__ import annotations

import json
from pathlib import Path

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.namesrv import GetRouteInfoRequestHeader
from tests.broker.test_app import send
from tests.client.real_cluster import open_real_cluster
from tests.remoting.patient_client import open_patient_client

TOPICS = [f"%RETRY%{number:0120}" for number in range(46_000)]
"""The result of 46 heartbeats, once: 17 MB of topics.json, with which no start succeeded."""


async def test_a_broker_whose_topics_do_not_fit_a_frame_starts_serves_and_is_in_the_routes(tmp_path: Path) -> None:
    path = tmp_path / "store" / "config" / "topics.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"topicConfigTable": {topic: {"topicName": topic} for topic in TOPICS}}))
    async with open_real_cluster(tmp_path) as cluster, open_patient_client() as client:
        for topic in (TOPICS[0], TOPICS[-1], "BenchmarkTest"):
            header = GetRouteInfoRequestHeader(topic=topic)
            route = await client.request(cluster.address, make_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
            assert route.code == ResponseCode.SUCCESS, route.remark
        assert (await client.request(cluster.broker_address, send("BenchmarkTest"))).code == ResponseCode.SUCCESS
        refused = await client.request(cluster.broker_address, send("made-up"))
        assert refused.code == ResponseCode.TOPIC_NOT_EXIST
        assert "autoCreateTableBytesMax" in (refused.remark or "")
