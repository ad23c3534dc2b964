"""Small text files that are replaced as a whole: settings, tables, checkpoints of offsets.

Rule: at every instant, after a crash too, either the old or the new text is readable. Everything here blocks.

Rule: a file that several processes may change is read, changed and written within :func:`sole_writer`: settings and
accounts, which brokers of ``--groups`` share, and the KV table, which all nameservers of a user share by default.
All of them write the same temporary file, and each keeps what another has changed. A table of a store needs no lock:
the store has one.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rocketpy.errors import StartError, StoreError
from rocketpy.properties_text import decode_properties_text, format_properties, rewritten_properties
from rocketpy.store.disk.interface import Disk

TEXT_SIZE_MAX = 256 << 20
"""Bytes of the longest file that is read: the largest tables that the bounds of a broker allow have a tenth of it."""


def read_text(disk: Disk, path: str) -> str | None:
    """Return the text that :func:`persist_text` wrote, else its predecessor from ``.bak``, else None.

    As in RocketMQ an empty file counts as missing. A caller that cannot parse the text reads ``.bak`` itself.
    StoreError for a file that is too long.
    """
    for candidate in (path, path + ".bak"):
        content = _read_all(disk, candidate)
        if content:
            return content.decode("utf-8", "replace")
    return None


def persist_text(disk: Disk, path: str, text: str, *, keeps_backup: bool = False, is_private: bool = False) -> None:
    """Replace a small file, durable on return. At every instant, even in a crash, the old or the new text is readable.

    The predecessor is kept as ``.bak``, unless ``keeps_backup`` says that the existing ``.bak`` is the better one. Both
    files get the permission bits that the file has now, because some hold secrets. A private file that does not exist
    yet is created with mode 0600, any other with mode 0644 less the process's umask.
    Compatibility: RocketMQ deletes the file before it renames the new one over it.
    """
    like = path if disk.exists(path) else None
    _write_all(disk, path + ".tmp", text.encode(), like, is_private=is_private)
    is_kept = like is not None and not keeps_backup and disk.file_size(path) <= TEXT_SIZE_MAX
    predecessor = _read_all(disk, path) if is_kept else b""
    if predecessor:
        _write_all(disk, path + ".bak.tmp", predecessor, like)
        disk.rename(path + ".bak.tmp", path + ".bak")
    disk.rename(path + ".tmp", path)
    disk.sync_directory(os.path.dirname(path))


@contextmanager
def sole_writer(disk: Disk, path: str) -> Iterator[None]:
    """Keep other processes of this machine from changing a file while the block runs.

    Its directory is created if it is missing. StoreError if that fails, or if another process does not let go of it.
    """
    directory = os.path.dirname(path) or "."
    try:
        disk.make_directories(directory)
    except StartError as error:  # in a running program it refuses one change, and stops nothing
        raise StoreError(str(error), path=path) from error
    lock = disk.wait_lock(path + ".lock")
    try:
        yield
    finally:
        lock.release()


def rewrite_properties_file(
    disk: Disk,
    path: str,
    changes: Mapping[str, str],
    *,
    initial: Mapping[str, str],
    check: Callable[[str], None] | None = None,
) -> None:
    """Change some keys of a properties file and keep the rest of its text, comments and order.

    A missing file is created with the keys of ``initial``. Other processes may change other keys at the same time.
    ``check`` is given the new text, in which their changes are, before it is written.
    Raises ``StoreError``, and what ``check`` raises; the file is then unchanged.
    """
    with sole_writer(disk, path):
        if disk.exists(path):
            text = rewritten_properties(decode_properties_text(_read_all(disk, path)), changes)
        else:
            text = format_properties(initial)
        if check is not None:
            check(text)
        persist_text(disk, path, text)


def _read_all(disk: Disk, path: str) -> bytes:
    if not disk.exists(path):
        return b""
    file = disk.open(path, read_only=True)
    try:
        size = file.size()
        if size > TEXT_SIZE_MAX:
            raise StoreError(f"expected at most {TEXT_SIZE_MAX} bytes, found {size}", path=path)
        return file.read(0, size)
    finally:
        file.close()


def _write_all(disk: Disk, path: str, content: bytes, like: str | None, *, is_private: bool = False) -> None:
    """Write a whole file. It has the permission bits of ``like`` before its first byte is written."""
    if like is None and not is_private:
        file = disk.open(path, create=True)
    else:
        if disk.exists(path):
            disk.unlink(path)  # left by a crash; a process that has it open must not read the new text
        file = disk.create_private(path)
    try:
        file.truncate(0)
        if like is not None:
            disk.copy_mode(like, path)
        file.write(0, content)
        file.sync()
    finally:
        file.close()
