"""How the nameservers of a client are written."""

from __future__ import annotations

import pytest

from rocketpy.client.config import ClientConfig, client_config
from rocketpy.errors import ClientError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a:9876", ("a:9876",)),
        ("a:9876;b:9877", ("a:9876", "b:9877")),
        (" a:9876 ; ;b:9877;", ("a:9876", "b:9877")),
        ("a:9876;a:9876", ("a:9876",)),
        ("http://MQ_INST.region/a:9876", ("a:9876",)),
        (["a:9876", "b:9877"], ("a:9876", "b:9877")),
    ],
)
def test_nameservers_are_a_list_or_rocketmqs_text(written: str | list[str], meant: tuple[str, ...]) -> None:
    assert ClientConfig(name_servers=written).name_servers == meant


@pytest.mark.parametrize("written", ["", " ; ", []])
def test_no_nameserver_is_rocketmqs_error(written: str | list[str]) -> None:
    with pytest.raises(ClientError, match="CODE: 10004  DESC: No name server address"):
        ClientConfig(name_servers=written)


def test_the_nameservers_of_the_call_count_and_the_rest_of_the_config() -> None:
    config = client_config("a:9876", ClientConfig(name_servers="elsewhere:1", mq_client_api_timeout=17))
    assert (config.name_servers, config.mq_client_api_timeout) == (("a:9876",), 17)
    assert client_config("a:9876", None) == ClientConfig(name_servers="a:9876")
