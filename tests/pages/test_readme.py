"""The sessions of ``README.md``, played in their order in an empty directory."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rocketpy.remoting.local_address import interface_address
from tests.page_text import ROOT
from tests.pages.command_lines import Block, blocks_of
from tests.pages.session import Ports, Session

BLOCKS = blocks_of("README.md")
MAKEFILE = (ROOT / "Makefile").read_text()


def block(first: str) -> Block:
    """Return the block that begins with a line."""
    (found,) = [each for each in BLOCKS if each.first.startswith(first)]
    return found


def test_the_first_session_is_as_it_is_printed(tmp_path: Path) -> None:
    session = Session(tmp_path, Ports.take())
    with session.broker(until="try it") as output:

        def make_broker() -> str:
            for line in ("echo 'Installing rocketpy into $(VENV) ...'", "$(BIN)/rocketpy --version"):
                assert f"\t@{line}\n" in MAKEFILE
            assert "broker: $(VENV)/.core" in MAKEFILE
            assert "\t@$(BIN)/python -m rocketpy.broker\n" in MAKEFILE
            return f"Installing rocketpy into .venv ...\n{session.run('rocketpy --version')}{output()}"

        session.stand_ins |= {"make broker": make_broker, ". .venv/bin/activate": lambda: ""}
        session.play(block("$ make broker"))
        session.play(block("$ . .venv/bin/activate"))
        (tmp_path / "hello.py").write_text(session.here(block("import trio").text))
        session.play(block("$ python hello.py"), in_any_order=True)
        session.play(block("$ rocketpy store verify store"))
        # The rows of the table of what may be wrong.
        assert "hello " in session.run("rocketpy topic list")
        assert "0 problems" in session.run("rocketpy doctor -n 127.0.0.1:9876 --watch 0.1")
        log = output()
    assert re.findall(r"\w+\(\w+=", log) == [], "a line of the log shows a value of the program, not a sentence"


def test_clients_on_other_machines_find_a_broker_that_is_started_as_the_page_says(tmp_path: Path) -> None:
    """With the conf files as they are, but other ports, and a home of its own for the stores."""
    namesrv, broker = block("$ python -m rocketpy.nameserver").text.splitlines()
    assert namesrv == "$ python -m rocketpy.nameserver -c conf/namesrv.conf"
    assert broker == "$ python -m rocketpy.broker -c conf/broker.conf -n HOST:9876"
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    session = Session(tmp_path, Ports.take())
    host = interface_address()
    moved = {f"-n HOST:{9876}": f"-n {host}:{session.ports.namesrv} --port {session.ports.broker}"}
    commands = [namesrv[2:] + f" --port {session.ports.namesrv}", broker[2:].replace(*next(iter(moved.items())))]
    session.variables["NAMESRV_ADDR"] = f"{host}:{session.ports.namesrv}"
    with (
        session.serving([sys.executable, *commands[0].split()[1:]], until="Listening on every address") as listening,
        session.serving([sys.executable, *commands[1].split()[1:]], until="boot success") as started,
    ):
        assert "Listening on every address" in listening()
        assert f"name server is {host}:{session.ports.namesrv}" in started()
        assert (tmp_path / "store" / "commitlog").is_dir()
        assert f"hello: 8 queues on {host}:{session.ports.broker}" in session.run("rocketpy topic create hello")
        session.run("echo good morning | rocketpy produce -t hello")
        assert session.run("rocketpy consume -t hello -o beginning -e") == "good morning\n"
