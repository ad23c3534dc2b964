"""The keys of pending messages, hashed: the columns that a file of the index takes.

A message has one entry for each hash of its keys: a query finds the message by it, however often the key is there.

Compatibility: ``IndexService.buildIndex`` (4.9.8) makes an entry for each key of a message, also for one that is
repeated: 16,000 entries of one chain for a message of 32 KB.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias, TypeVar, cast

from rocketpy.store.index.feed import IndexWork
from rocketpy.store.index.file import IndexFile
from rocketpy.store.index.hash import hash_before_key, hash_index_keys, hash_of_key
from rocketpy.store.index.kernels import KEY_SIZE, IndexKernels

T = TypeVar("T")

_KEY = struct.Struct(">iqq")
_pack_key = _KEY.pack
_iter_keys = _KEY.iter_unpack
_Plain: TypeAlias = tuple[str, Sequence[bytes], int, int]
"""A message that is no batch."""


class HashedKeys(NamedTuple):
    """Keys in log order, as columns."""

    hashes: Sequence[int]
    physical_offsets: Sequence[int]
    timestamps_ms: Sequence[int]

    @property
    def key_count(self) -> int:
        """Number of keys."""
        return len(self.hashes)

    def put(self, index_file: IndexFile, begin: int, end: int) -> None:
        """Add some of the keys to a file that has room for them."""
        index_file.put(self.hashes[begin:end], self.physical_offsets[begin:end], self.timestamps_ms[begin:end])

    def after(self, begin: int) -> HashedKeys:
        """Return the keys from a number on."""
        return HashedKeys(self.hashes[begin:], self.physical_offsets[begin:], self.timestamps_ms[begin:])

    def distinct(self) -> HashedKeys:
        """Return the keys without those that are the same as an earlier one of their message."""
        if len(set(self.physical_offsets)) == len(self.hashes):
            return self  # the usual case: each message has one key
        keys = dict.fromkeys(zip(self.physical_offsets, self.hashes, self.timestamps_ms, strict=True))
        if len(keys) == len(self.hashes):
            return self
        physical_offsets, hashes, timestamps_ms = zip(*keys, strict=True)
        return HashedKeys(hashes, physical_offsets, timestamps_ms)

    def packed(self) -> bytes:
        """Return the keys as the kernels have them."""
        return b"".join(map(_pack_key, *self))


class PackedKeys(NamedTuple):
    """Keys in log order, as the kernels have them."""

    keys: bytes
    kernels: IndexKernels

    @property
    def key_count(self) -> int:
        """Number of keys."""
        return len(self.keys) // KEY_SIZE

    def put(self, index_file: IndexFile, begin: int, end: int) -> None:
        """Add some of the keys to a file that has room for them."""
        index_file.put_packed(self.keys[begin * KEY_SIZE : end * KEY_SIZE], self.kernels)

    def after(self, begin: int) -> PackedKeys:
        """Return the keys from a number on."""
        return PackedKeys(self.keys[begin * KEY_SIZE :], self.kernels)

    def distinct(self) -> PackedKeys:
        """Return the keys without those that are the same as an earlier one of their message."""
        return PackedKeys(self.kernels.distinct_keys(self.keys), self.kernels)

    def packed(self) -> bytes:
        """Return the keys as the kernels have them."""
        return self.keys


Keys: TypeAlias = HashedKeys | PackedKeys


def hashed_keys(pending: Sequence[IndexWork], count_max: int, kernels: IndexKernels | None) -> tuple[Keys, int]:
    """Hash the keys of the first messages, until that are ``count_max`` or more; return of how many messages too."""
    if kernels is not None:
        keys, message_count = kernels.hash_work(pending, count_max, hash_before_key, hash_of_key)
        return PackedKeys(keys, kernels), message_count
    first = pending[0][1]
    if isinstance(first, bytes):
        return HashedKeys(*zip(*_iter_keys(first), strict=True)), 1
    work = cast(Sequence[_Plain], pending[:count_max])
    try:
        return _hashed([key for _, (key,), _, _ in work], work), len(work)
    except (ValueError, TypeError):  # not everywhere one key; or a batch, which compiled code does not take for a key
        work = _first_with(pending[:count_max], count_max)
        return _hashed_repeated(work), len(work)


def count_keys(pending: Sequence[IndexWork], begin: int, kernels: IndexKernels | None) -> int:
    """Return the number of keys from a message on."""
    if kernels is not None:
        return kernels.count_keys(pending, begin)
    return sum([len(keys) // KEY_SIZE if type(keys) is bytes else len(keys) for _, keys, _, _ in pending[begin:]])


def _first_with(work: Sequence[IndexWork], count_max: int) -> Sequence[_Plain]:
    """Return the first messages, until they have ``count_max`` keys or more, or a batch comes."""
    key_count = message_count = 0
    for _, keys, _, _ in work:
        if isinstance(keys, bytes) or key_count >= count_max:
            break
        key_count += len(keys)
        message_count += 1
    return cast(Sequence[_Plain], work[:message_count])


def _hashed(keys: Sequence[bytes], work: Sequence[_Plain]) -> HashedKeys:
    """Return the keys of messages that have one each, hashed."""
    topics, _, physical_offsets, timestamps_ms = zip(*work, strict=True)
    return HashedKeys(hash_index_keys(topics, keys), physical_offsets, timestamps_ms)


def _hashed_repeated(work: Sequence[_Plain]) -> HashedKeys:
    """Return the keys of messages one after another, hashed."""
    topics, keys_of_each, physical_offsets, timestamps_ms = zip(*work, strict=True)
    counts = list(map(len, keys_of_each))
    keys = [key for keys in keys_of_each for key in keys]
    hashes = hash_index_keys(_repeated(topics, counts), keys)
    return HashedKeys(hashes, _repeated(physical_offsets, counts), _repeated(timestamps_ms, counts))


def _repeated(values: Sequence[T], counts: list[int]) -> list[T]:
    return list(chain.from_iterable(map(repeat, values, counts)))
