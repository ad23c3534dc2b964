"""Settings of brokers as text; the other calls are in ``test_golden_calls``."""

from __future__ import annotations

import pytest

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.admin.brokers import SETTINGS_SHOWN_BYTES_MAX, read_settings, settings_body
from rocketpy.client.answers import Answers
from rocketpy.errors import RemoteProtocolError
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


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"a=b\n" * (SETTINGS_SHOWN_BYTES_MAX // 4 + 1), "10.0.0.1:1: settings: expected at most 1048576 bytes, found"),
        (b"a=\\u12", "10.0.0.1:1: settings: expected properties, found "),
    ],
    ids=["too long", "no properties"],
)
async def test_what_is_no_settings_is_an_error_of_the_peer(body: bytes, message: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        await read_settings(Answers(run_inline), body, "10.0.0.1:1")
    assert str(caught.value).startswith(message)
