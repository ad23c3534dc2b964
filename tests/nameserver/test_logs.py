"""The log of a nameserver."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.nameserver.logs import CONCERNS, apply_log_level, configure_logging
from tests.quiet_logs import restored_loggers


@pytest.fixture(autouse=True)
def quiet_root() -> Iterator[None]:
    with restored_loggers(CONCERNS):
        yield


def test_lines_go_to_namesrv_log(tmp_path: Path) -> None:
    configure_logging(NamesrvConfig(log_directory=str(tmp_path)))
    logging.getLogger("rocketpy.nameserver").info("a broker")
    logging.getLogger("rocketpy.remoting").info("a connection")
    assert (tmp_path / "namesrv.log").read_text().endswith(" INFO nameserver a broker\n")
    assert (tmp_path / "namesrv_default.log").read_text().endswith(" INFO remoting a connection\n")


def test_without_a_directory_they_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(NamesrvConfig(log_level="WARN"))
    logging.getLogger("rocketpy.nameserver").info("unheard")
    logging.getLogger("rocketpy.nameserver").warning("heard")
    assert capsys.readouterr().err.endswith(" WARN nameserver heard\n")


def test_the_level_may_change(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(NamesrvConfig())
    apply_log_level(NamesrvConfig(log_level="ERROR"))
    logging.getLogger("rocketpy.nameserver").warning("unheard")
    assert capsys.readouterr().err == ""
