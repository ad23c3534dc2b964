"""The remoting settings read as RocketMQ's keys and give limits."""

from __future__ import annotations

from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.settings import settings_from_text


def test_rocketmq_keys_are_read() -> None:
    text = "listenPort=10911\nserverChannelMaxIdleTimeSeconds=7\nwriteBufferHighWaterMark=4096\nserverWorkerThreads=8\n"
    loaded = settings_from_text(text, "broker.conf", NettyServerConfig, NettyClientConfig)
    server = loaded.of(NettyServerConfig)
    assert loaded.warnings == ()
    assert (server.listen_port, server.server_channel_max_idle_time_seconds) == (10911, 7)
    assert server.limits().outgoing_bytes_pause == 4096


def test_defaults_are_bounded() -> None:
    assert NettyServerConfig().limits().outgoing_bytes_pause == 1 << 20
    assert NettyClientConfig().limits().requests_in_flight_max == 65_535
