"""Java's DefaultMessageStore for tests: one JVM that opens, fills, reads and closes as many stores as a run needs.

A store belongs to Java between :meth:`JavaStores.open` and :meth:`~JavaStores.close`. What a SIGKILL leaves of it is a
copy of its directory made in between: the files are in the page cache, the abort file is there, nothing was ended.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from rocketpy.protocol.host import encode_host
from rocketpy.protocol.stored_message import decode_message
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.queue.extension import CqExtUnit
from tests.interop.clients import LIMIT_S, command
from tests.patience import PATIENCE_SECONDS, wait_until

_ANSWER_S = 2 * PATIENCE_SECONDS


class JavaStoreError(Exception):
    """Java raised an exception over a request; the text is its own."""


@attrs.frozen(kw_only=True)
class StoreSizes:
    """How large the files of a store are: small, so that few messages need many. Both sides must use the same."""

    log_file: int = 16_384
    queue_file: int = 400  # 20 units
    index_slots: int = 50
    # Java names an index file by the millisecond: two that are begun in one are the same file, and what was in it is
    # lost. So a file must last for longer than that.
    index_entries: int = 1_000

    def config(self, root: Path, **settings: object) -> MessageStoreConfig:
        """Return our configuration of a store with these sizes."""
        given: dict[str, object] = {
            "store_path_root_dir": str(root),
            "mapped_file_size_commit_log": self.log_file,
            "mapped_file_size_consume_queue": self.queue_file,
            "max_hash_slot_num": self.index_slots,
            "max_index_num": self.index_entries,
            **settings,
        }
        return MessageStoreConfig(**given)  # type: ignore[arg-type]  # names and types are those of the callers

    def java(self) -> dict[str, object]:
        """Return Java's configuration of a store with these sizes."""
        return {
            "mappedFileSizeCommitLog": self.log_file,
            "mappedFileSizeConsumeQueue": self.queue_file,
            "maxHashSlotNum": self.index_slots,
            "maxIndexNum": self.index_entries,
        }


@attrs.frozen
class KeyQuestion:
    """Which messages have a key?"""

    topic: str
    key: str
    max_num: int = 64
    begin_ms: int = 0
    end_ms: int = 1 << 62


@attrs.frozen
class TimeQuestion:
    """Which message of a queue was stored nearest to a time?"""

    topic: str
    queue_id: int
    timestamp_ms: int


@attrs.frozen
class QueueView:
    """One queue as a store shows it: its bounds, and the stored records in its order."""

    min_offset: int
    max_offset: int
    records: tuple[bytes, ...]


@attrs.frozen
class StoreView:
    """Everything that a store holds, and its answers to the questions, in their order."""

    min_physical_offset: int
    max_physical_offset: int
    queues: Mapping[tuple[str, int], QueueView]
    keys: tuple[tuple[int, ...], ...]
    times: tuple[int, ...]

    def first_of_time(self, question: TimeQuestion, found: int) -> int:
        """Return the first of the messages stored at the very time of a question; Java finds any of them."""
        queue = self.queues.get((question.topic, question.queue_id))
        if queue is None:
            return found
        times = [decode_message(record, decompress=False).store_timestamp for record in queue.records]
        at = found - queue.min_offset
        while 0 < at < len(times) and times[at] == question.timestamp_ms == times[at - 1]:
            at -= 1
        return queue.min_offset + at if 0 <= at < len(times) else found


class JavaStores:
    """The JVM with its stores; a request waits for its answer, and ends the JVM when there is none in time."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        start, environment = command("java", "storeTool", directory)
        # The names of files follow the locale: without UTF-8 a topic in another script could not have a directory.
        environment["LC_ALL"] = "C.UTF-8"
        self._errors = directory / "stderr"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [*start, f"limit_s={LIMIT_S}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=directory,
            )

    def end(self) -> None:
        """End the JVM; what is open stays as a kill leaves it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def open(self, root: Path, sizes: StoreSizes, **settings: object) -> bool:
        """Open a store; whether Java took it. ``settings`` are of MessageStoreConfig under Java's names."""
        return bool(self._ask("open", root, settings={**sizes.java(), **settings})["loaded"])

    def put(self, root: Path, messages: Sequence[Mapping[str, object]], batch: bytes | None = None) -> list[object]:
        """Put single messages, or one batch of the queue that the first message names."""
        more = {} if batch is None else {"batchBody": base64.b64encode(batch).decode()}
        answered = self._ask("put", root, messages=[dict(each) for each in messages], **more)["put"]
        assert isinstance(answered, list)
        return answered

    def view(self, root: Path, keys: Sequence[KeyQuestion] = (), times: Sequence[TimeQuestion] = ()) -> StoreView:
        """Return all that an open store holds; every record is decoded by Java, and must mean the same to us."""
        answer = self._ask(
            "view",
            root,
            keys=[
                {
                    "topic": each.topic,
                    "key": each.key,
                    "maxNum": each.max_num,
                    "begin": each.begin_ms,
                    "end": each.end_ms,
                }
                for each in keys
            ],
            times=[{"topic": each.topic, "queueId": each.queue_id, "timestamp": each.timestamp_ms} for each in times],
        )
        view = _view(answer)
        return attrs.evolve(view, times=tuple(map(view.first_of_time, times, view.times)))

    def get(self, root: Path, topic: str, queue_id: int, queue_offset: int, max_num: int = 32) -> dict[str, object]:
        """Return the answer to a read at one offset, without the messages."""
        return self._ask("get", root, topic=topic, queueId=queue_id, offset=queue_offset, maxNum=max_num)

    def units(self, root: Path, topic: str, queue_id: int) -> list[tuple[int, int, int]]:
        """Return the units of a queue as they are: physical offset, size, tags code."""
        return [(unit[0], unit[1], unit[2]) for unit in self._units(root, topic, queue_id)]

    def ext_units(self, root: Path, topic: str, queue_id: int) -> list[CqExtUnit | None]:
        """Return what the units of a queue lead to in its extension, None for one that leads nowhere."""
        return [
            CqExtUnit(unit[3], unit[4], base64.b64decode(unit[5])) if len(unit) > 3 else None
            for unit in self._units(root, topic, queue_id)
        ]

    def _units(self, root: Path, topic: str, queue_id: int) -> list[list[Any]]:
        units = self._ask("units", root, topic=topic, queueId=queue_id)["units"]
        assert isinstance(units, list)
        return units

    def expire(self, root: Path) -> None:
        """Delete all CommitLog files but the last, and what leads there."""
        self._ask("expire", root)

    def close(self, root: Path) -> bool:
        """Stop a store in order; whether Java took the abort file away."""
        return bool(self._ask("close", root)["inOrder"])

    def copy_as_killed(self, root: Path, target: Path) -> None:
        """Copy what a kill now would leave of a store.

        Java replaces a file of its own every ten seconds, so that one may be gone before it is copied: then once more.
        """

        def is_copied() -> bool:
            try:
                shutil.copytree(root, target)
            except shutil.Error:
                shutil.rmtree(target)
                return False
            return True

        wait_until(is_copied)
        assert (target / "abort").exists()

    def drop(self, root: Path) -> None:
        """Release a store that is not read again."""
        self._ask("drop", root)

    def _ask(self, what: str, root: Path, **more: object) -> dict[str, object]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"do": what, "store": str(root), **more}
        limit = threading.Timer(_ANSWER_S, self._process.kill)
        limit.start()
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            limit.cancel()
        if not line:
            last = self._errors.read_text(errors="replace").splitlines()[-15:]
            raise AssertionError("\n".join([f"the JVM has ended, asked to {what} {root}:", *last]))
        answer: dict[str, object] = json.loads(line)
        if "failed" in answer:
            raise JavaStoreError(f"{what} {os.path.basename(root)}: {answer['failed']}")
        return answer


def _view(answer: Mapping[str, object]) -> StoreView:
    queues, keys, times = answer["queues"], answer["keys"], answer["times"]
    assert isinstance(queues, list)
    assert isinstance(keys, list)
    assert isinstance(times, list)
    found = {}
    for each in queues:
        name = f"{each['topic']}:{each['queueId']}"
        if "stopped" in each:
            raise JavaStoreError(f"{name} cannot be read to its end: {each['stopped']}")
        records = tuple(_record(message, name) for message in each["messages"])
        if each["max"]:
            found[each["topic"], each["queueId"]] = QueueView(each["min"], each["max"], records)
    minimum, maximum = answer["minPhysicalOffset"], answer["maxPhysicalOffset"]
    assert isinstance(minimum, int)
    assert isinstance(maximum, int)
    # Java names a message once for each of its entries, so twice when it has a key twice; ours names it once.
    return StoreView(minimum, maximum, found, tuple(tuple(dict.fromkeys(each)) for each in keys), tuple(times))


def _record(line: Mapping[str, object], name: str) -> bytes:
    """Return the record of a message; what Java's decoder made of it must be what ours makes of it."""
    record = base64.b64decode(str(line["record"]))
    message = decode_message(record, check_crc=True)
    ours = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.offset_msg_id,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "bodyCRC": message.body_crc,
        "storeSize": message.store_size,
        "commitLogOffset": message.physical_offset,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "bornHost": base64.b64encode(encode_host(message.born_host)).decode(),
        "storeHost": base64.b64encode(encode_host(message.store_host)).decode(),
        "reconsumeTimes": message.reconsume_times,
        "properties": message.properties,
        "body": base64.b64encode(message.body).decode(),
    }
    theirs = {field: value for field, value in line.items() if field != "record"}
    assert theirs == ours, f"{name}: Java decodes a record differently"
    return record
