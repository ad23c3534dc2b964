"""What an orderly stop leaves behind, so that the next start need not walk the log to find its end.

One line of text in the store's directory: the end of the log, the last storeTimestamp, a digest of every queue's end,
and the last place in the index. It is believed only after an orderly stop and only if the queues still end as it says;
then recovery begins its walk at that end instead of up to three files before it, and an index that ends elsewhere is
known to be incomplete. RocketMQ neither reads nor minds the file: if a Java broker appended meanwhile, some queue ends
elsewhere and the walk is the usual one. Losing the file costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import attrs

from rocketpy.errors import ShortageError
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import persist_text, read_text
from rocketpy.store.queue.consume_queue import ConsumeQueue

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_VERSION = "2"

FIELDS = ("version", "end_offset", "store_timestamp", "queues_digest", "index_end")
"""What the words of the line are, in their order."""


@attrs.frozen
class OrderlyEnd:
    """Where log and queues ended."""

    end_offset: int
    timestamp_ms: int
    queues_digest: str
    index_end: int
    """Where the last indexed message is; -1 if there is none, -2 if the index was switched off."""


def digest_of_queues(queues: Iterable[ConsumeQueue]) -> str:
    """Return a digest of topic, id and end of every queue that has files, whatever their order."""
    return digest_of_ends((queue.topic, queue.queue_id, queue.max_offset) for queue in queues if queue.files)


def digest_of_ends(ends: Iterable[tuple[str, int, int]]) -> str:
    """Return a digest of topics, ids and ends of queues that have files, whatever their order."""
    return hashlib.blake2b(repr(sorted(ends)).encode("utf-8", "replace"), digest_size=16).hexdigest()


def load_orderly_end(disk: Disk, path: str) -> OrderlyEnd | None:
    """Return what :func:`persist_orderly_end` wrote; None when there is nothing, or nothing that makes sense."""
    words = (read_text(disk, path) or "").split()
    if (
        len(words) != len(FIELDS)
        or words[0] != _VERSION
        or not all(map(_NUMBER.fullmatch, (words[1], words[2], words[4])))
    ):
        return None
    return OrderlyEnd(int(words[1]), int(words[2]), words[3], int(words[4]))


def persist_orderly_end(disk: Disk, path: str, orderly_end: OrderlyEnd) -> None:
    """Write it, durable on return. A shortage is no reason to fail at the end: then the next start walks."""
    try:
        persist_text(
            disk,
            path,
            f"{_VERSION} {orderly_end.end_offset} {orderly_end.timestamp_ms} {orderly_end.queues_digest} "
            f"{orderly_end.index_end}\n",
        )
    except ShortageError:
        pass
