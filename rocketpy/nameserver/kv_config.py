"""KV configuration of a nameserver: namespaces of keys and values in one JSON file.

RocketMQ uses the namespace ORDER_TOPIC_CONFIG itself: it is returned to brokers that register, and clients of an
ordered topic get its value in the route. Rule: a change is visible, and answered, only when it is in the file; if the
file cannot be written the table is unchanged. Java reads the file (``{"configTable":{namespace:{key:value}}}``) too.

Changes that arrive during a write are coalesced into the next write, in order of arrival. A worker thread copies the
table, changes the copy and encodes it.

Rule: nameservers of one user have one file by default. Each changes the table that the file has, with the file locked,
and takes over what another has written there; it serves that from its own next change, or start, on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
import trio

from rocketpy.errors import RemoteProtocolError, RequestError, StartError, StoreError
from rocketpy.protocol import fastjson
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.protocol.fastjson.file_text import loads_file
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import persist_text, read_text, sole_writer

_log = logging.getLogger("rocketpy.nameserver")

NAMESPACE_ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"

SPECIAL_NAMES = frozenset({"$ref", "@type"})
"""Names that fastjson reads as a reference or a class anywhere: Java could not read a file that contains one."""

NAME_LENGTH_MAX = 512
VALUE_LENGTH_MAX = 65_536

ConfigTable = dict[str, dict[str, str]]


@attrs.frozen(kw_only=True)
class KVLimits:
    """Bounds of the table, from the nameserver's settings."""

    entries_max: int = 10_000  # namespaces and keys
    bytes_max: int = 1_048_576  # names and values, as they are encoded in the file


@attrs.define(eq=False)
class _Draft:
    """Copy of the table to which waiting changes are applied before it is written."""

    table: ConfigTable
    sizes: dict[tuple[str, str], int]  # of each key with its value in the file
    size: int  # of all of them and the names of namespaces

    def put(self, namespace: str, key: str, value: str | None, entry_size: int, limits: KVLimits) -> None:
        """Set a value, or only create the namespace; RequestError, with nothing changed, when the table is full.

        One that is full forgets the namespaces whose keys were all deleted: nothing else ever removes them.
        """
        is_new_namespace = namespace not in self.table
        old_size = self.sizes.get((namespace, key))
        size = self.size - (old_size or 0) + entry_size + (_size_of(namespace) if is_new_namespace else 0)
        entry_growth = is_new_namespace + (value is not None) - (old_size is not None)
        count = len(self.table) + len(self.sizes) + entry_growth
        empty: list[str] = []
        if count > limits.entries_max or size > limits.bytes_max:
            empty = [each for each, keys in self.table.items() if not keys and each != namespace]
            count, size = count - len(empty), size - _size_of(*empty)
        if entry_growth > 0 and count > limits.entries_max:
            raise _refusal(f"expected at most {limits.entries_max} namespaces and keys (kvConfigEntriesMax)")
        if size > max(limits.bytes_max, self.size):
            raise _refusal(f"expected at most {limits.bytes_max} bytes of names and values (kvConfigBytesMax)")
        for each in empty:
            del self.table[each]
        self.size = size
        keys = self.table.setdefault(namespace, {})
        if value is None:
            keys.pop(key, None)
            self.sizes.pop((namespace, key), None)
        else:
            keys[key] = value
            self.sizes[namespace, key] = entry_size

    def delete(self, namespace: str, key: str) -> None:
        """Remove a key if it is there."""
        self.table.get(namespace, {}).pop(key, None)
        self.size -= self.sizes.pop((namespace, key), 0)


@attrs.define(eq=False)
class _Change:
    """A change waiting to be written."""

    apply: Callable[[_Draft], None]  # RequestError if it is refused
    is_over: bool = False
    failure: StoreError | RequestError | None = None


@attrs.frozen
class KVConfigStatistics:
    """Sizes of the table."""

    namespaces: int
    keys: int


class KVConfigManager:
    """The KV table of one nameserver and its file."""

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking, limits: KVLimits | None = None) -> None:
        self._path = path
        self._disk = disk
        self._run_blocking = run_blocking
        self._limits = limits or KVLimits()
        self._config_table: ConfigTable = {}
        self._sizes: dict[tuple[str, str], int] = {}  # of each key with its value in the file
        self._size = 0  # of all of them and the names of namespaces
        self._text = ""  # of the table, as this nameserver has written it into the file
        self._waiting: list[_Change] = []
        # A change awaits the disk between copying the table and replacing it.
        self._change_lock = trio.Lock()

    def load(self) -> None:
        """Read the file; without one the table is empty. Blocks, so call it before the server starts.

        Raises :class:`StartError` if neither the file nor its ``.bak`` can be parsed.
        """
        try:
            self._config_table = _loaded(self._disk, self._path)
        except (StoreError, RemoteProtocolError) as error:
            raise StartError(f"{self._path}: the KV configuration cannot be read: {error}") from error
        self._sizes = _sizes_in(self._config_table)
        self._size = _size_of(*self._config_table) + sum(self._sizes.values())

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, or None if namespace or key is unknown."""
        return self._config_table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return the keys of a namespace (empty after the last one was deleted), or None if it never existed."""
        table = self._config_table.get(namespace)
        return None if table is None else dict(table)

    async def put(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value, durably; with None the namespace is created and the key stays absent, as in Java.

        Raises, with nothing changed, ``StoreError`` if the file cannot be written, and ``RequestError`` for a name that
        Java could not read back or when the table is full.
        """
        for field, name in (("namespace", namespace), ("key", key)):
            if name in SPECIAL_NAMES:
                raise _refusal(f"{field}: expected a name that Java can read in its file, found {name}")
            if len(name) > NAME_LENGTH_MAX:
                raise _refusal(f"{field}: expected at most {NAME_LENGTH_MAX} characters, found {len(name)}")
        if value is not None and len(value) > VALUE_LENGTH_MAX:
            raise _refusal(f"value: expected at most {VALUE_LENGTH_MAX} characters, found {len(value)}")
        entry_size = 0 if value is None else _size_of(key, value)
        await self._change(lambda draft: draft.put(namespace, key, value, entry_size, self._limits))

    async def delete(self, namespace: str, key: str) -> None:
        """Delete a key, durably; an unknown key is no error. The namespace stays, as in Java."""
        await self._change(lambda draft: draft.delete(namespace, key))

    def statistics(self) -> KVConfigStatistics:
        """Return the sizes of the table."""
        return KVConfigStatistics(
            namespaces=len(self._config_table), keys=sum(len(keys) for keys in self._config_table.values())
        )

    async def _change(self, apply: Callable[[_Draft], None]) -> None:
        """Apply a change durably, in one write with all changes that are waiting."""
        change = _Change(apply)
        self._waiting.append(change)
        async with self._change_lock:
            if not change.is_over:
                await self._write_waiting(change)
        if change.failure is not None:
            raise change.failure

    async def _write_waiting(self, first: _Change) -> None:
        waiting, self._waiting = self._waiting, []
        taken = list(waiting)
        try:
            draft = await self._run_blocking(self._persist, taken)
            self._config_table, self._sizes, self._size = draft.table, draft.sizes, draft.size
        except StoreError as failure:
            for change in taken:
                change.failure = failure
        except BaseException:
            # The caller that writes was cancelled or failed; the next waiting caller writes the other changes.
            self._waiting = [change for change in taken if change is not first] + self._waiting
            raise
        for change in taken:
            change.is_over = True

    def _persist(self, changes: list[_Change]) -> _Draft:
        """Apply changes to what the file has and write it; runs in a worker thread. Refused changes leave the list."""
        with sole_writer(self._disk, self._path):
            draft = self._draft()
            for change in list(changes):
                try:
                    change.apply(draft)
                except RequestError as refusal:
                    change.is_over, change.failure = True, refusal
                    changes.remove(change)
            if changes:
                text = encode_config_table(draft.table)
                persist_text(self._disk, self._path, text)
                self._text = text
            return draft

    def _draft(self) -> _Draft:
        """Return a copy of the table, with what another nameserver has made of it in the file."""
        has_text = self._disk.exists(self._path) and self._disk.file_size(self._path) > 0
        text = read_text(self._disk, self._path) if has_text else None
        if text is not None and text != self._text:
            try:
                table = _decoded(text, self._path)
            except RemoteProtocolError as failure:
                _log.warning("%s cannot be read, what this nameserver has takes its place: %s", self._path, failure)
            else:
                sizes = _sizes_in(table)
                return _Draft(table, sizes, _size_of(*table) + sum(sizes.values()))
        table = {namespace: dict(keys) for namespace, keys in self._config_table.items()}
        return _Draft(table, self._sizes.copy(), self._size)


def _size_of(*texts: str) -> int:
    return sum(len(fastjson.dumps(text).encode("utf-8", "replace")) for text in texts)


def _sizes_in(table: ConfigTable) -> dict[tuple[str, str], int]:
    return {(namespace, key): _size_of(key, value) for namespace, keys in table.items() for key, value in keys.items()}


def _refusal(remark: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, f"KV configuration: {remark}")


def encode_config_table(table: ConfigTable) -> str:
    """Return the file's text, compact as Java writes it."""
    return fastjson.dumps({"configTable": table})


def decode_config_table(text: str, notes: FileNotes | None = None) -> ConfigTable:
    """Parse the file's text; ``RemoteProtocolError`` if it is malformed. Empty text is an empty table, as in Java.

    A value that is no text is the JSON text of it, as in Java, and has a note.
    """
    notes = notes or FileNotes()
    document = loads_file(text, notes)
    if document is None:
        return {}
    table = document.get("configTable") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(table, dict):
        raise RemoteProtocolError("configTable: expected an object of namespaces")
    notes.unknown_keys(document, ("configTable",))
    decoded: ConfigTable = {}
    for namespace, keys in table.items():
        if not isinstance(keys, dict):
            raise RemoteProtocolError(f"configTable.{namespace}: expected an object of texts, found {keys!r:.200}")
        texts = decoded[str(namespace)] = {}
        for key, value in keys.items():
            path = f"configTable.{namespace}.{key}"
            if isinstance(value, str):
                texts[str(key)] = value
            elif value is None:
                notes.value(path, None, "a text", "the key is left out")
            else:
                text = texts[str(key)] = fastjson.dumps(value)
                notes.value(path, value, "a text", f"{text!r:.100} counts")
    return decoded


def _loaded(disk: Disk, path: str) -> ConfigTable:
    """Read the file, or its ``.bak`` if the file is malformed (``read_text`` covers a missing file)."""
    text = read_text(disk, path)
    if text is None:
        return {}
    try:
        return _decoded(text, path)
    except RemoteProtocolError as failure:
        backup = read_text(disk, path + ".bak")
        if backup is None:
            raise
        table = _decoded(backup, path + ".bak")
        _log.warning("%s cannot be read, its .bak is used instead: %s", path, failure)
        return table


def _decoded(text: str, path: str) -> ConfigTable:
    notes = FileNotes()
    table = decode_config_table(text, notes)
    notes.write(path, _log.warning, _log.info)
    return table
