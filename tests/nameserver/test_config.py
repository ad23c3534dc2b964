"""The settings of a nameserver, and changing them and their file while it runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from rocketpy.errors import SettingsError
from rocketpy.nameserver.config import (
    NAMESRV_PORT,
    NamesrvConfig,
    NamesrvConfiguration,
    default_server_config,
)
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.limits.allow_list import networks
from rocketpy.settings import load_settings, settings_from_text
from rocketpy.store.disk.os_disk import OsDisk

GOLDEN = Path(__file__).parents[1] / "golden" / "config" / "namesrv.properties"


LEVELS: list[NamesrvConfig] = []
"""Listener of changes of the log level."""


def configuration(path: Path, *, text: str = "", disk: OsDisk | None = None) -> NamesrvConfiguration:
    loaded = settings_from_text(text + f"\nconfigStorePath={path}", str(path), NamesrvConfig, default_server_config())
    return NamesrvConfiguration(
        namesrv=loaded.of(NamesrvConfig),
        server=loaded.of(NettyServerConfig),
        unknown=loaded.unknown,
        disk=disk or OsDisk(),
        run_blocking=trio.to_thread.run_sync,
        log_level_changed=LEVELS.append,
    )


async def test_a_new_log_level_is_notified(tmp_path: Path) -> None:
    LEVELS.clear()
    settings = configuration(tmp_path / "namesrv.conf")
    await settings.update("clusterTest=true")
    assert LEVELS == []
    await settings.update("logLevel=DEBUG")
    assert [each.log_level for each in LEVELS] == ["DEBUG"]


def test_the_default_port_is_the_nameservers_own() -> None:
    assert default_server_config().listen_port == NAMESRV_PORT


def test_a_tilde_in_a_path_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    config = NamesrvConfig(config_store_path="/etc/x")
    assert config.kv_config_file == "/home/somebody/namesrv/kvConfig.json"
    assert config.config_store_file == "/etc/x"


def test_the_black_list_cannot_be_emptied() -> None:
    always = {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
    assert NamesrvConfig(config_black_list="").black_list == always
    assert NamesrvConfig(config_black_list="listenPort;;x").black_list == always | {"listenPort", "x"}


def test_a_file_written_by_java_is_read_without_a_warning() -> None:
    loaded = load_settings(str(GOLDEN), NamesrvConfig, default_server_config())
    assert loaded.warnings == ()
    assert loaded.of(NettyServerConfig).listen_port == 22876
    assert loaded.of(NamesrvConfig).kv_config_path == "STORE_ROOT/frames-json/namesrv-home/namesrv/kvConfig.json"


async def test_a_file_written_by_java_is_rewritten_to_equal_values(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.properties"
    path.write_text(GOLDEN.read_text())
    loaded = load_settings(str(path), NamesrvConfig, default_server_config())
    now = configuration(path, text=GOLDEN.read_text())
    await now.update("orderMessageEnable=true")
    again = load_settings(str(path), NamesrvConfig, default_server_config())
    assert again.of(NettyServerConfig) == loaded.of(NettyServerConfig)
    assert again.of(NamesrvConfig).order_message_enable
    before = GOLDEN.read_text().replace("orderMessageEnable=false", "orderMessageEnable=true")
    assert sorted(path.read_text().splitlines()) == sorted(before.splitlines())


async def test_a_latin1_file_is_not_spoilt_by_an_update(tmp_path: Path) -> None:
    path = tmp_path / "n.conf"
    path.write_bytes("# für alle\nforeign=é\n".encode("iso-8859-1"))
    now = configuration(path, text="foreign=é")
    await now.update("clusterTest=true")
    assert path.read_text("utf-8") == "# für alle\nforeign=é\nclusterTest=true\n"


async def test_the_first_update_without_a_file_writes_every_key(tmp_path: Path) -> None:
    path = tmp_path / "below" / "n.conf"
    now = configuration(path)
    with pytest.raises(SettingsError, match=r"^unknown key clusterTast has no effect; did you mean clusterTest\?$"):
        await now.update("clusterTast=true\norderMessageEnable=true")
    assert not path.exists()
    left = await now.update("clusterTest=true\nclusterTest=false\nserverSocketBacklog=1")
    assert left == ["serverSocketBacklog"]
    assert now.values()["serverSocketBacklog"] == "1", "what was accepted is shown"
    assert now.values()["serverSocketBacklog.inForce"] == "1024", "and what counts"
    loaded = load_settings(str(path), NamesrvConfig, NettyServerConfig)
    assert loaded.warnings == ()
    assert loaded.of(NettyServerConfig).server_socket_backlog == 1
    assert len(path.read_text().splitlines()) == len(now.values()) - 1


@pytest.mark.parametrize("text", ["x", "10.0.0.1/8", "10.0.0.1;y", "10.0.0.0/33"])
def test_an_allow_list_names_addresses_and_networks(text: str) -> None:
    allowed = NamesrvConfig(route_change_allow_list="10.0.0.1; 192.168.0.0/16 ;::1;").route_change_allow_list
    assert list(map(str, networks(allowed))) == ["10.0.0.1/32", "192.168.0.0/16", "::1/128"]
    with pytest.raises(SettingsError, match=r"line 1: routeChangeAllowList = .* expected addresses or networks"):
        settings_from_text(f"routeChangeAllowList={text}", "namesrv.conf", NamesrvConfig)


CVE_2023_37582 = ["configStorePath", "kvConfigPath", "rocketmqHome"]
"""Settings text was written to any file that the request named."""


@pytest.mark.parametrize(
    "key",
    [*CVE_2023_37582, "configBlackList", "listenPort", "bindAddress", "routeChangeAllowList", "brokerTakeoverEnable"],
)
async def test_no_request_changes_a_path_or_an_address(tmp_path: Path, key: str) -> None:
    """Even where the black list is not asked."""
    now = configuration(tmp_path / "n.conf")
    before = now.values()
    with pytest.raises(SettingsError, match=rf"^{key} = '1': expected no change"):
        await now.update(f"clusterTest=true\n{key}=1")
    assert now.values() == before
    assert not os.listdir(tmp_path)


def test_the_refused_key_is_named(tmp_path: Path) -> None:
    now = configuration(tmp_path / "n.conf")
    assert now.refused_key("clusterTest=true") is None
    assert now.refused_key("clusterTest=true\nkvConfigPath=/etc/passwd") == "kvConfigPath"
