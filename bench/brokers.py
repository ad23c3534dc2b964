"""Starts, watches and ends the brokers: the Java one from Maven and both builds of ours, with the same settings.

Every process is ended by its own process id. A broker that does not answer in time, or dies, is an error that shows
the end of its log. The Java broker starts with TLS off: otherwise it makes a key and a certificate at each start, which
ours does only for the first connection that asks for TLS.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench import probe
from bench.processes import with_descendants

REPOSITORY = Path(__file__).resolve().parent.parent
JARS_COMMAND = REPOSITORY / "tests" / "interop" / "peer" / "jars"

JAVA = "java"
OURS = "ours"
PURE, COMPILED = "pure", "compiled"
WISHES = {PURE: "1", COMPILED: "0"}
"""ROCKETPY_PURE for a build; OURS runs what the environment and the checkout say."""

NOT_PASSED_ON = ("NAMESRV_ADDR", "PYTHONDONTWRITEBYTECODE")
"""Variables that no broker gets; one that may not keep what it compiles would compile its sources at each start."""

PORTS, PORT_ATTEMPTS = (12_000, 31_000), 1_000
START_S = 60.0
SAY_S = 10.0
STOP_S = 60.0
PROBE_TOPIC = "bench_probe"

JAVA_OPENS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
_BUILD = re.compile(r"^  build +(.+)$", re.MULTILINE)
LOGBACK = '<configuration><root level="ERROR"/></configuration>\n'


class BenchError(Exception):
    """The benchmark cannot go on; says what failed and where its log is."""


@dataclass
class Broker:
    """One broker with a store of its own; may be started again on it."""

    kind: str  # JAVA, OURS, PURE or COMPILED
    directory: Path
    settings: dict[str, str]
    jars: Path | None = None
    java_heap_mib: int = 1024
    port: int = field(default_factory=lambda: free_port())
    process: subprocess.Popen[bytes] | None = None
    build: str = ""
    """What the broker itself says of its build, once it has been started; only for PURE and COMPILED."""

    @property
    def has_accounts(self) -> bool:
        """Whether every request must be signed."""
        return self.settings.get("aclEnable") == "true"

    def start(self, timeout_s: float = START_S) -> float:
        """Start and return the seconds from spawning the process to its first SEND_OK.

        A slave takes no sends, and a SYNC_MASTER answers SEND_OK with a slave only: their first answer counts.
        """
        spawned = self.begin()
        while not self._serves(timeout_s):
            if time.perf_counter() - spawned > timeout_s:
                raise BenchError(f"{self.kind}: no SEND_OK within {timeout_s:.0f} s{self._log_end()}")
            time.sleep(0.001)
        seconds = time.perf_counter() - spawned
        if self.kind in WISHES:
            self._check_build()
        return seconds

    def begin(self) -> float:
        """Spawn the process, and return when that was on the performance counter."""
        assert self.process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        command, environment = self._command(self._write_settings())
        with open(self.directory / "broker.log", "ab") as log:
            spawned = time.perf_counter()
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.directory, env=environment
            )
        return spawned

    def stop(self) -> None:
        """End the process with SIGTERM, or SIGKILL when it takes too long; harmless when it is not running."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)

    def kill(self) -> None:
        """End the process with SIGKILL; harmless when it is not running."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait(STOP_S)

    def anonymous_bytes(self) -> int:
        """Return RssAnon of the process and all its descendants: memory that is neither page cache nor shared files."""
        return sum(_kib_line(Path(f"/proc/{pid}/status"), "RssAnon") for pid in self._pids())

    def resident_bytes(self) -> int:
        """Return all memory of the process and its descendants that is in RAM, mapped files included."""
        return sum(_kib_line(Path(f"/proc/{pid}/status"), "VmRSS") for pid in self._pids())

    def proportional_bytes(self) -> int:
        """Return the same with each shared page divided by the number of processes that have it (PSS)."""
        return sum(_kib_line(Path(f"/proc/{pid}/smaps_rollup"), "Pss") for pid in self._pids())

    def descriptors(self) -> int:
        """Return how many descriptors the process and its descendants have open."""
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self._pids())

    def runtime_info(self) -> dict[str, str]:
        """Return the broker's runtime table."""
        return probe.runtime_info(self.port)

    def failed(self, why: str) -> BenchError:
        """Make an error that also shows what the broker logged last."""
        return BenchError(f"{self.kind}: {why}{self._log_end()}")

    def remove_store(self) -> None:
        """Delete the store of a broker that does not run."""
        shutil.rmtree(self.directory / "store", ignore_errors=True)

    def _serves(self, timeout_s: float) -> bool:
        self._check_alive()
        try:
            if self.settings.get("brokerRole", "ASYNC_MASTER") != "ASYNC_MASTER":
                return bool(self.runtime_info())
            # A broker that listens before it has recovered answers late: asked again, it would seem to be later still.
            return probe.send_one(self.port, PROBE_TOPIC, timeout_s)
        except OSError:
            return False

    def _check_build(self) -> None:
        """Keep what the broker says of its build; BenchError when it is the other one."""
        deadline = time.monotonic() + SAY_S
        log = self.directory / "broker.log"
        while not (said := _BUILD.findall(log.read_text(errors="replace"))):
            if time.monotonic() > deadline:
                raise self.failed("it does not say which build it is")
            time.sleep(0.01)
        self.build = said[-1]
        if self.build.startswith("plain Python") != (self.kind == PURE):
            raise self.failed(f"another build was wanted than {self.build}")

    def _pids(self) -> list[int]:
        self._check_alive()
        assert self.process is not None
        return with_descendants(self.process.pid)

    def _check_alive(self) -> None:
        if self.process is None or self.process.poll() is not None:
            status = None if self.process is None else self.process.returncode
            raise BenchError(f"{self.kind}: the broker is not running, exit status {status}{self._log_end()}")

    def _log_end(self) -> str:
        log = self.directory / "broker.log"
        lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        return "".join(f"\n    {line}" for line in [f"{log}:", *lines])

    def _write_settings(self) -> Path:
        store = self.directory / "store"
        values = {
            "brokerClusterName": "bench",
            "brokerName": f"bench-{self.kind}",
            "brokerId": "0",
            "brokerRole": "ASYNC_MASTER",
            "flushDiskType": "ASYNC_FLUSH",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "bindAddress": "127.0.0.1",  # Java 4.9 does not know the key and listens on every address
            "listenPort": str(self.port),
            "haListenPort": str(self.port + 1),
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            "autoCreateTopicEnable": "true",
            "messageIndexEnable": "true",
            **self.settings,
        }
        if self.has_accounts:  # beside broker.conf for ours, in conf of its home for Java
            for directory in (self.directory, self.directory / "home" / "conf"):
                directory.mkdir(parents=True, exist_ok=True)
                account = f"accessKey: {probe.ACCESS_KEY}, secretKey: {probe.SECRET_KEY}, admin: true"
                (directory / "plain_acl.yml").write_text(f"accounts:\n- {{{account}}}\n")
        path = self.directory / "broker.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return path

    def _command(self, settings: Path) -> tuple[list[str], dict[str, str]]:
        environment = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
        if self.kind != JAVA:
            environment["PYTHONPATH"] = str(REPOSITORY)
            if self.kind in WISHES:
                environment["ROCKETPY_PURE"] = WISHES[self.kind]
            return [sys.executable, "-m", "rocketpy.broker", "-c", str(settings)], environment
        home = self.directory / "home"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        (home / "conf" / "logback_broker.xml").write_text(LOGBACK)
        mib = self.java_heap_mib
        heap = [f"-Xms{mib}m", f"-Xmx{mib}m", f"-Xmn{mib // 2}m", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=2g"]
        names = [f"-Drocketmq.home.dir={home}", f"-Duser.home={home}", "-Dtls.server.mode=disabled"]
        names += ["-cp", f"{self.jars}/*"]
        main = ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(settings)]
        return ["java", *heap, *JAVA_OPENS, *names, *main], environment


def peer_jars() -> Path:
    """Return the folder with the Java broker's jars; fetched with Maven on first use."""
    try:
        done = subprocess.run([JARS_COMMAND], capture_output=True, text=True, timeout=900, check=False)
    except FileNotFoundError as error:
        raise BenchError(f"{JARS_COMMAND} is missing: give --jars DIR or measure with --only ours") from error
    if done.returncode != 0:
        raise BenchError(f"Maven could not fetch the Java broker: {done.stderr.strip()[-2000:]}")
    return Path(done.stdout.strip())


def free_port(count: int = 1, distance: int = 0) -> int:
    """Return a port for a broker, or for the first of several with a distance between them.

    The neighbours are free, too: Java also listens two below (VIP channel) and one above (HA). They are below the range
    that the kernel gives to outgoing connections: no client takes one while the broker is stopped.
    """
    chance = random.Random(f"{os.getpid()} {time.monotonic_ns()}")
    for _ in range(PORT_ATTEMPTS):
        port = chance.randrange(*PORTS)
        if all(_is_free_for_a_broker(port + number * distance) for number in range(count)):
            return port
    raise BenchError(f"no free ports between {PORTS[0]} and {PORTS[1]}")


def _is_free_for_a_broker(port: int) -> bool:
    return all(_is_free(port + step) for step in (-2, 0, 1))


def _is_free(port: int) -> bool:
    with socket.socket() as attempt:
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _kib_line(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise BenchError(f"{path} has no {name}")
