"""Plug-ins: found by name, wrapped in order, refused with key and value."""

from __future__ import annotations

import sys
import types
from typing import cast

import pytest

from rocketpy.errors import SettingsError
from rocketpy.store.message_store import MessageStore
from rocketpy.store.plug_in import PlugInMessageStore, load_factories, split_names, wrapped_store
from rocketpy.testing.sim.disk import SimDisk
from tests.store.opened_store import opened, send
from tests.store.parts import Place


class CountingStore(PlugInMessageStore):
    """What the documentation shows."""

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store)
        self.count = 0

    def put(self, *message: object) -> object:
        self.count += 1
        return self.store.put(*message)  # type: ignore[arg-type]


def own_name(name: str) -> str:
    return f"{__name__}:{name}"


def make_nothing(store: MessageStore) -> object:
    return object()


def test_names_are_pairs() -> None:
    assert split_names("") == []
    assert split_names(" a.b:c , d:e,") == [("a.b", "c"), ("d", "e")]
    for wrong in ("a.b.C", "a:", ":b", "a b:c", "a:b:c", "a..b:c", "../x:y"):
        with pytest.raises(ValueError, match=r"expected package\.module:factory"):
            split_names(f"ok:ok,{wrong}")


async def test_a_plug_in_sees_what_it_overrides_and_hands_on_the_rest() -> None:
    async with opened(Place(SimDisk(), "/store")) as plain:
        store = wrapped_store(plain, load_factories(own_name("CountingStore")))
        send(store, b"one")
        store.end_burst()
        assert cast(CountingStore, store).count == 1
        assert store.max_offset_in_queue("T", 0) == 1
        assert store.max_physical_offset == plain.max_physical_offset > 0
        assert store.runtime_info()["putMessageTimesTotal"] == "1"


async def test_the_first_name_is_the_outermost() -> None:
    order: list[str] = []
    module = types.ModuleType("two_plug_ins")

    def factory(name: str) -> type[PlugInMessageStore]:
        class Named(PlugInMessageStore):
            def put(self, *message: object) -> object:
                order.append(name)
                return self.store.put(*message)  # type: ignore[arg-type]

        return Named

    vars(module).update(first=factory("first"), second=factory("second"))
    sys.modules[module.__name__] = module
    try:
        async with opened(Place(SimDisk(), "/store")) as plain:
            send(wrapped_store(plain, load_factories("two_plug_ins:first,two_plug_ins:second")), b"one")
    finally:
        del sys.modules[module.__name__]
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module_at_all:factory", "no_such_module_at_all cannot be imported: No module named"),
        (own_name("missing"), f"{__name__} has no missing that can be called"),
        (own_name("__doc__"), f"{__name__} has no __doc__ that can be called"),
        ("org.apache.Store", "'org.apache.Store': expected package.module:factory"),
    ],
)
def test_a_wrong_name_is_refused_with_key_and_value(value: str, why: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_factories(value)
    text = str(refused.value)
    assert text.startswith(f"messageStorePlugIn = {value!r}: expected package.module:factory, several separated by ")
    assert why in text


async def test_what_is_no_store_is_refused() -> None:
    async with opened(Place(SimDisk(), "/store")) as plain:
        with pytest.raises(SettingsError, match=r"expected a message store of .*make_nothing.*, found one without "):
            wrapped_store(plain, load_factories(own_name("make_nothing")))
