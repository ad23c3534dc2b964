"""The store directories that a Java broker wrote, and what Java's own store says of each."""

from __future__ import annotations

import gzip
import json
import lzma
import tarfile
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import CheckedMessage, RecordStatus, check_message

GOLDEN = Path(__file__).parent.parent / "golden"


def unpack_store(name: str, directory: Path) -> Path:
    """Unpack a store into a directory and return its root, times of the files included."""
    with tarfile.open(fileobj=BytesIO(_archive(name))) as archive:
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)  # Python knows filters from 3.11.4 on
        archive.extractall(directory)
    return directory


@cache
def _archive(name: str) -> bytes:
    return lzma.decompress((GOLDEN / f"{name}.tar.xz").read_bytes())


@cache
def expected(name: str) -> dict[str, list[dict[str, Any]]]:
    """Return what Java says of a store, lines by their type, in order."""
    lines: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(GOLDEN / f"expected-{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            value = json.loads(line)
            lines.setdefault(value["type"], []).append(value)
    return lines


def records(root: Path) -> Iterator[CheckedMessage]:
    """Yield every record of a store's log, up to the first position without one."""
    for path in sorted((root / "commitlog").iterdir()):
        content = path.read_bytes()
        position = 0
        while position < len(content):
            record = check_message(content, position, len(content) - position, check_crc=True)
            if record.status is not RecordStatus.MESSAGE:
                break
            yield record
            position += record.size
        if record.status is not RecordStatus.BLANK:
            return


def line_of(message: MessageExt) -> dict[str, object]:
    """Return what Java says of the record that a message is decoded from, its body as it is stored."""
    return {
        "offset": message.physical_offset,
        "size": message.store_size,
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "bodyCRC": message.body_crc,
        "bodyLength": len(message.body),
        "bodySha256": sha256(message.body).hexdigest(),
        "properties": message.properties,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "msgId": message.offset_msg_id,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "reconsumeTimes": message.reconsume_times,
    }
