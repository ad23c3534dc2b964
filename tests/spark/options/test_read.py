"""The account that options name."""

from __future__ import annotations

import pytest

from rocketpy.errors import SettingsError
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.options.read import credentials_of

ACCOUNT = {"accessKey": "RocketMQ", "secretKey": "12345678"}


@pytest.mark.parametrize("mode", [Mode.LIVE, Mode.STREAM, Mode.SINK])
def test_an_account_signs_requests_and_its_secret_is_not_shown(mode: Mode) -> None:
    found = credentials_of(parse(ACCOUNT, mode))
    assert found == SessionCredentials("RocketMQ", "12345678")
    assert "12345678" not in repr(found)
    assert credentials_of(parse({}, mode)) is None


@pytest.mark.parametrize("name", ACCOUNT)
def test_half_an_account_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="accessKey and secretKey belong together"):
        credentials_of(parse({name: ACCOUNT[name]}, Mode.LIVE))
