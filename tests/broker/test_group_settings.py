"""The settings of ``--groups N``: what all share, what differs, and which requests are refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker import __main__ as broker_main
from rocketpy.broker.group_settings import GROUPS_MAX, load_group_settings
from rocketpy.broker.start_settings import StartOptions
from rocketpy.errors import SettingsError


def options(tmp_path: Path, text: str | None = None, **given: object) -> StartOptions:
    if text is not None:
        (tmp_path / "b.conf").write_text(f"brokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nbindAddress=127.0.0.1\n{text}")
        given["config_file"] = str(tmp_path / "b.conf")
    return StartOptions(**given)  # type: ignore[arg-type]


def test_without_a_file_groups_are_small_brokers_on_loopback(tmp_path: Path) -> None:
    groups = load_group_settings(3, options(tmp_path, store_path=str(tmp_path / "s")))
    assert groups.embeds_nameserver
    assert groups.namesrv_addr == "127.0.0.1:9876"
    assert [each.broker.broker_name for each in groups.members] == ["broker-a", "broker-b", "broker-c"]
    assert [each.server.listen_port for each in groups.members] == [10_911, 10_921, 10_931]
    assert [each.store.ha_listen_port for each in groups.members] == [10_912, 10_922, 10_932]
    assert [each.store.root for each in groups.members] == [str(tmp_path / "s" / f"broker-{x}") for x in "abc"]
    assert {each.host for each in groups.members} == {"127.0.0.1"}
    assert not any(each.embeds_nameserver for each in groups.members)
    assert {each.broker.namesrv_addr for each in groups.members} == {"127.0.0.1:9876"}
    assert groups.warnings == ()


def test_the_file_is_shared_and_its_port_is_the_first_ones(tmp_path: Path) -> None:
    text = "listenPort=20011\nstorePathRootDir=/data\nstorePathCommitLog=/a, /b\n"
    text += "namesrvAddr=ns:9876\nmaxMessageSize=99\n"
    groups = load_group_settings(2, options(tmp_path, text))
    assert not groups.embeds_nameserver
    assert [each.server.listen_port for each in groups.members] == [20_011, 20_021]
    assert [each.store.commit_log_paths for each in groups.members] == [
        ("/a/broker-a", "/b/broker-a"),
        ("/a/broker-b", "/b/broker-b"),
    ]
    assert [each.store.root for each in groups.members] == ["/data/broker-a", "/data/broker-b"]
    assert {each.store.max_message_size for each in groups.members} == {99}
    assert {each.broker.namesrv_addr for each in groups.members} == {"ns:9876"}
    assert {each.config_path for each in groups.members} == {str(tmp_path / "b.conf")}
    assert all(each.broker.isolate_log_enable for each in groups.members)


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    given = options(tmp_path, "listenPort=20011\nstorePathRootDir=/data\n", port=30_000, store_path="/other")
    groups = load_group_settings(2, given)
    assert [each.server.listen_port for each in groups.members] == [30_000, 30_010]
    assert [each.store.root for each in groups.members] == ["/other/broker-a", "/other/broker-b"]


def test_a_file_without_nameservers_gets_one_for_its_groups(tmp_path: Path) -> None:
    groups = load_group_settings(2, options(tmp_path, "storePathRootDir=/data\n"))
    assert groups.embeds_nameserver
    assert groups.warnings == ()
    groups = load_group_settings(2, options(tmp_path, "", environment_namesrv_addr="ns:1"))
    assert (groups.embeds_nameserver, groups.namesrv_addr) == (False, "ns:1")


def test_a_name_in_the_file_has_no_effect_and_that_is_said_once(tmp_path: Path) -> None:
    groups = load_group_settings(2, options(tmp_path, "brokerName=mine\nunknown=1\n"))
    assert groups.warnings[0] == "brokerName = 'mine' has no effect with --groups, which names each group"
    assert len(groups.warnings) == 2
    assert "unknown key unknown" in groups.warnings[1]


def test_a_change_by_request_to_one_group_is_its_own_without_a_file(tmp_path: Path) -> None:
    config = tmp_path / "broker-b" / "config"
    config.mkdir(parents=True)
    (config / "broker.properties").write_text("maxMessageSize=99\n")
    groups = load_group_settings(2, options(tmp_path, store_path=str(tmp_path)))
    assert [each.store.max_message_size == 99 for each in groups.members] == [False, True]


def test_ports_that_the_system_chooses_are_all_chosen(tmp_path: Path) -> None:
    groups = load_group_settings(2, options(tmp_path, port=0))
    assert [each.server.listen_port for each in groups.members] == [0, 0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("enableDLegerCommitLog=true", "enableDLegerCommitLog = 'true': expected false, DLedger is not supported"),
        ("brokerRole=SLAVE\nbrokerId=1", "brokerRole = 'SLAVE': expected a master with --groups, each group is one"),
        ("listenPort=65530", "--groups 2: expected ports up to 65534, 10 apart from 65530 on"),
    ],
    ids=["dledger", "slave", "ports"],
)
def test_settings_that_no_group_can_have_are_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_group_settings(2, options(tmp_path, text))
    *_, found = str(refused.value).rpartition("b.conf line 4: ")
    assert found == sentence
    assert list(tmp_path.iterdir()) == [tmp_path / "b.conf"]


@pytest.mark.parametrize("count", ["0", "-1", "1000", str(GROUPS_MAX + 1), "two", "", "1.5", "٣"])
def test_a_wrong_number_of_groups_is_status_2(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        broker_main.main(["--groups", count])
    assert ended.value.code == 2
    assert f"{count!r}: expected a number of groups from 1 to 26" in capsys.readouterr().err


def test_groups_and_a_sample_cluster_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        broker_main.main(["--groups", "2", "--cluster", "2m-noslave"])
    assert ended.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err
