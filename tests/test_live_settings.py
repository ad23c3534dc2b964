"""Settings changed by request, as broker and nameserver share it; what each adds is tested with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pytest

from rocketpy.errors import SettingsError, StoreError
from rocketpy.live_settings import ChangeableSettings, SettingsChange, WriteSettings
from rocketpy.settings import setting


@attrs.frozen
class Some:
    """One setting of each kind."""

    now: int = setting(1, live=True)
    later: int = setting(2)
    never: int = setting(3, fixed=True)


class File:
    """A settings file that records what was written."""

    def __init__(self) -> None:
        self.writes: list[tuple[dict[str, str], dict[str, str]]] = []

    async def write(self, changes: Mapping[str, str], accepted: Mapping[str, str]) -> None:
        self.writes.append((dict(changes), dict(accepted)))


async def full_disk(changes: Mapping[str, str], accepted: Mapping[str, str]) -> None:
    raise StoreError("full", path="settings")


def settings(write: WriteSettings) -> tuple[Some, ChangeableSettings]:
    some = Some()
    return some, ChangeableSettings((some,), unknown={"other": "x"}, write=write)


async def test_a_live_setting_is_replaced_in_place_and_another_waits_for_the_next_start() -> None:
    file = File()
    some, changeable = settings(file.write)
    change = await changeable.apply({"now": "10", "later": "20", "other": "y"})
    assert change == SettingsChange(live=("now",), from_next_start=("later",))
    assert (some.now, some.later) == (10, 2)
    assert changeable.values_in_force() == {"later.inForce": "2"}
    assert changeable.unknown == {"other": "y"}
    accepted = {"other": "y", "now": "10", "later": "20", "never": "3"}
    assert file.writes == [({"now": "10", "later": "20", "other": "y"}, accepted)]


async def test_without_changes_nothing_is_written_and_what_waits_is_returned() -> None:
    file = File()
    _, changeable = settings(file.write)
    await changeable.apply({"later": "20"})
    assert await changeable.apply({}) == SettingsChange(live=(), from_next_start=("later",))
    assert len(file.writes) == 1


async def test_nothing_changes_when_the_file_cannot_be_written() -> None:
    some, changeable = settings(full_disk)
    with pytest.raises(StoreError):
        await changeable.apply({"now": "10", "later": "20", "other": "y"})
    assert some == Some()
    assert (changeable.values_in_force(), changeable.unknown) == ({}, {"other": "x"})


async def test_values_that_the_program_refuses_are_not_written() -> None:
    def check(values: Sequence[object]) -> None:
        raise SettingsError(f"not together: {values}")

    file = File()
    changeable = ChangeableSettings((Some(),), unknown={}, write=file.write, check=check)
    with pytest.raises(SettingsError, match="not together"):
        await changeable.apply({"now": "10"})
    assert not file.writes


async def test_a_value_in_force_that_is_sent_back_is_no_change() -> None:
    _, changeable = settings(File().write)
    await changeable.apply({"later": "20"})
    assert changeable.changes_in("later.inForce=2\nnow=5\n") == {"now": "5"}


def test_a_fixed_setting_may_only_keep_its_value() -> None:
    _, changeable = settings(File().write)
    assert changeable.changes_fixed("never", "4")
    assert not changeable.changes_fixed("never", "3")
    assert not changeable.changes_fixed("now", "4")
    assert not changeable.changes_fixed("other", "4")


def test_a_key_is_known_that_is_a_setting_or_in_the_file() -> None:
    _, changeable = settings(File().write)
    changeable.check_known("now")
    changeable.check_known("other")
    with pytest.raises(SettingsError, match="nowhere"):
        changeable.check_known("nowhere")
