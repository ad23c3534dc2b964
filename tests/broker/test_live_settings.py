"""Settings that change while a broker runs: all or nothing, the file first, and what counts when."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.broker.live_settings import FixedSettingError, LiveSettings
from rocketpy.clock import ManualClock
from rocketpy.errors import SettingsError, StoreError
from rocketpy.live_settings import SettingsChange
from rocketpy.properties_text import format_properties, read_properties
from rocketpy.runner import run_inline
from rocketpy.settings import Between, setting, settings_from_text, settings_values
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.disk.text_files import read_text, rewrite_properties_file
from rocketpy.testing.sim.disk import SimDisk


@attrs.frozen(kw_only=True)
class Example:
    """A setting of each kind."""

    at_once: int = setting(1, validator=Between(0, 9), live=True)
    another: bool = setting(True, live=True)
    next_start: int = setting(5, validator=Between(0, 9))
    path: str = setting("/here", fixed=True)
    idle: int = setting(1, ignored="nothing uses it")


@attrs.frozen(kw_only=True)
class Other:
    """Settings of another class."""

    limit: int = setting(7)


def accept(values: Sequence[object]) -> None:
    pass


def live(path: Path, **given: object) -> LiveSettings:
    if not path.exists():
        path.write_text("")
    loaded = settings_from_text(path.read_text(), str(path), Example, Other)
    options: dict[str, object] = {"unknown": loaded.unknown, "check": accept, "disk": OsDisk(), "clock": ManualClock()}
    return LiveSettings(loaded.values, path=str(path), run_blocking=run_inline, **{**options, **given})  # type: ignore[arg-type]


def example(settings: LiveSettings) -> Example:
    found = settings.values[0]
    assert isinstance(found, Example)
    return found


async def test_the_file_keeps_comments_order_and_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    path.write_text("# mine\nfuture=1\nlimit = 7\n! why\natOnce:1\n")
    settings = live(path)
    await settings.update("atOnce=2\nnextStart=6\nfuture=2")
    assert path.read_text() == "# mine\nfuture=2\nlimit = 7\n! why\natOnce=2\nnextStart=6\n"
    assert "future=2\n" in settings.text()


async def test_a_file_that_is_not_there_gets_what_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "config" / "broker.properties"
    settings = LiveSettings(
        (Example(),), path=str(path), unknown={}, check=accept, disk=OsDisk(), run_blocking=run_inline,
        clock=ManualClock(),
    )  # fmt: skip
    await settings.update("another=false")
    assert path.read_text() == "another=false\n"


async def test_what_counts_from_the_next_start_is_in_the_file_and_not_in_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "b.conf"
    settings = live(path)
    assert await settings.update("nextStart=6") == SettingsChange((), ("nextStart",))
    assert example(settings).next_start == 5
    assert "\nnextStart=6\nnextStart.inForce=5\n" in settings.text()
    assert settings_from_text(path.read_text(), "", Example).of(Example).next_start == 6
    # Another change says so again, because it is still so; back to what counts, nothing is left.
    assert (await settings.update("atOnce=2")).from_next_start == ("nextStart",)
    assert (await settings.update("nextStart=5")).from_next_start == ()
    assert "\nnextStart=5\npath" in settings.text()


@pytest.mark.parametrize("line", ["nextStart.inForce=6", "limit.inForce=7"])
async def test_a_value_in_force_cannot_be_set(tmp_path: Path, line: str) -> None:
    settings = live(tmp_path / "b.conf")
    await settings.update("nextStart=6")
    with pytest.raises(SettingsError, match=r"^unknown key \w+\.inForce has no effect"):
        await settings.update(line)


async def test_a_key_without_effect_is_shown_as_it_was_set(tmp_path: Path) -> None:
    settings = live(tmp_path / "b.conf")
    assert await settings.update("idle=4") == SettingsChange(("idle",), ())
    assert "idle=4\n" in settings.text()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("another=false\natOnce=10", SettingsError, "atOnce = '10': expected an integer from 0 to 9"),
        ("atOnce=2\nanother=maybe", SettingsError, "another = 'maybe': expected true or false"),
        ("atOnce=2\npath=/there", FixedSettingError, "path = '/there': expected no change, only the start sets it"),
        ("atOnce=2\natOnec=3", SettingsError, "unknown key atOnec has no effect; did you mean atOnce?"),
        ("atOnce=2\nnextStart=3", FixedSettingError, "nextStart is changed in the file, with a restart"),
        ("atOnce=2\nanother=\\uXYZ", SettingsError, " line 2: expected four hexadecimal digits after \\u"),
    ],
)
async def test_all_or_nothing(tmp_path: Path, text: str, error: type[SettingsError], message: str) -> None:
    path = tmp_path / "b.conf"
    path.write_text("# untouched\n")
    settings = live(path)
    called: list[int] = []
    settings.on_change(["atOnce"], lambda: called.append(1))
    version = settings.data_version
    with pytest.raises(error) as caught:
        await settings.update(text, black_list=["nextStart"])
    assert str(caught.value) == message
    assert type(caught.value) is error
    assert settings.values == (Example(), Other())
    assert path.read_text() == "# untouched\n"
    assert (called, settings.data_version) == ([], version)


async def test_a_fixed_key_may_be_sent_along_with_the_value_that_it_has(tmp_path: Path) -> None:
    """Consoles send back everything that they were shown."""
    settings = live(tmp_path / "b.conf")
    assert await settings.update(settings.text() + "atOnce=3\n") == SettingsChange(("atOnce",), ())


async def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    class FullDisk(OsDisk):
        def rename(self, old: str, new: str) -> None:
            raise StoreError("no space", path=new)

    path = tmp_path / "b.conf"
    path.write_text("atOnce=1\n")
    settings = live(path, disk=FullDisk())
    with pytest.raises(StoreError):
        await settings.update("atOnce=2")
    assert example(settings).at_once == 1
    assert path.read_text() == "atOnce=1\n"


async def test_listeners_are_notified_of_their_own_keys_only_and_after_the_change(tmp_path: Path) -> None:
    settings = live(tmp_path / "b.conf")
    notified: list[object] = []
    settings.on_change(["atOnce"], lambda: notified.append(example(settings).at_once))
    settings.on_change(["another", "atOnce"], lambda: notified.append(example(settings).another))
    await settings.update("atOnce=2")
    await settings.update("atOnce=2\nlimit=3")
    await settings.update("another=false")
    assert notified == [2, True, False]


GOOD = {"atOnce": ["0", "3", "9"], "another": ["true", "false"], "nextStart": ["0", "9"], "idle": ["4"], "limit": ["8"]}
BAD = {"atOnce": ["10", "x"], "another": ["maybe"], "path": ["/there"], "nobody": ["1"]}
CHANGES = st.dictionaries(st.sampled_from(sorted(GOOD)), st.integers(0, 2), min_size=1, max_size=3)


@given(st.lists(st.tuples(CHANGES, st.none() | st.sampled_from(sorted(BAD))), max_size=8))
def test_file_and_settings_are_what_was_accepted(requests: list[tuple[dict[str, int], str | None]]) -> None:
    """The model: two tables. What is accepted goes into both, but for what counts from the next start; a request with
    one bad key goes into none."""

    async def check() -> None:
        disk = SimDisk()
        disk.make_directories("/conf")
        settings = LiveSettings(
            (Example(), Other()), path="/conf/b.conf", unknown={}, check=accept, disk=disk, run_blocking=run_inline,
            clock=ManualClock(),
        )  # fmt: skip
        shown = settings_values(Example(), Other())
        next_start: dict[str, str] = {}
        for choices, bad in requests:
            changes = {key: GOOD[key][number % len(GOOD[key])] for key, number in choices.items()}
            try:
                await settings.update(format_properties(changes | ({bad: BAD[bad][0]} if bad else {})))
            except SettingsError:
                assert bad is not None
            else:
                assert bad is None
                next_start |= changes
                shown |= {key: each for key, each in changes.items() if key not in ("nextStart", "limit")}
            assert settings_values(*settings.values) == shown
            text = read_text(disk, "/conf/b.conf") or ""
            assert {line.key: line.value for line in read_properties(text)} == next_start

    trio.run(check)


@attrs.frozen(kw_only=True)
class Pair:
    """Settings of which one must be above the other, and one that the command line sets."""

    low: int = setting(5, validator=Between(0, 99), live=True)
    high: int = setting(20, validator=Between(0, 99))
    port: int = setting(1, fixed=True)


def check_pair(values: Sequence[object]) -> None:
    (pair,) = values
    assert isinstance(pair, Pair)
    if pair.high <= pair.low:
        raise SettingsError(f"high = {pair.high}: expected more than low, which is {pair.low}")


async def test_a_change_must_go_with_what_another_broker_has_written() -> None:
    """Brokers of ``--groups`` share the file: each went with what its own broker knew, no start with both."""
    disk = SimDisk()

    def broker() -> LiveSettings:
        return LiveSettings(
            (Pair(port=7),), path="/conf/b.conf", unknown={}, check=check_pair, disk=disk, run_blocking=run_inline,
            clock=ManualClock(),
        )  # fmt: skip

    first, second = broker(), broker()
    await first.update("high=6")
    with pytest.raises(SettingsError, match="high = 6: expected more than low, which is 10"):
        await second.update("low=10")
    assert read_text(disk, "/conf/b.conf") == "high=6\n"
    assert second.values == (Pair(port=7),), "nothing has changed"
    await second.update("high=30\nlow=10")
    assert read_text(disk, "/conf/b.conf") == "high=30\nlow=10\n"
    with pytest.raises(SettingsError, match="high = 7: expected more than low, which is 10"):
        await first.update("high=7")


async def test_what_only_the_start_sets_may_be_another_in_the_file() -> None:
    """The groups have ports of their own, and share the file that names the first."""
    disk = SimDisk()
    rewrite_properties_file(disk, "/conf/b.conf", {}, initial={"port": "1", "low": "5"})
    settings = LiveSettings(
        (Pair(port=7),), path="/conf/b.conf", unknown={}, check=check_pair, disk=disk, run_blocking=run_inline,
        clock=ManualClock(),
    )  # fmt: skip
    await settings.update("low=6")
    assert read_text(disk, "/conf/b.conf") == "port=1\nlow=6\n"


async def test_a_value_that_was_broken_by_hand_is_named_before_a_change_is_written() -> None:
    """With it in the file no start succeeds; a change that mends it is taken."""
    disk = SimDisk()
    rewrite_properties_file(disk, "/conf/b.conf", {}, initial={"low": "five"})
    settings = LiveSettings(
        (Pair(),), path="/conf/b.conf", unknown={}, check=check_pair, disk=disk, run_blocking=run_inline,
        clock=ManualClock(),
    )  # fmt: skip
    with pytest.raises(SettingsError, match="low = 'five'"):
        await settings.update("high=40")
    await settings.update("high=40\nlow=4")
    assert read_text(disk, "/conf/b.conf") == "low=4\nhigh=40\n"
