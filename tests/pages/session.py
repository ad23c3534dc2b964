"""Plays the shell sessions of a page: its commands in their order, in a directory of their own, with its outputs.

A command runs as it stands on the page, in a shell, with ``rocketpy`` and ``python`` of this environment on the PATH.
The ports of the page are others here, because the page's may be in use. A program that serves is a stand-in: the
session starts it, and its output is compared when it serves. What differs from run to run is replaced on both sides
(:data:`DIFFERS`), and nothing else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from rocketpy import BUILD
from rocketpy.remoting.local_address import local_host_name
from tests.blackbox.ports import free_ports
from tests.blackbox.processes import Process
from tests.broker.broker_processes import broker_command
from tests.page_text import ROOT
from tests.pages.command_lines import Block, commands_of
from tests.patience import PATIENCE_SECONDS, wait_until

DIFFERS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(r"\b[0-9A-F]{32}\b"), "ID"),
    (re.compile(r'("(?:born|store)_timestamp"|"queue_id"):\d+'), r"\1:N"),
    (re.compile(r'"born_host":"[^"]+"'), '"born_host":"HOST"'),
    (re.compile(r"queue_id=\d+"), "queue_id=N"),
    (re.compile(r"^\d+ (\d+) (?=good)", re.MULTILINE), r"N \1 "),
    (re.compile(r"^\d+ \d+ (?=hello)", re.MULTILINE), "N N "),  # in the queue of the others it is the fourth
    (re.compile(r"units in \d+ queues?\b"), "units in N queues"),
    (re.compile(r"  +\d+ +/"), "  PID  /"),
    (re.compile(r" +$", re.MULTILINE), ""),
)
"""Times, ids, ports of clients, process ids, and the queues that a producer happens to choose."""

PAGE_DIRECTORY = "/tmp/rocketpy"


@attrs.frozen(kw_only=True)
class Ports:
    """The ports of one session; those of the page stand for them."""

    namesrv: int
    broker: int

    @classmethod
    def take(cls) -> Ports:
        """Return ports that are free, for a few brokers ten apart."""
        first = free_ports(40)
        return cls(namesrv=first, broker=first + 4)

    @property
    def by_page(self) -> dict[str, str]:
        """The numbers here by those of the page."""
        numbers = {9876: self.namesrv}
        for step in (0, 10, 20, 30):
            numbers |= {10911 + step: self.broker + step, 10912 + step: self.broker + step + 1}
        return {f":{page}": f":{here}" for page, here in numbers.items()}


@attrs.define(eq=False)
class Session:
    """A directory with a shell, in which the blocks of a page are played one after another."""

    directory: Path
    ports: Ports
    stand_ins: dict[str, Callable[[], str]] = attrs.field(factory=dict)
    """By command: what is done instead, and returns what it has printed."""
    variables: dict[str, str] = attrs.field(factory=dict)
    played: list[str] = attrs.field(factory=list)
    """The commands that were run."""

    def __attrs_post_init__(self) -> None:
        commands = self.directory / "commands"
        commands.mkdir()
        for name, arguments in (("python", ""), ("rocketpy", "-m rocketpy.cli ")):
            script = commands / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
            script.chmod(0o755)

    def environment(self) -> dict[str, str]:
        """Return the variables of its commands."""
        path = f"{self.directory / 'commands'}:{os.environ['PATH']}"
        own = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(self.directory)}
        namesrv = {"NAMESRV_ADDR": f"127.0.0.1:{self.ports.namesrv}"}
        return {**os.environ, **own, **namesrv, **self.variables}

    def run(self, command: str) -> str:
        """Run a command to its end; return what it prints on both outputs. It must succeed."""
        here = self.here(command)
        self.played.append(command)
        ended = subprocess.run(
            ["bash", "-c", here],
            cwd=self.directory,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, f"{here}\n{ended.stdout}"
        return ended.stdout

    def play(self, block: Block, *, in_any_order: bool = False) -> None:
        """Run the commands of a ``console`` block, and compare what each prints with the page."""
        for command, expected in _steps(block):
            stand_in = self.stand_ins.get(command)
            printed = self.run(command) if stand_in is None else stand_in()
            there, here = shown(expected), shown(self.as_on_the_page(printed))
            if in_any_order:
                there, here = sorted(there), sorted(here)
            assert here == there, f"{block.page}: {command}"

    def here(self, text: str) -> str:
        """Return a text of the page with the ports of this session."""
        return _replaced(text, self.ports.by_page)

    def as_on_the_page(self, text: str) -> str:
        """Return a text of this session as the page would have it."""
        own = {here: page for page, here in self.ports.by_page.items()}
        own |= {str(self.directory): PAGE_DIRECTORY, str(BUILD): "compiled kernels"}
        text = _replaced(text, own)
        return re.sub(rf"(?<![\w.]){re.escape(local_host_name())}(?![\w.])", "vm", text)

    @contextmanager
    def broker(self, *arguments: str, until: str) -> Iterator[Callable[[], str]]:
        """Start a broker with its nameserver, as a page does; the block gets what waits for and returns its output."""
        options = ("--port", str(self.ports.broker), *arguments)
        command = broker_command(*options, namesrv_port=self.ports.namesrv)
        with self.serving(command, until=until) as output:
            yield output

    @contextmanager
    def serving(self, command: Sequence[str], *, until: str, **more: str) -> Iterator[Callable[[], str]]:
        """Run a program that serves until the block ends, then stop it in order; it must end with success."""
        path = self.directory / f"output-{len(list(self.directory.glob('output-*')))}"
        environment = {**self.environment(), "NAMESRV_ADDR": "", **more}
        process = Process.start(command, path, cwd=self.directory, env=environment)

        def output() -> str:
            wait_until(lambda: until in process.log() or not process.is_running(), process.log)
            return process.log()

        try:
            yield output
            assert process.terminate() == 0, process.log()
        finally:
            if process.is_running():
                process.kill()


def shown(text: str) -> list[str]:
    """Return the lines of an output, with what differs from run to run replaced."""
    for pattern, replacement in DIFFERS:
        text = pattern.sub(replacement, text)
    return [line for line in text.splitlines() if line.strip()]


def _steps(block: Block) -> list[tuple[str, str]]:
    """Return each command of a ``console`` block with the output that follows it."""
    steps: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], ""))
        else:
            command, output = steps.pop()
            steps.append((command, f"{output}{line}\n"))
    assert [command for command, _ in steps] == commands_of(block)
    return steps


def _replaced(text: str, replacements: Mapping[str, str]) -> str:
    pattern = "|".join(rf"{re.escape(each)}(?!\d)" for each in sorted(replacements, key=len, reverse=True))
    return re.sub(pattern, lambda match: replacements[match.group()], text)
