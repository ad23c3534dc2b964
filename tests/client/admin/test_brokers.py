"""Settings of brokers as text; the other calls are in ``test_golden_calls``."""

from __future__ import annotations

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.admin.brokers import read_settings, settings_body
from rocketpy.client.answers import Answers
from rocketpy.protocol.codes import RequestCode
from rocketpy.runner import run_inline
from tests.client.fake_cluster import FakeCluster


async def test_settings_with_strange_characters_survive(cluster: FakeCluster, admin: AdminClient) -> None:
    settings = {"path": "C:\\data", "text": " größer = 1\nzwei", "empty": ""}
    answers = Answers(run_inline)
    assert await read_settings(answers, settings_body(settings), "") == settings
    assert await read_settings(answers, None, "") == {}
    code = RequestCode.UPDATE_BROKER_CONFIG
    cluster.broker.answer(code)
    await admin.brokers.update_config(cluster.broker.address, {"a": "1", "b": "2"})
    assert cluster.broker.asked(code)[0].body == b"a=1\nb=2\n"
