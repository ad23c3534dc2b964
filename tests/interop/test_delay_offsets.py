"""A Java broker reads our ``delayOffset.json``, and we read what it writes in its place."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import trio

from rocketpy.broker.delay.offsets import DelayOffsetManager, DelayProgress
from rocketpy.store.disk.os_disk import OsDisk
from tests.interop.clients import RUN_S, command

pytestmark = pytest.mark.java


def manager(path: Path) -> DelayOffsetManager:
    return DelayOffsetManager(path=str(path), disk=OsDisk(), run_blocking=trio.to_thread.run_sync)


async def test_java_passes_over_the_place_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "delayOffset.json"
    ours = manager(path)
    ours.note(DelayProgress({1: 4, 2: 1, 18: 3}, 81_723))
    await ours.stored.persist()
    assert '"physicalOffset":81723' in path.read_text()

    arguments, environment = command("java", "delayOffsets", tmp_path)
    done = await trio.to_thread.run_sync(
        lambda: subprocess.run(
            [*arguments, f"file={path}"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=True,
        )
    )
    line = json.loads(done.stdout.splitlines()[-1])
    assert line["offsets"] == {"1": 4, "2": 1, "18": 3}

    path.write_text(line["text"])
    after_java = manager(path)
    after_java.load()
    assert after_java.noted == DelayProgress({1: 4, 2: 1, 18: 3}, None)
