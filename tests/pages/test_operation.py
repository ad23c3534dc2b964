"""The sessions and programs of the pages about operation: containers, the doctor, replication, plug-ins."""

from __future__ import annotations

import gc
import re
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from rocketpy.broker.start_settings import StartOptions, load_broker_settings
from rocketpy.client import Message, blocking
from rocketpy.testing.fixture.in_thread import open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.broker.broker_processes import broker_command
from tests.page_text import ROOT
from tests.pages.command_lines import Block, blocks_of
from tests.pages.session import Ports, Session, shown
from tests.patience import wait_until


def block(page: str, first: str) -> Block:
    """Return the block of a page that begins with a text."""
    (found,) = [each for each in blocks_of(page) if each.first.startswith(first)]
    return found


def test_two_brokers_share_a_topic_that_is_created(tmp_path: Path) -> None:
    session = Session(tmp_path, Ports.take())
    with session.broker("--groups", "2", "--store", f"{tmp_path}/store", until="try it") as output:
        table = "".join(line for line in output().splitlines(True) if line.startswith(("role", "name", "ASYNC", "try")))
        there = block("docs/containers.md", "$ python -m rocketpy.broker --groups 2").text.partition("\n")[2]
        here = session.as_on_the_page(table).replace("/tmp/rocketpy/store", "/tmp/store")
        assert [" ".join(line.split()) for line in shown(here)] == [" ".join(line.split()) for line in shown(there)]
        (commands,) = re.findall(r"try it: (.+); Ctrl-C", there)
        create, produce, consume = commands.split(", ")
        session.run(create)
        listed = [line.split()[:2] for line in session.run("rocketpy topic list").splitlines()]
        assert [broker for topic, broker in listed if topic == "hello"] == ["broker-a", "broker-b"]
        session.run(f"echo good morning | {produce}")
        assert session.run(f"{consume} -e") == "good morning\n"


def test_a_program_that_starts_a_broker_reads_its_address(tmp_path: Path) -> None:
    session = Session(tmp_path, Ports.take())
    program = session.here(block("docs/containers.md", "import json, subprocess, sys").text)
    (tmp_path / "start.py").write_text(program)
    *_, address = session.run("python start.py 2>/dev/null").splitlines()
    assert re.fullmatch(r"127\.0\.0\.1:\d+", address)


def test_the_doctor_says_of_a_new_broker_what_its_page_says(tmp_path: Path) -> None:
    session = Session(tmp_path, Ports.take())
    options = BrokerOptions(settings={"brokerName": "broker-a"})
    with open_broker_in_thread(options) as broker:
        session.variables["NAMESRV_ADDR"] = broker.name_server
        session.stand_ins["rocketpy doctor"] = lambda: session.run("rocketpy doctor --watch 0.1").replace(
            broker.address, "127.0.0.1:10911"
        )
        session.play(block("docs/doctor.md", "$ rocketpy doctor"))


@pytest.mark.parametrize("role", ["master", "slave"])
def test_master_and_slave_start_with_the_settings_of_the_page(tmp_path: Path, role: str) -> None:
    text = block("docs/replication.md", "# the master").text
    master, slave = text.split("# the slave, in a file of its own\n")
    path = tmp_path / "b.conf"
    path.write_text((master if role == "master" else slave) + "bindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\n")
    settings = load_broker_settings(StartOptions(config_file=str(path)))
    assert settings.warnings == ()
    assert (settings.broker.broker_id > 0) == (role == "slave")


SAMPLES = sorted((ROOT / "conf").rglob("*.properties"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_sample_file_says_what_its_name_says(path: Path) -> None:
    settings = load_broker_settings(StartOptions(config_file=str(path)))
    assert settings.warnings == ()
    assert settings.broker.broker_name == path.stem.removesuffix("-s")
    assert (settings.broker.broker_id > 0) == path.stem.endswith("-s")


def test_the_brokers_of_a_sample_file_each_start_and_replicate(tmp_path: Path) -> None:
    """As its comment says, beside a nameserver; ports and stores are others here."""
    session = Session(tmp_path, Ports.take())
    address = f"127.0.0.1:{session.ports.namesrv}"
    nameserver = [sys.executable, "-m", "rocketpy.nameserver", "--port", str(session.ports.namesrv)]
    with ExitStack() as running:
        running.enter_context(session.serving(nameserver, until="boot success"))()
        outputs = []
        for step, name in enumerate(("broker-a", "broker-a-s")):
            path = ROOT / "conf" / "2m-2s-sync" / f"{name}.properties"
            assert f"python -m rocketpy.broker -c {path.relative_to(ROOT)}\n" in path.read_text()
            moved = ("-n", address, "--port", str(session.ports.broker + 10 * step), "--store", name)
            command = broker_command("-c", str(path), *moved)
            outputs.append(running.enter_context(session.serving(command, until="boot success")))
            assert "boot success" in outputs[-1]()
        session.run("rocketpy topic create hello -q 1")

        def is_on_both() -> bool:
            return "SEND_OK" in session.run("echo good morning | rocketpy produce -t hello -v")

        wait_until(is_on_both)  # SEND_OK of a SYNC_MASTER: its slave has the message, too


def test_the_plug_in_and_the_hook_of_the_page_count_what_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my").mkdir()
    for first in ("# my/module.py", "# my/audit.py"):
        found = block("docs/architecture.md", first)
        (tmp_path / first[2:]).write_text(found.text)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = {"messageStorePlugIn": "my.module:CountingStore", "sendMessageHooks": "my.audit:AuditHook"}
    with open_broker_in_thread(BrokerOptions(settings=settings)) as broker:
        with blocking.open_producer(broker.name_server) as producer:
            for number in range(3):
                producer.send(Message("T", b"%d" % number))
        kinds = (sys.modules["my.module"].CountingStore, sys.modules["my.audit"].AuditHook)
        assert [each.count for kind in kinds for each in gc.get_objects() if type(each) is kind] == [3, 3]
    for name in ("my.module", "my.audit", "my"):
        sys.modules.pop(name, None)
