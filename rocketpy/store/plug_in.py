"""Message store plug-ins: third-party code between the broker and its store.

``messageStorePlugIn`` names factories, ``package.module:factory``, several separated by commas. Each is called with the
open store and returns the store that the broker uses instead: usually a :class:`PlugInMessageStore` that overrides a
few methods and delegates the rest. The first name is the outermost wrapper, as in RocketMQ. A factory runs inside the
broker with all its privileges, so the setting is read at the start only: no request can change it.

An example, which counts what is put::

    from rocketpy.store.message_store import MessageStore
    from rocketpy.store.plug_in import PlugInMessageStore


    class CountingStore(PlugInMessageStore):
        def __init__(self, store: MessageStore) -> None:
            super().__init__(store)
            self.count = 0

        def put(self, *message):
            self.count += 1
            return self.store.put(*message)

With ``messageStorePlugIn=my.module:CountingStore`` the broker starts with it.

Compatibility: ``MessageStoreFactory`` and ``AbstractPluginMessageStore`` (4.9.8), whose plug-ins are Java classes. Here
a plug-in wraps an open store and has no part in opening and closing it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from rocketpy.errors import SettingsError

if TYPE_CHECKING:  # settings are read without a store
    from rocketpy.store.message_store import MessageStore

KEY = "messageStorePlugIn"
EXPECTED = "package.module:factory, several separated by commas"

StoreFactory: TypeAlias = "Callable[[MessageStore], object]"
"""Wraps an open store; returns the store that the broker uses instead."""


class PlugInMessageStore:
    """Base class of plug-ins: delegates everything to the wrapped store. A plug-in overrides what it changes."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store

    def __getattr__(self, name: str) -> object:
        """Delegate every attribute that the plug-in does not define."""
        return getattr(self.store, name)


def split_names(value: str) -> list[tuple[str, str]]:
    """Return module and factory of each name; ``ValueError`` for a malformed name.

    >>> split_names("my.module:CountingStore, other:make_store")
    [('my.module', 'CountingStore'), ('other', 'make_store')]
    """
    pairs = []
    for name in filter(None, map(str.strip, value.split(","))):
        module, colon, factory = name.partition(":")
        if not colon or not all(part.isidentifier() for part in (*module.split("."), factory)):
            raise ValueError(f"{name!r}: expected {EXPECTED}")
        pairs.append((module, factory))
    return pairs


def load_factories(value: str) -> list[StoreFactory]:
    """Import the factories that ``messageStorePlugIn`` names, outermost first. SettingsError names key and value."""
    return list(load_callables(KEY, value))


def load_callables(key: str, value: str) -> list[Callable[..., object]]:
    """Import the callables that a setting names, in its order. SettingsError names key and value."""
    found: list[Callable[..., object]] = []
    try:
        pairs = split_names(value)
    except ValueError as error:
        raise _refused(key, value, str(error)) from error
    for module_name, name in pairs:
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise _refused(key, value, f"{module_name} cannot be imported: {error}") from error
        called = vars(module).get(name)
        if not callable(called):
            raise _refused(key, value, f"{module_name} has no {name} that can be called")
        found.append(called)
    return found


def wrapped_store(store: MessageStore, factories: Sequence[StoreFactory]) -> MessageStore:
    """Return the store wrapped by all factories. SettingsError if a factory does not return a store."""
    for factory in reversed(factories):
        made = factory(store)
        missing = [name for name in dir(store) if not name.startswith("_") and not hasattr(made, name)]
        if missing:
            raise SettingsError(f"{KEY}: expected a message store of {factory!r}, found one without {missing[0]}")
        store = cast("MessageStore", made)
    return store


def _refused(key: str, value: str, why: str) -> SettingsError:
    return SettingsError(f"{key} = {value!r}: expected {EXPECTED}; {why}")
