"""Many mqadmin commands in one JVM against one cluster, and what is the same in the outputs of two of them.

What differs from run to run is replaced by words: addresses, times, ids, hashes of objects, paths. What is left of two
outputs can be compared as text.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import attrs

from tests.interop.clients import LIMIT_S, java_command
from tests.interop.cluster import Cluster
from tests.patience import PATIENCE_SECONDS


@attrs.frozen
class Printed:
    """What one command printed: ``late`` if it was stopped, ``exit`` if it wanted to end the JVM."""

    text: str
    late: bool
    exit: int | None


class MqadminSession:
    """A JVM that runs commands, with a producer (``i6``) and consumers that stay online meanwhile."""

    def __init__(self, cluster: Cluster, directory: Path, *, tools_yml: str = "") -> None:
        self.cluster = cluster
        self.directory = directory
        self._ids: list[str] = []
        conf = directory / "conf"
        conf.mkdir(parents=True)
        (conf / "logback_tools.xml").write_text('<configuration><root level="OFF"/></configuration>\n')
        if tools_yml:
            self.sign_as(tools_yml)
        start = java_command(directory)
        start[1:1] = [f"-Drocketmq.home.dir={directory}", "-Djava.security.manager=allow", "-Duser.timezone=UTC"]
        self._process = subprocess.Popen(
            [*start, "Mqadmin", f"namesrv={cluster.namesrv}", f"limit_s={LIMIT_S}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(directory / "stderr.log").open("wb"),
            cwd=directory,
            text=True,
        )

    def __enter__(self) -> MqadminSession:
        self._answer("ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def sign_as(self, tools_yml: str) -> None:
        """Give the commands from now on another account."""
        (self.directory / "conf" / "tools.yml").write_text(tools_yml)

    def run(self, arguments: Sequence[str], *, until: str | None = None) -> Printed:
        """Run one command and return what it printed, without what its log library says of its own set-up.

        One that does not end is stopped when it has printed a line with ``until``.
        """
        words = [self.filled(each) for each in arguments]
        answer = self._ask({"run": words, "within_s": int(PATIENCE_SECONDS), "until": until}, "printed")
        lines = [line for line in str(answer["text"]).splitlines() if "|-" not in line]
        status = answer.get("exit")
        return Printed("\n".join(lines), bool(answer["late"]), status if isinstance(status, int) else None)

    def send(self, **message: object) -> None:
        """Send a message to one queue; its ids are ``{key:N}`` and ``{id:N}``, N counted from 0."""
        answer = self._ask({"send": message}, "sent")
        self._ids.append(f"{answer['msgId']} {answer['offsetMsgId']}")

    def consume(self, **consumer: object) -> None:
        """Start a push consumer that stays online, and wait until it has had ``count`` messages."""
        self._ask({"consume": consumer}, "consumed")

    def leave(self, group: str) -> None:
        """End the consumer of a group."""
        self._ask({"leave": group}, "left")

    def filled(self, word: str) -> str:
        """Replace ``{broker}``, ``{namesrv}``, ``{dir}``, ``{key:N}`` and ``{id:N}``."""
        named = {"{broker}": self._broker, "{namesrv}": self.cluster.namesrv, "{dir}": str(self.directory)}
        for name, value in named.items():
            word = word.replace(name, value)
        return re.sub(r"\{(key|id):(\d+)\}", lambda found: self._ids[int(found[2])].split()[found[1] == "id"], word)

    def without_what_varies(self, text: str) -> str:
        """Replace what differs from run to run by words."""
        host_hex = f"7F000001{int(self._broker.rpartition(':')[2]):08X}"
        fixed = {
            self._broker: "BROKER",
            self.cluster.namesrv: "NAMESRV",
            host_hex: "HOST",
            str(self.directory): "DIR",
            str(self.cluster.directory): "CLUSTER",
        }
        for found, word in fixed.items():
            text = text.replace(found, word)
        for pattern, word in VARIES:
            text = re.sub(pattern, word, text)
        return "\n".join(line.rstrip() for line in text.splitlines()).strip()

    @property
    def _broker(self) -> str:
        return self.cluster.brokers["broker-0"]

    def _ask(self, step: Mapping[str, object], event: str) -> Mapping[str, object]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(step) + "\n")
        self._process.stdin.flush()
        return self._answer(event)

    def _answer(self, event: str) -> Mapping[str, object]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"no answer:\n{(self.directory / 'stderr.log').read_text(errors='replace')[-4000:]}")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        assert answer["event"] == event, answer
        return answer


VARIES = (
    (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([,.:]\d{1,3})?", "TIME"),
    (r"\b20\d{12}(\d{3})?\b", "TIME"),
    (r"\b1[6-9]\d{11}\b", "MS"),
    (r"\b[0-9A-F]{56}\b|\b[0-9A-F]{32}\b", "KEY"),
    (r"@[0-9a-f]{5,8}\b", "@HASH"),
    (r"/?127\.0\.0\.1:\d+", "CLIENT"),
    (r"\b\d+\.\d+\.\d+\.\d+@\d+", "ADMIN"),
    (r"V[45]_\d_\d", "VERSION"),
    (r"\bversion=40\d\b", "version=VERSION"),
    (r"\(\w+\.java:\d+\)", "(FRAME)"),
    (r"\brt=\d+ms", "rt=RT"),
)
