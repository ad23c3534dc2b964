"""The logs of a broker: RocketMQ's files, where the settings put them, at the levels that they say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from rocketpy.broker.__main__ import main
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.logs import CONCERNS, LEVEL_KEYS, apply_log_levels, configure_logging
from rocketpy.errors import SettingsError, StartError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.settings import setting_rows, updated_settings
from tests.broker.test_app import running, settings_at
from tests.quiet_logs import restored_loggers
from tests.remoting.patient_client import open_patient_client

ROCKETMQ_FILES = {
    "broker.log": (128, 20),
    "protection.log": (100, 10),
    "watermark.log": (100, 10),
    "store.log": (128, 10),
    "storeerror.log": (100, 10),
    "remoting.log": (100, 10),
    "transaction.log": (100, 10),
    "lock.log": (100, 5),
    "filter.log": (100, 10),
    "stats.log": (100, 5),
    "commercial.log": (500, 10),
    "namesrv.log": (100, 5),
    "broker_default.log": (100, 10),
}
"""MiB and older files of each, from logback_broker.xml and logback_namesrv.xml of 4.9.8."""


@pytest.fixture(autouse=True)
def quiet_root() -> Iterator[None]:
    with restored_loggers(CONCERNS):
        yield


def test_files_have_rocketmqs_names_sizes_and_numbers() -> None:
    found = {each.file_name: (each.size_bytes_max >> 20, each.backup_count) for each in CONCERNS}
    assert found == ROCKETMQ_FILES


def test_every_concern_has_a_setting_that_counts_at_once() -> None:
    rows = {row.key: row for row in setting_rows(BrokerConfig)}
    assert set(LEVEL_KEYS) == {key for key in rows if key.startswith("logLevel")}
    assert set(LEVEL_KEYS) == {"logLevel", *(f"logLevel.{each.name}" for each in CONCERNS)}
    assert all(rows[key].live for key in LEVEL_KEYS)
    assert rows["logDirectory"].fixed


def test_lines_go_to_the_file_of_their_concern(tmp_path: Path) -> None:
    configure_logging(BrokerConfig(log_directory=str(tmp_path / "logs")))
    logging.getLogger("rocketpy.broker").info("begun")
    logging.getLogger("rocketpy.broker.acl").warning("an account")
    logging.getLogger("rocketpy.store.error").error("damage")
    logging.getLogger("somebody").warning("else")
    texts = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}
    assert texts.keys() == {"broker.log", "storeerror.log", "broker_default.log"}
    assert texts["broker.log"].count("\n") == 2
    assert " WARN broker.acl an account\n" in texts["broker.log"]
    assert " ERROR store.error damage\n" in texts["storeerror.log"]
    assert " WARN somebody else\n" in texts["broker_default.log"]


def test_isolated_logs_are_in_a_directory_of_the_brokers(tmp_path: Path) -> None:
    config = BrokerConfig(log_directory=str(tmp_path), isolate_log_enable=True, broker_name="a", broker_id=0)
    configure_logging(config)
    logging.getLogger("rocketpy.broker").info("begun")
    assert (tmp_path / "a_0" / "broker.log").exists()


def test_without_a_directory_everything_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(BrokerConfig())
    logging.getLogger("rocketpy.broker").info("begun")
    logging.getLogger("rocketpy.broker.stats").info("[TOPIC_PUT_NUMS] ...")
    logging.getLogger("rocketpy.broker.watermark").info("[WATERMARK] ...")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["INFO broker begun"]


def test_the_directory_may_be_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-p", "--log-directory", "logs"]) == 0
    assert "logDirectory=logs" in capsys.readouterr().out.splitlines()


def test_a_directory_that_cannot_be_is_an_error_of_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"logDirectory = '.*/file/logs': expected a directory that can be written"):
        configure_logging(BrokerConfig(log_directory=str(tmp_path / "file" / "logs")))


@pytest.mark.parametrize("key", [key for key in LEVEL_KEYS if key != "logLevel"])
def test_each_level_is_obeyed(key: str) -> None:
    apply_log_levels(updated_settings(BrokerConfig(), {"logLevel": "ERROR", key: "DEBUG"}))
    concern = key.removeprefix("logLevel.")
    levels = {each.name: logging.getLogger(each.logger).level for each in CONCERNS}
    assert levels[concern] == logging.DEBUG
    assert levels["broker" if concern != "broker" else "store"] == logging.ERROR


async def test_a_request_changes_levels_of_a_running_broker(tmp_path: Path) -> None:
    settings = settings_at(tmp_path / "store")
    async with running(settings) as at, open_patient_client() as client:
        body = b"logLevel=ERROR\nlogLevel.stats=DEBUG\n"
        answer = await client.request(at.address, RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=body))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert logging.getLogger("rocketpy.broker").level == logging.ERROR
        assert logging.getLogger("rocketpy.broker.stats").level == logging.DEBUG
        moved = RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=b"logDirectory=/elsewhere\n")
        assert (await client.request(at.address, moved)).code != ResponseCode.SUCCESS


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="expected DEBUG, INFO, WARN, ERROR or OFF"):
        updated_settings(BrokerConfig(), {"logLevel": "LOUD"})
    with pytest.raises(SettingsError):
        updated_settings(BrokerConfig(), {"logLevel.stats": "LOUD"})
    assert attrs.evolve(BrokerConfig(), log_level_stats="").log_level_stats == ""
