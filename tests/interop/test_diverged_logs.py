"""A slave of ours whose Java master was restored from an older copy: it finds the point where the logs part, and cuts.

RocketMQ answers any offset with as many bytes as the first four there say, so a search over records that are not there
meets all that it can answer: nothing, other bytes, an exception, and answers longer than a frame.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.blackbox.wire import SUCCESS, Wire
from tests.interop.conftest import TARGET
from tests.interop.pair import Pair, assert_equal_stores, open_pair

pytestmark = pytest.mark.java


def send(pair: Pair, randomness: Random, count: int, size_max: int) -> None:
    with Wire(pair.master.address) as wire:
        for number in range(count):
            body = randomness.randbytes(randomness.randrange(1, size_max))
            response = wire.send("diverged", number % 4, body, "WAIT\x01false\x02")
            assert response.code == SUCCESS, response


@pytest.mark.skipif(TARGET == "java", reason="a Java slave compares nothing")
def test_a_slave_and_a_master_that_was_restored_from_a_copy(tmp_path: Path, namesrv: str) -> None:
    randomness = Random(20)
    with open_pair(tmp_path, namesrv, ("java", "rocketpy"), "ASYNC_MASTER") as pair:
        master, slave = pair.master, pair.slave
        pair.start()
        pair.wait_following()
        send(pair, randomness, 150, 2000)
        pair.wait_equal()
        master.stop()
        shutil.copytree(master.store, tmp_path / "copy")
        common_end = master_end(pair)
        send(pair, randomness, 200, 2000)  # over several files
        end = pair.wait_equal()
        assert end > common_end + 2 * 65_536

        master.kill()
        shutil.rmtree(master.store)
        shutil.copytree(tmp_path / "copy", master.store)
        assert master_end(pair) == common_end
        send(pair, randomness, 300, 3000)  # beyond the slave's end
        assert master.log_end() > end
        slave.wait(lambda: slave.figures().get("haState") == "stopped", "it follows another history")
        figures = slave.figures()
        assert f"part at {common_end}; " in figures["haAlarm"], figures["haAlarm"]
        assert int(figures["haDivergedBytes"]) == end - common_end
        assert slave.log_end() == end

        slave.stop()
        slave.settings["haTruncateDivergedLog"] = "true"
        slave.begin()  # it opens its store twice
        slave.wait(lambda: slave.figures().get("haState") == "following", "it does not follow")
        assert_equal_stores(master.store, slave.store, pair.wait_equal())
        (kept,) = (slave.store / "diverged").iterdir()
        assert kept.name.startswith(f"{common_end:020d}-")
        assert sum(path.stat().st_size for path in kept.iterdir()) == end - common_end
        slave.stop()


def master_end(pair: Pair) -> int:
    """Start the master and return where its log ends."""
    pair.master.start()
    return pair.master.log_end()
