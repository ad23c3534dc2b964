"""A real broker and stores that it cannot open: exit status 2, one sentence that names the place, nothing changed.

``tests/store/whole/test_bad_stores.py`` has every kind of damage; here are some, through the process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.blackbox import processes
from tests.blackbox.lives import OurLives
from tests.blackbox.ports import broker_port
from tests.blackbox.wire import SUCCESS, Wire
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.blackbox

EXIT_WRONG = 2
COUNT = 300
SETTINGS = {"mappedFileSizeCommitLog": 1 << 16, "maxHashSlotNum": 100, "maxIndexNum": 1000}
TOPIC = "Bad"
_NO_WAY_ROUND = "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a broker that took messages and stopped in order."""
    lives = OurLives(tmp_path_factory.mktemp("stopped"))
    try:
        with Wire(lives.live(SETTINGS)) as wire:
            assert wire.create_topic(TOPIC, 2).code == SUCCESS
            for number in range(COUNT):
                assert wire.send(TOPIC, number % 2, b"%d" % number * 50).code == SUCCESS
        assert lives.stop() == 0, lives.process.log()
    finally:
        lives.kill()
    return lives.directory


@pytest.fixture
def lives(stopped: Path, tmp_path: Path) -> OurLives:
    """A copy of it."""
    shutil.copytree(stopped, tmp_path / "broker")
    return OurLives(tmp_path / "broker")


def log_files(store: Path) -> list[Path]:
    return sorted((store / "commitlog").iterdir())


def contents(directory: Path) -> dict[str, bytes]:
    return {str(each.relative_to(directory)): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


def refused(lives: OurLives, *wrap: str) -> str:
    """Start a broker that is to end by itself; return its only line, and check that the store is as it was."""
    settings = {**processes.broker_settings(lives.directory, broker_port(), "127.0.0.1:9"), **SETTINGS}
    config = processes.write_config(lives.directory / "refused.conf", settings)
    command = [*wrap, *processes.python_command("rocketpy.broker", "-c", str(config))]
    before = contents(lives.store) if not wrap else {}
    done = subprocess.run(
        command,
        cwd=lives.directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    lines = done.stderr.decode().strip().splitlines()
    assert (done.returncode, len(lines)) == (EXIT_WRONG, 1), done
    assert b"Traceback" not in done.stdout
    if before:
        assert contents(lives.store) == before
    return lines[0]


def remove_middle_log_file(store: Path) -> Path:
    before, path, *_ = log_files(store)
    path.unlink()
    return before


def file_for_a_directory(store: Path) -> Path:
    path = store / "consumequeue"
    shutil.rmtree(path)
    path.write_text("not a folder")
    return path


def broken_topics(store: Path) -> Path:
    path = store / "config" / "topics.json"
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    path.with_name("topics.json.bak").write_text("{")
    return path


@pytest.mark.parametrize("damage", [remove_middle_log_file, file_for_a_directory, broken_topics])
def test_a_store_that_cannot_be_opened_is_left_alone(lives: OurLives, damage: Callable[[Path], Path]) -> None:
    path = damage(lives.store)
    sentence = refused(lives)
    assert str(path) in sentence, sentence
    if path.parent.name == "commitlog" and path.is_file():
        assert "rocketpy store verify" in sentence


def test_a_file_without_permission_is_named(lives: OurLives) -> None:
    path = log_files(lives.store)[-1]
    wrap: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("running as root, and no setpriv (util-linux) to give up root's way round permissions")
        os.chown(path, 65534, 65534)
        wrap = ["setpriv", *_NO_WAY_ROUND]
    path.chmod(0)
    sentence = refused(lives, *wrap)
    assert str(path) in sentence
    assert "Permission denied" in sentence
