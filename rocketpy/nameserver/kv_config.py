"""Namespaces of keys and values that a nameserver keeps for everybody, in one JSON file.

RocketMQ uses the namespace ORDER_TOPIC_CONFIG itself: brokers are told it when they register, and clients of an ordered
topic see its value in the route. Rule: a change is visible, and answered, only when it is in the file; if the file
cannot be written the table is as before. The file (``{"configTable":{namespace:{key:value}}}``) is read by Java too.
"""

from __future__ import annotations

import attrs
import trio

from rocketpy.errors import RemoteProtocolError, StartError, StoreError
from rocketpy.protocol import fastjson
from rocketpy.runner import RunBlocking
from rocketpy.store.disk import Disk, read_text
from rocketpy.store.small_file import persist_small_file

NAMESPACE_ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"

ConfigTable = dict[str, dict[str, str]]


@attrs.frozen
class KVConfigStatistics:
    """Sizes of the table."""

    namespaces: int
    keys: int


class KVConfigManager:
    """The table of one nameserver with its file."""

    def __init__(self, *, path: str, disk: Disk, run_blocking: RunBlocking) -> None:
        self._path = path
        self._disk = disk
        self._run_blocking = run_blocking
        self._config_table: ConfigTable = {}
        # A change awaits the disk between copying the table and replacing it.
        self._change_lock = trio.Lock()

    def load(self) -> None:
        """Read the file; without one the table is empty. Blocks: for the time before anything is served.

        Raises :class:`StartError` if neither the file nor its ``.bak`` can be understood.
        """
        try:
            self._config_table = _loaded(self._disk, self._path)
        except (StoreError, RemoteProtocolError) as error:
            raise StartError(f"{self._path}: the KV configuration cannot be read: {error}") from error

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, or None if namespace or key is unknown."""
        return self._config_table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return the keys of a namespace (none after the last was deleted), or None if it never was."""
        table = self._config_table.get(namespace)
        return None if table is None else dict(table)

    async def put(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value, durably; with None the namespace is made and the key is not found, as in Java.

        Raises ``StoreError``, with nothing changed, if the file cannot be written.
        """
        async with self._change_lock:
            table = self._copied()
            keys = table.setdefault(namespace, {})
            if value is None:
                keys.pop(key, None)
            else:
                keys[key] = value
            await self._replace(table)

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a key, durably; an unknown one is no error. The namespace stays, as in Java."""
        async with self._change_lock:
            table = self._copied()
            table.get(namespace, {}).pop(key, None)
            await self._replace(table)

    def statistics(self) -> KVConfigStatistics:
        """Return the sizes of the table."""
        return KVConfigStatistics(
            namespaces=len(self._config_table), keys=sum(len(keys) for keys in self._config_table.values())
        )

    def _copied(self) -> ConfigTable:
        return {namespace: dict(keys) for namespace, keys in self._config_table.items()}

    async def _replace(self, table: ConfigTable) -> None:
        await self._run_blocking(persist_small_file, self._disk, self._path, encode_config_table(table))
        self._config_table = table


def encode_config_table(table: ConfigTable) -> str:
    """Return the text of the file, compact as Java writes it."""
    return fastjson.dumps({"configTable": table})


def decode_config_table(text: str) -> ConfigTable:
    """Read the text of the file; ``RemoteProtocolError`` if it is not one. Empty text is an empty table, as in Java."""
    document = fastjson.loads(text) if text.strip() else None
    if document is None:
        return {}
    table = document.get("configTable") if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise RemoteProtocolError("configTable: expected an object of namespaces")
    decoded: ConfigTable = {}
    for namespace, keys in table.items():
        if not isinstance(keys, dict):
            raise RemoteProtocolError(f"configTable.{namespace}: expected an object of texts, found {keys!r}")
        decoded[str(namespace)] = {str(key): str(value) for key, value in keys.items() if value is not None}
    return decoded


def _loaded(disk: Disk, path: str) -> ConfigTable:
    """Read the file, or its ``.bak`` if the file is there but makes no sense (``read_text`` covers a missing one)."""
    text = read_text(disk, path)
    if text is None:
        return {}
    try:
        return decode_config_table(text)
    except RemoteProtocolError:
        backup = read_text(disk, path + ".bak")
        if backup is None:
            raise
        return decode_config_table(backup)
