"""What a broker starts with, from file, command line and machine; and what it refuses to start with."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker.start_settings import BrokerSettings, StartOptions, load_broker_settings, resolved_host
from rocketpy.errors import SettingsError
from rocketpy.remoting.config import TlsMode
from rocketpy.settings import format_settings
from tests.remoting.certificate_files import crt, key, server_config


def loaded(tmp_path: Path, text: str, **options: object) -> BrokerSettings:
    path = tmp_path / "b.conf"
    path.write_text(text)
    return load_broker_settings(StartOptions(config_file=str(path), **options))  # type: ignore[arg-type]


def test_without_a_file_it_is_a_system_for_one_machine() -> None:
    settings = load_broker_settings(StartOptions())
    assert settings.host == "127.0.0.1"
    assert settings.embeds_nameserver
    assert settings.broker.namesrv_addr == "127.0.0.1:9876"
    assert (settings.broker.broker_ip1, settings.broker.broker_ip2) == ("127.0.0.1", "127.0.0.1")
    assert settings.broker.broker_name
    assert settings.server.listen_port == 10911
    assert settings.store.store_path_root_dir == "./store"
    assert settings.store.mapped_file_size_commit_log == 64 << 20
    assert settings.store.disk_space_warning_level_ratio > 95, "a laptop's disk is nearly full of other things"
    assert not settings.store.clean_file_forcibly_enable
    assert settings.warnings == ()


@pytest.mark.parametrize("options", [{"namesrv_addr": "ns:9876"}, {"environment_namesrv_addr": "ns:9876"}])
def test_a_nameserver_elsewhere_needs_none_of_our_own(options: dict[str, str]) -> None:
    settings = load_broker_settings(StartOptions(**options))  # type: ignore[arg-type]
    assert not settings.embeds_nameserver
    assert settings.broker.namesrv_addr == "ns:9876"


def test_with_a_file_it_is_rocketmqs_broker(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "namesrvAddr=ns:9876\n")
    assert settings.host is None
    assert not settings.embeds_nameserver
    assert settings.server.listen_port == 10911
    assert settings.store.mapped_file_size_commit_log == 1 << 30
    assert settings.broker.broker_ip1
    assert [warning.partition(":")[0] for warning in settings.warnings] == [
        "listening on every address, port 10911, without access control"
    ]


def test_a_broker_with_accounts_may_be_open_to_the_network(tmp_path: Path) -> None:
    assert loaded(tmp_path, "namesrvAddr=ns:9876\naclEnable=true\n").warnings == ()


def test_a_bind_address_narrows_it_and_silences_the_warning(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "namesrvAddr=ns:9876\nbindAddress=127.0.0.1\n")
    assert settings.host == "127.0.0.1"
    assert settings.warnings == ()


def test_the_command_line_goes_over_the_file_and_the_file_over_the_environment(tmp_path: Path) -> None:
    text = "namesrvAddr=file:1\nlistenPort=1234\nstorePathRootDir=/file\nbindAddress=127.0.0.1\n"
    settings = loaded(tmp_path, text, environment_namesrv_addr="env:1")
    assert settings.broker.namesrv_addr == "file:1"
    settings = loaded(tmp_path, text, namesrv_addr="line:1", port=0, store_path="/line", environment_namesrv_addr="e:1")
    assert settings.broker.namesrv_addr == "line:1"
    assert (settings.server.listen_port, settings.store.store_path_root_dir) == (0, "/line")
    assert settings.store.ha_listen_port == 1


def test_without_a_nameserver_it_says_so(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "bindAddress=127.0.0.1\n")
    assert settings.broker.namesrv_addresses == ()
    assert settings.warnings[0].startswith("namesrvAddr is not set")


def test_a_master_has_the_id_0_whatever_the_file_says(tmp_path: Path) -> None:
    for found in (3, -1):
        settings = loaded(tmp_path, f"namesrvAddr=ns:9876\nbindAddress=127.0.0.1\nbrokerId={found}\n")
        assert settings.broker.broker_id == 0
        assert settings.warnings == (f"brokerId = {found} has no effect: a master has 0",)


@pytest.mark.parametrize(("role", "broker_id"), [("ASYNC_MASTER", 0), ("SYNC_MASTER", 0), ("SLAVE", 3)])
def test_each_role_is_accepted_with_its_id(tmp_path: Path, role: str, broker_id: int) -> None:
    settings = loaded(
        tmp_path, f"namesrvAddr=ns:9876\nbindAddress=127.0.0.1\nbrokerRole={role}\nbrokerId={broker_id}\n"
    )
    assert settings.store.broker_role.name == role
    assert settings.broker.broker_id == broker_id
    assert settings.warnings == ()
    settings.check_values(settings.values)


def test_the_nameservers_of_the_command_line_are_enough_for_a_slave(tmp_path: Path) -> None:
    text = "bindAddress=127.0.0.1\nbrokerRole=SLAVE\nbrokerId=1\n"
    assert loaded(tmp_path, text, namesrv_addr="ns:9876").warnings == ()
    assert "namesrvAddr is not set: this slave cannot find its master" in loaded(tmp_path, text).warnings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("brokerRole=SLAVE", "brokerId = 0: expected a number above 0, because brokerRole is SLAVE"),
        ("brokerId=9223372036854775808", "brokerId = '9223372036854775808': expected an integer"),
        ("brokerRole=MASTER", "brokerRole = 'MASTER': expected one of ASYNC_MASTER"),
        ("enableDLegerCommitLog=true", "enableDLegerCommitLog = 'true': expected false"),
        ("listenPort=65535", "listenPort = 65535: expected a port from 0"),
        ("listenPort=-1", "listenPort = "),
        ("namesrvAddr=nowhere", "namesrvAddr = 'nowhere': expected HOST:PORT, several separated by ;, found 'nowhere'"),
        (
            "namesrvAddr=a:1,b:2",
            "namesrvAddr = 'a:1,b:2': expected HOST:PORT, several separated by ;, found 'a:1,b:2'",
        ),
        (
            "namesrvAddr=http://a:1",
            "namesrvAddr = 'http://a:1': expected HOST:PORT, several separated by ;, found 'http://a:1'",
        ),
        ("namesrvAddr=a:1;b:x", "namesrvAddr = 'a:1;b:x': expected HOST:PORT, several separated by ;, found 'b:x'"),
        ("brokerIP1=no such host", "brokerIP1 = 'no such host': expected an address or a known host name"),
        ("flushDiskType=SOMETIMES", "flushDiskType = 'SOMETIMES': expected one of ASYNC_FLUSH"),
    ],
)
def test_what_it_cannot_be_it_refuses_to_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as failure:
        loaded(tmp_path, f"namesrvAddr=ns:9876\n{text}\n")
    assert str(failure.value).startswith(f"{tmp_path / 'b.conf'} line 2: {message}")


def test_what_the_command_line_says_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    path.write_text("namesrvAddr=ns:9876\n")
    with pytest.raises(SettingsError, match=r"^namesrvAddr = 'nowhere': expected HOST:PORT"):
        load_broker_settings(StartOptions(config_file=str(path), namesrv_addr="nowhere"))


def test_a_name_becomes_an_address() -> None:
    assert resolved_host("localhost") in ("127.0.0.1", "::1")
    assert resolved_host("192.0.2.7") == "192.0.2.7"


def test_changes_by_request_go_to_the_file_that_was_given(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "namesrvAddr=ns:9876\nbindAddress=127.0.0.1\n")
    assert settings.config_path == str(tmp_path / "b.conf")
    (tmp_path / "link.conf").symlink_to(tmp_path / "b.conf")
    linked = load_broker_settings(StartOptions(config_file=str(tmp_path / "link.conf")))
    assert linked.config_path == str(tmp_path / "b.conf"), "a rename would replace the link by a file"


def test_the_threads_that_are_shown_are_the_processors_it_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a JVM counts them: ``mqadmin exportMetrics`` shows them as the machine's."""
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {3, 5, 8}, raising=False)
    assert load_broker_settings(StartOptions()).client.client_callback_executor_threads == 3


def test_tls_is_read_from_the_same_file_and_never_shown(tmp_path: Path) -> None:
    text = (
        "namesrvAddr=ns:9876\ntls.server.mode=enforcing\ntls.test.mode.enable=false\n"
        f"tls.server.certPath={crt('server')}\ntls.server.keyPath={key('server')}\ntls.server.keyPassword=hidden\n"
    )
    settings = loaded(tmp_path, text)
    assert settings.tls_server == server_config(server_mode="enforcing", key_password="hidden")
    assert "hidden" not in "".join(format_settings(*settings.values))
    assert settings.unknown == {}


@pytest.mark.parametrize(
    ("text", "uses_tls"),
    [
        ("", False),
        ("tls.server.mode=enforcing", True),
        ("tls.server.mode=enforcing\ntls.enable=false", False),
        ("tls.enable=true", True),
    ],
)
def test_a_broker_that_accepts_only_tls_connects_with_it_by_default(tmp_path: Path, text: str, uses_tls: bool) -> None:
    assert loaded(tmp_path, f"namesrvAddr=ns:9876\n{text}\n").tls_client.enable is uses_tls


def test_a_file_of_tls_settings_counts_and_its_mistakes_are_named(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(f"tls.server.mode=disabled\ntls.server.certPath={crt('server')}\nunknown=1\n")
    settings = loaded(tmp_path, f"namesrvAddr=ns:9876\ntls.config.file={file}\n")
    assert settings.tls_server.mode is TlsMode.DISABLED
    assert [warning for warning in settings.warnings if "no effect" in warning] == [
        f"{file} line 3: unknown key unknown has no effect",
        "tls.server.certPath has no effect: tls.test.mode.enable is true, which is its default",
    ]
    file.write_text("tls.server.mode=on\n")
    with pytest.raises(SettingsError, match=r"tls\.properties line 1: .* 'on': expected disabled, permissive or enfor"):
        loaded(tmp_path, f"namesrvAddr=ns:9876\ntls.config.file={file}\n")
    file.write_text("tls.test.mode.enable=false\ntls.client.authServer=true\ntls.client.trustCertPath=/no/such\n")
    expected = r"tls\.properties line 3: tls\.client\.trustCertPath = '/no/such': expected a file"
    with pytest.raises(SettingsError, match=expected):
        loaded(tmp_path, f"namesrvAddr=ns:9876\nuseTLS=true\ntls.config.file={file}\n")
