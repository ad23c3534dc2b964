"""A run in which clients, topics and groups come and go, and nothing that stays may grow.

It starts a nameserver, a master and its slave as a user does, and two processes of visitors (:mod:`.visitors`). A round
is a time of visits and a rest: when the last visit has ended and the servers have noticed, each process is measured
(:mod:`.usage`), and single operations are (:mod:`.probes`). So what a round finds is not the load of a moment.

- Memory, open files and the processor time of operations are judged by thirds of the run (:mod:`.flatness`).
- Sockets, other descriptors and threads must in the end be what they were before the first visitor, and open files no
  more than in the first rest.
- In the end no table on disk may name a visitor, but the deletions that the log still has records of, and none may have
  a queue.

In each rest the brokers delete all files of the log but the last, so that what they keep for as long as the log has
records of it goes, too. (Not while visitors are there: transactions older than the log are given up.)
What a broker keeps of groups for an hour and a half after they have gone it keeps for a quarter of a minute here
(:mod:`.collecting`).
Whatever is kept for an hour stays for the whole of a shorter run: counters of names that nobody has deleted (visitors
delete theirs).
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import attrs

from bench.soak import collecting, visitors
from bench.soak.cluster import SETTINGS, BrokerProcess, create_topics
from bench.soak.flatness import EXACT, MEASUREMENTS_MIN, Allowance, Verdict, compare, judge, settled_thirds, table
from bench.soak.journal import JournalReader
from bench.soak.probes import PROBE_TOPIC, Probe, probe_servers
from bench.soak.usage import Usage, bytes_below, processor_ns, usage_of
from bench.soak.visits import PREFIX, RESIDENT_QUEUES, RESIDENT_TOPIC, VISITS
from tests.blackbox import processes
from tests.blackbox.forked import Forked
from tests.blackbox.ports import free_ports
from tests.blackbox.wire import Wire

MASTER, SLAVE, NAMESERVER = "master", "slave", "nameserver"
SERVERS = (MASTER, SLAVE, NAMESERVER)
VISITORS = ("visitors-1", "visitors-2")

PATIENCE_SECONDS = 120.0
THREADS_END_SECONDS = 12.0
"""Trio ends worker threads that have had nothing to do for ten seconds."""
IDLE_TIMES_MAX = 5
"""For so many times as long as that the servers may have more threads in the end than they had before."""
CLEAN_SECONDS = 2.0
"""How long brokers look for files that may go, and servers for connections that have ended."""
SAMPLE_SECONDS = 3.0
ROUND_SECONDS = (8.0, 30.0)
"""The shortest and the longest time of visits in a round."""
ROUNDS = 40
"""So many there are, if rests take no time."""
PAUSE_SECONDS = 0.5
LOOK_SECONDS = 0.1

FLOWING: Mapping[str, object] = {
    **SETTINGS,
    "slaveTimeout": 3_000,
    "mappedFileSizeCommitLog": 256 << 10,
    "maxMessageSize": 64 << 10,
    "mappedFileSizeConsumeQueue": 40_000,
    "maxHashSlotNum": 5_000,
    "maxIndexNum": 20_000,
    "cleanResourceInterval": 500,
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    "filterDataCleanTimeSpan": 5_000,
    "transactionCheckMax": 3,
}
"""Small files, which may be deleted at any hour."""
KEPT_HOURS = 72

MIB = 1 << 20
MEMORY = Allowance(amount=2.0, share=0.03)
FILES = Allowance(amount=12.0, share=0.25)
THREADS = Allowance(amount=4.0)
PROCESSOR = Allowance(share=0.3)
VISIT = Allowance(share=0.3)
DISK = Allowance(amount=8.0, share=0.3)
TABLES = Allowance(amount=2.0)
DELETIONS = Allowance(amount=8.0, share=0.5)

TABLE_FILES = (
    "topics.json",
    "subscriptionGroup.json",
    "consumerOffset.json",
    "consumerFilter.json",
    "deletedTopics.json",
    "offsetResets.json",
    "tableMarks.json",
    "delayOffset.json",
)
DELETIONS_FILE, RESETS_FILE = "deletedTopics.json", "offsetResets.json"


@attrs.define(eq=False)
class Report:
    """What was measured, and what must not be."""

    seconds: float
    visits: Counter[str]
    verdicts: list[Verdict]
    waits: dict[str, tuple[float, float, float, float]]
    """For each operation the median of p50 and p99 in the first and the last settled third, in microseconds."""
    violations: list[str]
    visits_between: float
    """Between the middle of the first and that of the last settled third."""

    @property
    def is_good(self) -> bool:
        """Whether all is flat and nothing has failed."""
        return not self.violations and all(each.is_flat for each in self.verdicts)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.visits.items()))
        yield f"{self.seconds:.0f} s, {self.visits.total()} visits: {kinds}"
        yield from table(self.verdicts)
        least = MEMORY.amount * MIB / self.visits_between
        yield f"found would be what leaves {least:.0f} bytes or more of memory for each visit"
        yield f"{'what callers waited, us':<28} {'p50':>10} {'p99':>10} {'p50, end':>10} {'p99, end':>10}"
        for title, figures in self.waits.items():
            yield f"{title:<28} " + " ".join(f"{each:>10.0f}" for each in figures)
        yield from self.violations


def round_seconds(seconds: float) -> float:
    """Return how long visits go on in a round of a run of so many seconds."""
    shortest, longest = ROUND_SECONDS
    return max(shortest, min(longest, seconds / ROUNDS))


@contextmanager
def open_run(
    directory: Path, *, pause_s: float, round_s: float, idle_s: float = THREADS_END_SECONDS
) -> Iterator[ComeAndGo]:
    """Start the servers; whatever runs at the end of the block is killed.

    ``pause_s`` is between the visits of one task, ``round_s`` how long visits go on in a round, ``idle_s`` how long
    servers without a client wait before they are measured.
    """
    port = free_ports(1)
    wrap = ("env", f"PYTHONPATH={processes.REPOSITORY}", *processes.python_command(collecting.__name__))
    nameserver = processes.start_nameserver(directory / NAMESERVER, port, wrap=wrap)
    run = ComeAndGo(directory, f"127.0.0.1:{port}", nameserver, pause_s, round_s, idle_s, wrap)
    try:
        run.start()
        yield run
    finally:
        run.kill()


class ComeAndGo:
    """Created by :func:`open_run`: some :meth:`rounds`, then :meth:`finish`."""

    def __init__(
        self,
        directory: Path,
        namesrv: str,
        nameserver: processes.Process,
        pause_s: float,
        round_s: float,
        idle_s: float,
        wrap: tuple[str, ...],
    ) -> None:
        self.namesrv = namesrv
        self._directory = directory
        self._nameserver = nameserver
        self._pause_s = pause_s
        self._round_s = round_s
        self._idle_s = idle_s
        master = BrokerProcess(MASTER, "broker-a", "ASYNC_MASTER", directory / MASTER, namesrv)
        slave = BrokerProcess(SLAVE, "broker-a", "SLAVE", directory / SLAVE, namesrv)
        slave.master_ha_address = f"127.0.0.1:{master.port + 1}"
        self.brokers = {MASTER: master, SLAVE: slave}
        for each in self.brokers.values():
            each.settings, each.wrap = FLOWING, wrap
        self._visitors: dict[str, processes.Process] = {}
        self._journals = {name: JournalReader(directory / name) for name in VISITORS}
        self.visits: Counter[str] = Counter()  # that could do all they came for
        self._failed: Counter[str] = Counter()
        self._rests = 0
        self._before: dict[str, Usage] = {}
        self._first_rest: dict[str, Usage] = {}
        self._series: dict[str, list[float]] = defaultdict(list)
        self._probes: dict[str, list[Probe]] = defaultdict(list)
        self._samples = (directory / "samples.jsonl").open("w")
        self._begun = time.monotonic()

    # ---- phases ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the brokers, measure them before anyone has come, and let visitors come."""
        for broker in self.brokers.values():
            broker.start()
        master = {MASTER: self.brokers[MASTER]}
        create_topics(master, self.namesrv, [RESIDENT_TOPIC], RESIDENT_QUEUES)
        create_topics(master, self.namesrv, [PROBE_TOPIC], 1)
        self._probe(0)  # what is imported and opened with the first request of a kind is there from now on
        time.sleep(self._idle_s)
        self._before = self._usages(SERVERS)
        for first, name in zip((0, visitors.TASKS), VISITORS, strict=True):
            address = self.brokers[MASTER].address
            arguments = (name, str(first), self.namesrv, address, str(self._directory), str(self._pause_s))
            log_path = self._directory / f"{name}.log"
            self._visitors[name] = processes.Process(Forked(visitors.__name__, arguments, log_path), log_path)
        self._wait(lambda: self.visits.total() > 0, "the first visit ends")
        self._begun = time.monotonic()

    def rounds(self, seconds: float) -> None:
        """Do rounds until so many seconds have passed, and as many as can be judged."""
        number = 0
        while time.monotonic() < self._begun + seconds or number < MEASUREMENTS_MIN:
            number += 1
            self.round(number)

    def finish(self) -> Report:
        """End everything, and judge the rounds and what is there when all have gone."""
        seconds = time.monotonic() - self._begun
        comparisons, violations = self.leave()
        verdicts = [*self._verdicts(), *comparisons]
        return Report(seconds, self.visits, verdicts, self._waits(), violations, self._visits_between())

    def leave(self) -> tuple[list[Verdict], list[str]]:
        """End the visitors, measure the servers, and end these; return what is held, and what must not have been."""
        for name, process in self._visitors.items():
            status = process.terminate()
            assert status == 0, f"{name} ended with {status}:\n{process.log()}"
        self._visitors.clear()
        named = self._wait_until_nothing_is_named()
        time.sleep(self._idle_s)
        after = self._usages_of_idle_servers()
        comparisons = list(self._comparisons(after))
        for broker in reversed(self.brokers.values()):
            broker.stop()
        assert self._nameserver.terminate() == 0, self._nameserver.log()
        violations = [f"{count} visits failed: {kind}" for kind, count in self._failed.items()]
        violations += named + self._failures_logged()
        return comparisons, violations

    def kill(self) -> None:
        """End whatever runs."""
        for process in self._visitors.values():
            process.kill()
        for broker in self.brokers.values():
            with suppress(AssertionError):
                broker.kill()
        self._nameserver.kill()
        self._samples.close()

    # ---- rounds ---------------------------------------------------------------------------------------------------

    def round(self, number: int) -> None:
        """Let visitors come for a while, and each kind of visit at least once; let them rest, and measure."""
        begin_ns = {name: processor_ns(pid) for name, pid in self._pids().items()}
        begun, before = time.monotonic(), self.visits.copy()
        while time.monotonic() < begun + self._round_s:
            time.sleep(min(SAMPLE_SECONDS, self._round_s))
            self._read_on()
            self._note("load", number, self._usages(self._pids()))
        self._wait(lambda: all(self.visits[kind] > before[kind] for kind in VISITS), "each kind of visit ends")
        self._rest()
        count = self.visits.total() - before.total()
        for name, pid in self._pids().items():
            self._add(f"{name}: processor time of a visit", (processor_ns(pid) - begin_ns[name]) / count / 1e6)
        self._measure(number)
        self._probe(number)
        self._signal(signal.SIGUSR2)

    def _measure(self, number: int) -> None:
        usages = self._usages(self._pids())
        self._first_rest = self._first_rest or usages
        self._note("rest", number, usages)
        for name, usage in usages.items():
            self._add(f"{name}: memory", usage.memory_bytes / MIB)
            self._add(f"{name}: sockets", usage.sockets)
            self._add(f"{name}: other descriptors", usage.other_descriptors)
            self._add(f"{name}: open files", usage.files)
            self._add(f"{name}: threads", usage.threads)
        for title in self.brokers:
            for name, size in self._tables(title).items():
                self._add(f"{title}: {name}", size / 1024)
            self._add(f"{title}: disk", bytes_below(self._store(title)) / MIB)
        self._add("visits so far", self.visits.total())

    def _rest(self) -> None:
        """Let the visits end, and the servers notice."""
        rests = self._rests + len(VISITORS)
        self._signal(signal.SIGUSR1)
        self._wait(lambda: self._rests >= rests, "the visits of a round end")
        # The master forgets deletions with the log. A slave that had not heard of one would keep the topic's queues.
        self._wait(lambda: not self._unknown_deletions(), "the slave takes the deletions")
        self._reserve_hours(0)
        time.sleep(CLEAN_SECONDS)
        self._reserve_hours(KEPT_HOURS)

    def _unknown_deletions(self) -> set[str]:
        """Return the topics whose deletion is in the master's table and not in the slave's."""
        master, slave = (self._deletions(title) for title in (MASTER, SLAVE))
        return {topic for topic, offset in master.items() if slave.get(topic, -1) < offset}

    def _deletions(self, title: str) -> dict[str, int]:
        try:
            text = (self._store(title) / "config" / DELETIONS_FILE).read_text()
        except FileNotFoundError:
            return {}
        return {topic: mark["offset"] for topic, mark in json.loads(text)["deletedTopics"].items()}

    def _reserve_hours(self, hours: int) -> None:
        for broker in self.brokers.values():
            with Wire(broker.address) as wire:
                wire.update_config(fileReservedTime=hours)

    def _probe(self, number: int) -> None:
        master = self.brokers[MASTER]
        for each in probe_servers((master.pid, master.address), (self._nameserver.pid, self.namesrv), number):
            if number:
                self._probes[each.title].append(each)

    def _signal(self, number: int) -> None:
        for process in self._visitors.values():
            process.popen.send_signal(number)

    def _add(self, title: str, value: float) -> None:
        self._series[title].append(value)

    def _note(self, when: str, number: int, usages: Mapping[str, Usage]) -> None:
        seconds = round(time.monotonic() - self._begun, 1)
        fields = {name: attrs.asdict(usage) for name, usage in usages.items()}
        self._samples.write(json.dumps({"when": when, "round": number, "seconds": seconds, **fields}) + "\n")
        self._samples.flush()

    # ---- judgement ------------------------------------------------------------------------------------------------

    def _verdicts(self) -> Iterator[Verdict]:
        allowances = {
            "memory": ("MiB", MEMORY),
            "open files": ("", FILES),
            "threads": ("", THREADS),
            "sockets": ("", EXACT),
            "other descriptors": ("", EXACT),
            "processor time of a visit": ("ms", VISIT),
            "disk": ("MiB", DISK),
            **dict.fromkeys(TABLE_FILES, ("KiB", TABLES)),
            **dict.fromkeys((DELETIONS_FILE, RESETS_FILE), ("KiB", DELETIONS)),
        }
        for title, values in self._series.items():
            found = allowances.get(title.partition(": ")[2])
            if found is not None:
                yield judge(title, found[0], values, found[1])
        for title, probes in self._probes.items():
            yield judge(f"processor time of: {title}", "us", [each.processor_us for each in probes], PROCESSOR)

    def _visits_between(self) -> float:
        before, after = settled_thirds(self._series["visits so far"])
        return median(after) - median(before)

    def _comparisons(self, after: Mapping[str, Usage]) -> Iterator[Verdict]:
        for name, before in self._before.items():
            for title, get in COMPARED.items():
                yield compare(f"{name}: {title}, all gone", "", get(before), get(after[name]))
            yield compare(f"{name}: removed files, all gone", "", 0, after[name].removed_files)
            # The first visitors make the queues of system topics.
            yield compare(f"{name}: open files, all gone", "", self._first_rest[name].files, after[name].files, FILES)

    def _waits(self) -> dict[str, tuple[float, float, float, float]]:
        found = {}
        for title, probes in self._probes.items():
            p50 = judge(title, "us", [each.p50_us for each in probes], EXACT)
            p99 = judge(title, "us", [each.p99_us for each in probes], EXACT)
            found[title] = p50.begin, p99.begin, p50.end, p99.end
        return found

    def _wait_until_nothing_is_named(self) -> list[str]:
        """Wait until tables and queues on disk name no visitor; return those that still do after a long time."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            self._require_running()
            if not self._named():
                break
            time.sleep(LOOK_SECONDS)
        return self._named()

    def _named(self) -> list[str]:
        found = []
        for title in self.brokers:
            for name in TABLE_FILES:
                path = self._store(title) / "config" / name
                if name != DELETIONS_FILE and path.exists() and (count := path.read_text().count(PREFIX)):
                    found.append(f"{title}: {name} names {count} visitors in the end")
            queues = self._queues_of_visitors(title)
            if queues:
                found.append(f"{title}: {len(queues)} queues of visitors are there in the end: {queues[0]}")
        return found

    def _queues_of_visitors(self, title: str) -> list[str]:
        """Return the directories of queues of topics that visitors made: what is deleted has none, or no files."""
        folder = self._store(title) / "consumequeue"
        return sorted(
            str(each.relative_to(folder)) for each in folder.glob(f"*{PREFIX}*/[0-9]*") if any(each.iterdir())
        )

    def _failures_logged(self) -> list[str]:
        return [
            f"{path.name}: {text[text.index('Traceback') :][:2000]}"
            for path in sorted(self._directory.rglob("*.log"))
            if "Traceback" in (text := path.read_text(errors="replace"))
        ]

    # ---- what is known --------------------------------------------------------------------------------------------

    def _pids(self) -> dict[str, int]:
        found = {name: broker.pid for name, broker in self.brokers.items()}
        found[NAMESERVER] = self._nameserver.pid
        return {**found, **{name: process.pid for name, process in self._visitors.items()}}

    def _usages_of_idle_servers(self) -> dict[str, Usage]:
        """Measure the servers when they have as few threads as before the first visitor, or after a long time.

        A broker writes and looks for files all the time; now and then two of these meet, and the second one's thread
        lives for ten seconds more. A thread that is held does not end however long one waits.
        """
        deadline = time.monotonic() + IDLE_TIMES_MAX * self._idle_s
        while True:
            usages = self._usages(SERVERS)
            is_idle = all(usages[name].threads <= before.threads for name, before in self._before.items())
            if is_idle or time.monotonic() >= deadline:
                return usages
            time.sleep(LOOK_SECONDS)

    def _usages(self, names: Collection[str]) -> dict[str, Usage]:
        return {name: usage_of(pid) for name, pid in self._pids().items() if name in names}

    def _store(self, title: str) -> Path:
        broker = self.brokers[title]
        return broker.directory / f"{broker.name}-store"

    def _tables(self, title: str) -> dict[str, int]:
        """Return the sizes of the tables on disk, 0 for one that was never written."""
        folder = self._store(title) / "config"
        return {name: os.stat(folder / name).st_size if (folder / name).exists() else 0 for name in TABLE_FILES}

    def _read_on(self) -> int:
        count = 0
        for journal in self._journals.values():
            for event, *fields in journal.read_on():
                count += 1
                if event == "visit":
                    self.visits[fields[0]] += 1
                elif event == "failed":
                    self._failed[" ".join(fields)] += 1
                else:
                    assert event == "rest", event
                    self._rests += 1
        return count

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            self._require_running()
            if self._read_on():
                deadline = time.monotonic() + PATIENCE_SECONDS
            assert time.monotonic() < deadline, f"for {PATIENCE_SECONDS:.0f} s nothing has happened before: {what}"
            time.sleep(LOOK_SECONDS)

    def _require_running(self) -> None:
        for broker in self.brokers.values():
            broker.require_running()
        for name, process in self._visitors.items():
            assert process.is_running(), f"{name} has ended:\n{process.log()}"


COMPARED: Mapping[str, Callable[[Usage], float]] = {
    "sockets": lambda usage: usage.sockets,
    "other descriptors": lambda usage: usage.other_descriptors,
    "threads": lambda usage: usage.threads,
}
