"""The modules of a broker that runs with the default settings: what they switch off is not loaded.

Loading takes a good part of the start, so a module that only ACL, SQL92, TLS, YAML or a slave needs is imported
where it is first used.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from tests.loaded_modules import loaded_after

ROOT = Path(__file__).parents[2]

_START = """
import sys
from random import Random

import trio

from rocketpy.broker.app import run_broker
from rocketpy.broker.start_settings import StartOptions, load_broker_settings
from rocketpy.clock import SystemClock
from rocketpy.store.disk.os_disk import OsDisk

settings = load_broker_settings(StartOptions(config_file={path!r}))
collaborators = {{"disk": OsDisk(), "clock": SystemClock(), "run_blocking": trio.to_thread.run_sync}}


async def main():
    stop = trio.Event()

    async def run(task_status):
        await run_broker(settings, randomness=Random(0), stop=stop, task_status=task_status, **collaborators)

    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        stop.set()


trio.run(main)
"""
"""Starts a broker with the settings of a file and stops it again."""

_UNUSED = (
    "difflib",
    "lark",
    "rocketpy.broker.acl.acl_edit",
    "rocketpy.broker.acl.acl_files",
    "rocketpy.broker.acl.acl_yaml",
    "rocketpy.broker.acl.fast_path_guards",
    "rocketpy.broker.acl.file_watch",
    "rocketpy.broker.acl.needed_permissions",
    "rocketpy.broker.acl.plain_access_resource",
    "rocketpy.broker.acl.plain_permission",
    "rocketpy.broker.acl.remote_address",
    "rocketpy.broker.replication.comparison",
    "rocketpy.broker.replication.remote_log",
    "rocketpy.broker.replication.slave_synchronize",
    "rocketpy.protocol.selector.sql92",
    "rocketpy.remoting.tls.self_signed",
    "ruamel.yaml",
)


def test_a_broker_with_default_settings_loads_only_what_it_needs(tmp_path: Path) -> None:
    for module in _UNUSED:
        assert importlib.util.find_spec(module) is not None, f"{module} has another name now"
    settings = tmp_path / "broker.conf"
    settings.write_text(
        f"storePathRootDir={tmp_path / 'store'}\n"
        "listenPort=0\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\n"
        "mappedFileSizeCommitLog=1048576\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
    )
    needed = "rocketpy.store.message_store"
    assert loaded_after(_START.format(path=str(settings)), needed, *_UNUSED) == [needed]


def test_a_broker_does_not_keep_the_source_text_of_generated_methods() -> None:
    """It is most of a megabyte, which is filled again by what the start allocates next."""
    code = """
import atexit, linecache, runpy, sys
atexit.register(lambda: print("kept:", [name for name in linecache.cache if name.startswith("<attrs")]))
sys.argv[1:] = ["-h"]
runpy.run_module("rocketpy.broker", run_name="__main__")
"""
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ).stdout
    assert output.splitlines()[-1] == "kept: []"
