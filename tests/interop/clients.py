"""The foreign clients as the tests use them: one interface over the programs in ``programs/``, whatever their language.

Each program is a process of its own with a home directory of its own. A producer reads what to send from its stdin, a
consumer runs until its stdin is closed; both print JSON lines, and end by themselves when their time limit has passed.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import attrs

from tests.interop import tools
from tests.patience import PATIENCE_SECONDS

LANGUAGES = ("java", "go", "node", "cpp")
LIMIT_S = 3 * 3600  # of a program that serves many tests; it ends with its stdin, and so with this process

RUN_S = 2 * PATIENCE_SECONDS  # it starts, connects, does all that it was given, and ends

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class ToSend:
    """A message as a test describes it; ``shard`` chooses the queue in mode orderly, ``delay`` is a level."""

    topic: str
    body: bytes
    tags: str = ""
    keys: str = ""
    properties: Mapping[str, str] = attrs.field(factory=dict)
    shard: int = 0
    delay: int = 0

    def line(self) -> str:
        """Return the line that the producers read."""
        return json.dumps(self.value(), ensure_ascii=False) + "\n"

    def value(self) -> dict[str, object]:
        """Return what the programs read, with what is given only."""
        asked: dict[str, object] = {
            "topic": self.topic,
            "body": base64.b64encode(self.body).decode(),
            "tags": self.tags,
            "keys": self.keys,
            "properties": dict(self.properties),
            "shard": self.shard,
        }
        if self.delay:
            asked["delay"] = self.delay
        return {name: value for name, value in asked.items() if value != ""}


@attrs.frozen(kw_only=True)
class Sent:
    """What a client was answered: absent fields are None, as clients differ in what they tell."""

    status: str | None = None
    msg_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None


@attrs.frozen(kw_only=True)
class Received:
    """A message as a client's listener saw it."""

    topic: str
    queue_id: int
    queue_offset: int
    msg_id: str
    offset_msg_id: str | None
    broker_name: str | None
    sys_flag: int | None
    reconsume_times: int
    born_timestamp: int
    store_timestamp: int
    tags: str
    keys: str
    properties: Mapping[str, str]
    body: bytes

    @property
    def queue(self) -> tuple[str | None, int]:
        """The queue that it was in."""
        return self.broker_name, self.queue_id


def received(line: Mapping[str, object]) -> Received:
    """Return the value of a line that a program printed for a message."""
    properties = line["properties"]
    assert isinstance(properties, dict)
    return Received(
        topic=str(line["topic"]),
        queue_id=_number(line["queueId"]),
        queue_offset=_number(line["queueOffset"]),
        msg_id=str(line["msgId"]),
        offset_msg_id=_text(line.get("offsetMsgId")),
        broker_name=_text(line.get("brokerName")),
        sys_flag=None if line.get("sysFlag") is None else _number(line["sysFlag"]),
        reconsume_times=_number(line["reconsumeTimes"]),
        born_timestamp=_number(line["bornTimestamp"]),
        store_timestamp=_number(line["storeTimestamp"]),
        tags=_text(line.get("tags")) or "",
        keys=_text(line.get("keys")) or "",
        properties={str(name): str(value) for name, value in properties.items()},
        body=base64.b64decode(str(line["body"])),
    )


def command(language: str, role: str, home: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the environment of a language's program; ``role`` is produce, consume, ..."""
    found = tools.prepared(language)
    environment = {**os.environ, "HOME": str(home), "NODE_PATH": str(found), "ROCKETMQ_GO_LOG_LEVEL": "warn"}
    if language == "java":
        heap_mb = 512 if role == "storeTool" else 256  # each store that is open there, or ending, holds ten megabytes
        return [*java_command(home, heap_mb=heap_mb), role[0].upper() + role[1:]], environment
    if language == "go":
        return [str(found), role], environment
    if language == "node":
        return ["node", str(tools.PROGRAMS / "node" / "client.js"), role], environment
    assert language == "cpp", language
    return [str(found), str(tools.PROGRAMS / "cpp" / "client.py"), role], environment


# What the store of RocketMQ 4.9 reaches into on a JDK later than 8 when it unmaps a file.
_JAVA_OPENED = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.ref")


def java_command(home: Path, *, heap_mb: int = 256) -> list[str]:
    """Return the start of a Java command line: a small, quickly starting JVM with our classes and the jars."""
    programs = tools.prepared("java")
    return [
        *tools.java_start(programs, tools.java_jars()),
        f"-XX:SharedArchiveFile={programs / tools.CLASSES}",  # ignored by a Java of another version
        f"-Xmx{heap_mb}m",
        *(f"--add-opens={each}=ALL-UNNAMED" for each in _JAVA_OPENED),
        f"-Duser.home={home}",
        "-Drocketmq.client.logLevel=WARN",
        "-Dcom.rocketmq.remoting.client.connect.timeout=30000",
    ]


class Program:
    """A running program of ours: its lines are read by a thread, so that it never waits for us."""

    def __init__(self, language: str, role: str, directory: Path, **arguments: object) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        start, environment = command(language, role, directory)
        given = {"limit_s": LIMIT_S, **arguments}
        self.name = f"{language} {role} {given}"
        self._lines: list[Mapping[str, object]] = []
        self._changed = threading.Condition()
        self._ended = False
        self._stderr = directory / f"{role}.stderr"
        with self._stderr.open("ab") as stderr:
            self._popen = subprocess.Popen(
                [*start, *(f"{name}={value}" for name, value in given.items())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment, cwd=directory,
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name=self.name, daemon=True)
        self._reader.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.kill()

    def write(self, lines: Iterable[str]) -> None:
        """Give it lines on its stdin."""
        assert self._popen.stdin is not None
        self._popen.stdin.write("".join(lines).encode())
        self._popen.stdin.flush()

    def close(self) -> None:
        """End its stdin, upon which it ends; fails when it does not, or not well."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        self._finish(PATIENCE_SECONDS)

    def run(self, lines: Iterable[str]) -> list[Mapping[str, object]]:
        """Give it ``lines`` and the end of its stdin, and return all that it printed."""
        self.write(lines)
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        self._finish(RUN_S)
        return self.lines()

    def send_signal(self, number: int) -> None:
        """Send it a signal, such as SIGSTOP."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """End it at once with SIGKILL."""
        self._popen.kill()
        self._popen.wait()
        self._reader.join(PATIENCE_SECONDS)

    def lines(self, event: str | None = None) -> list[Mapping[str, object]]:
        """Return the lines so far, of one event or all."""
        with self._changed:
            return [each for each in self._lines if event in (None, each["event"])]

    def messages(self) -> list[Received]:
        """Return the messages so far, in the order of their lines."""
        return [received(each) for each in self.lines("message")]

    def wait_until(self, probe: Callable[[], T], what: str, timeout_s: float = PATIENCE_SECONDS) -> T:
        """Return what ``probe`` gives as soon as that is true; it is asked again after each line."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                found = probe()
                if found:
                    return found
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    why = "it ended" if self._ended else f"{timeout_s} s passed"
                    raise AssertionError(f"{self.name}: {why} before: {what}; {self._story()}")
                self._changed.wait(left)

    def wait_started(self) -> None:
        """Wait for the line by which a consumer says that it has started."""
        self.wait_until(lambda: self.lines("started"), "started")

    def wait_messages(self, count: int, timeout_s: float = PATIENCE_SECONDS) -> list[Received]:
        """Return the messages once there are ``count``."""
        self.wait_until(lambda: len(self.lines("message")) >= count, f"{count} messages", timeout_s)
        return self.messages()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for text in self._popen.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                line = {"event": "not json", "text": text.decode(errors="replace")}
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _finish(self, timeout_s: float) -> None:
        try:
            status = self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name}: did not end; {self._story()}") from None
        self._reader.join(PATIENCE_SECONDS)
        assert not self._reader.is_alive(), f"{self.name}: a process that it has started goes on; {self._story()}"
        assert status == 0, f"{self.name}: exit status {status}; {self._story()}"

    def _story(self) -> str:
        errors = self._stderr.read_text(errors="replace").strip().splitlines()[-15:]
        with self._changed:
            last = [str(each)[:300] for each in self._lines[-5:]]
            return "\n".join([f"{len(self._lines)} lines, the last:", *last, "stderr:", *errors])


def produce(
    language: str, namesrv: str, messages: Sequence[ToSend], directory: Path, *, mode: str = "sync", group: str = ""
) -> list[Sent]:
    """Run a language's producer to its end and return what it was answered, in the order of ``messages``."""
    program = Program(language, "produce", directory, namesrv=namesrv, group=group or f"{language}_producer", mode=mode)
    return answers([each for each in program.run(each.line() for each in messages) if each["event"] == "sent"])


def answers(lines: Iterable[Mapping[str, object]]) -> list[Sent]:
    """Return what a producer was answered, in the order of what it was asked to send, from its lines."""
    return [
        Sent(
            status=_text(line.get("status")),
            msg_id=_text(line.get("msgId")),
            offset_msg_id=_text(line.get("offsetMsgId")),
            broker_name=_text(line.get("brokerName")),
            queue_id=None if line.get("queueId") is None else _number(line["queueId"]),
            queue_offset=None if line.get("queueOffset") is None else _number(line["queueOffset"]),
        )
        for line in sorted(lines, key=lambda line: _number(line["index"]))
    ]


def _number(value: object) -> int:
    # Node's client gives what it read from a header as it came: as text.
    assert isinstance(value, int | str), value
    return int(value)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
