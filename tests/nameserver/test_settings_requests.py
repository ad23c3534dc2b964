"""The settings of a nameserver over requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketpy.protocol.codes import RequestCode, ResponseCode
from tests.nameserver.namesrv_requests import (
    asked,
    good,
    request,
)

if TYPE_CHECKING:
    from conftest import NameserverOnBytes


async def test_settings_are_shown_and_changed(nameserver: NameserverOnBytes, tmp_path: Path) -> None:
    reply = await good(nameserver, request(RequestCode.GET_NAMESRV_CONFIG))
    assert reply.body is not None
    lines = reply.body.decode().splitlines()
    assert {"listenPort=9876", "orderMessageEnable=false", "foreignKey=1"} <= set(lines)
    body = b"orderMessageEnable=true\nforeignKey=2\n"
    assert (await good(nameserver, request(RequestCode.UPDATE_NAMESRV_CONFIG, body))).remark is None
    await good(nameserver, request(RequestCode.UPDATE_NAMESRV_CONFIG))
    reply = await good(nameserver, request(RequestCode.GET_NAMESRV_CONFIG))
    assert reply.body is not None
    lines = reply.body.decode().splitlines()
    assert {"orderMessageEnable=true", "foreignKey=2"} <= set(lines)
    assert sorted((tmp_path / "namesrv.properties").read_text().splitlines()) == sorted(lines)


async def test_what_waits_for_the_next_start_is_named(nameserver: NameserverOnBytes) -> None:
    reply = await nameserver.ask(request(RequestCode.UPDATE_NAMESRV_CONFIG, b"connectionsMax=5\nclusterTest=true"))
    assert reply.code == ResponseCode.SUCCESS
    assert reply.remark == "takes effect with the next start: connectionsMax"


@pytest.mark.parametrize(
    ("body", "code", "named"),
    [
        (b"kvConfigPath=/x", ResponseCode.NO_PERMISSION, "kvConfigPath"),
        (b"clusterTest=true\nrocketmqHome=/x", ResponseCode.NO_PERMISSION, "rocketmqHome"),
        (b"clusterTest=true\nlistenPort=1", ResponseCode.NO_PERMISSION, "listenPort"),
        (b"listenPort=9876\nconnectionsMax=9x", ResponseCode.SYSTEM_ERROR, "connectionsMax = '9x'"),
        (b"orderMessageEnabled=true", ResponseCode.SYSTEM_ERROR, "did you mean orderMessageEnable?"),
        (b"orderMessageEnable=\\u00zz", ResponseCode.SYSTEM_ERROR, "line 1"),
    ],
)
async def test_a_refused_setting_is_named(nameserver: NameserverOnBytes, body: bytes, code: int, named: str) -> None:
    before = nameserver.everything()
    reply = await asked(nameserver, RequestCode.UPDATE_NAMESRV_CONFIG, body)
    assert reply.code == code
    assert named in (reply.remark or "")
    assert nameserver.everything() == before
