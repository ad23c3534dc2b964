"""How a cluster is reached, from options; errors say where an address comes from."""

from __future__ import annotations

import pickle

import pytest

from rocketpy.errors import RemotingConnectError, SettingsError
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.spark.live.access import ClusterAccess, access_of
from rocketpy.spark.live.tls import TlsFiles
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse

NAME_SERVER = {"nameServer": "a:1;b:2"}


def access(**options: str) -> ClusterAccess:
    return access_of(parse({**NAME_SERVER, **options}, Mode.LIVE))


def test_all_of_it_comes_from_options_and_travels() -> None:
    found = access(
        requestTimeoutMs="1500",
        accessKey="RocketMQ",
        secretKey="12345678",
        tls="true",
        tlsCaFile="/ca",
        tlsCertFile="/crt",
        tlsKeyFile="/key",
        tlsKeyPassword="hidden",
    )
    assert found == ClusterAccess(
        name_servers=("a:1", "b:2"),
        timeout_s=1.5,
        credentials=SessionCredentials("RocketMQ", "12345678"),
        tls=TlsFiles("/ca", False, "/crt", "/key", "hidden"),
    )
    assert pickle.loads(pickle.dumps(found)) == found
    assert "hidden" not in repr(found)
    assert "12345678" not in repr(found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"accessKey": "a"}, "accessKey and secretKey belong together"),
        ({"tlsCaFile": "/ca"}, "tlsCaFile has no effect without tls=true"),
        ({"tlsInsecure": "true", "tls": "false"}, "tlsInsecure has no effect"),
        ({"tls": "true", "tlsInsecure": "true", "tlsCaFile": "/ca"}, "contradict each other"),
        ({"tls": "true", "tlsKeyFile": "/key"}, "tlsKeyFile also needs the option tlsCertFile"),
    ],
)
def test_half_a_description_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        access(**options)


def test_without_a_nameserver_there_is_no_cluster() -> None:
    with pytest.raises(SettingsError, match="needs the option nameServer"):
        access_of(parse({}, Mode.STREAM))


def test_an_unreachable_broker_is_named_with_the_nameserver_that_advertises_it() -> None:
    with pytest.raises(
        RemotingConnectError,
        match=r"connect to 127\.0\.0\.1:1 failed: .*the address of broker b that nameserver 10\.0\.0\.1:9876 adv",
    ):
        access().connect_broker("b", "127.0.0.1:1", "10.0.0.1:9876")
