"""Properties files as Java reads them, and messages that say where and what."""

from __future__ import annotations

import enum
from pathlib import Path

import attrs
import pytest

from rocketpy.errors import SettingsError
from rocketpy.settings import (
    Between,
    format_settings,
    load_settings,
    located,
    replace_live,
    setting,
    setting_rows,
    settings_from_text,
    settings_values,
    updated_settings,
    values_in_force,
    with_values_in_force,
)


class Flush(enum.Enum):
    SYNC_FLUSH = "sync"
    ASYNC_FLUSH = "async"


@attrs.frozen(kw_only=True)
class PortSettings:
    listen_port: int = setting(8888, unit="port", validator=Between(0, 65535), important=True)
    use_tls: bool = setting(False)
    ratio: float = setting(0.5)
    flush_disk_type: Flush = setting(Flush.ASYNC_FLUSH)
    name: str | None = setting(None)
    worker_threads: int = setting(8, ignored="one event loop does the work", key="serverWorkerThreads")


@attrs.frozen(kw_only=True)
class OtherSettings:
    name: str = setting("other")
    home: str = setting(attrs.Factory(lambda: "/home"))
    low: int = setting(1)
    high: int = setting(2)

    def __attrs_post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low is {self.low}, expected at most high, which is {self.high}")


def test_without_a_file_everything_has_its_default() -> None:
    loaded = load_settings(None, PortSettings, OtherSettings)
    assert loaded.values == (PortSettings(), OtherSettings())
    assert (loaded.warnings, loaded.unknown) == ((), {})
    assert loaded.of(OtherSettings).home == "/home"
    with pytest.raises(KeyError):
        loaded.of(Between)


def test_a_value_instead_of_a_class_brings_its_own_defaults() -> None:
    base = PortSettings(listen_port=9876)
    assert load_settings(None, base).values == (base,)
    assert settings_from_text("useTls=true", "f", base).values == (PortSettings(listen_port=9876, use_tls=True),)
    assert settings_from_text("listenPort=1", "f", base).values == (PortSettings(listen_port=1),)


def test_values_are_converted_and_a_key_may_belong_to_several_classes() -> None:
    text = (
        "listenPort = 9876 \nuseTls=TRUE\nratio=1.5e2\nflushDiskType=SYNC_FLUSH\nname=n \t\n"
        "serverWorkerThreads=3\nhigh=-0"
    )
    with pytest.raises(SettingsError, match=r"^f: low is 1, expected at most high, which is 0$"):
        settings_from_text(text, "f", PortSettings, OtherSettings)
    loaded = settings_from_text(text + "\nhigh=5", "f", PortSettings, OtherSettings)
    assert loaded.of(PortSettings) == PortSettings(
        listen_port=9876, use_tls=True, ratio=150.0, flush_disk_type=Flush.SYNC_FLUSH, name="n", worker_threads=3
    )
    assert loaded.of(OtherSettings) == OtherSettings(name="n", high=5)
    assert loaded.warnings == ("f line 8: high was set in line 7 already, this one counts",)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("listenPort=65536", "listenPort = '65536': expected an integer from 0 to 65535"),
        ("listenPort=", "listenPort = '': expected an integer from 0 to 65535"),
        ("serverWorkerThreads=0x10", "serverWorkerThreads = '0x10': expected an integer"),
        ("serverWorkerThreads=1_000", "serverWorkerThreads = '1_000': expected an integer"),
        ("serverWorkerThreads=\u0663", "serverWorkerThreads = '\u0663': expected an integer"),
        ("serverWorkerThreads=9223372036854775808", "serverWorkerThreads = '9223372036854775808': expected an integer"),
        ("useTls=yes", "useTls = 'yes': expected true or false"),
        ("ratio=nan", "ratio = 'nan': expected a number"),
        ("ratio=1_0", "ratio = '1_0': expected a number"),
        ("flushDiskType=async", "flushDiskType = 'async': expected one of SYNC_FLUSH, ASYNC_FLUSH"),
    ],
)
def test_a_wrong_value_names_file_line_key_value_and_what_was_expected(line: str, expected: str) -> None:
    later = "ratio" if line.startswith("useTls") else "useTls"
    with pytest.raises(SettingsError) as caught:
        settings_from_text(f"# first\n{line}\nname=x\n{later}=also wrong, but later", "broker.conf", PortSettings)
    assert str(caught.value) == f"broker.conf line 2: {expected}"


def test_an_unknown_key_is_a_warning_with_the_nearest_known_name() -> None:
    loaded = settings_from_text("listen_port=1\nzzz=2\nServerWorkerThread=4", "f", PortSettings)
    assert loaded.warnings == (
        "f line 1: unknown key listen_port has no effect; did you mean listenPort?",
        "f line 2: unknown key zzz has no effect",
        "f line 3: unknown key ServerWorkerThread has no effect; did you mean serverWorkerThreads?",
    )
    assert loaded.unknown == {"listen_port": "1", "zzz": "2", "ServerWorkerThread": "4"}


def test_a_value_in_quotes_is_a_warning_and_a_path_in_quotes_is_refused() -> None:
    """Quotes are part of a value in RocketMQ's format: such a path makes a directory whose name is a quote."""

    @attrs.frozen(kw_only=True)
    class Paths:
        root: str = setting("", fixed=True)
        name: str = setting("")

    loaded = settings_from_text("name='x'\nroot=a", "b.conf", Paths)
    assert loaded.warnings == ("b.conf line 1: the quotes of name are part of its value",)
    assert settings_from_text("name='x\nroot=''", "b.conf", Paths).warnings == ()
    with pytest.raises(SettingsError) as caught:
        settings_from_text('# x\nroot="/a b"', "b.conf", Paths)
    assert str(caught.value).startswith("""b.conf line 2: root = '"/a b"': expected a path without quotes""")


def test_a_sentence_about_a_setting_is_told_where_it_is_set() -> None:
    places = settings_from_text("\nname=x\nlistenPort=5", "b.conf", PortSettings).places
    assert located("high = 7: expected listenPort", places) == "b.conf line 3: high = 7: expected listenPort"
    for as_it_is in ("high = 7: expected less", "a.conf line 9: name = 'x': expected y"):
        assert located(as_it_is, places) == as_it_is


def test_a_file_is_read_as_utf8_or_else_latin1(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    for content in ("\ufeffname=é".encode(), "name=é".encode("iso-8859-1")):
        path.write_bytes(content)
        assert load_settings(str(path), PortSettings).of(PortSettings).name == "é"


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.conf: cannot be read: No such file or directory$"):
        load_settings(str(tmp_path / "missing.conf"), PortSettings)


def test_settings_are_printed_as_java_prints_them() -> None:
    lines = [
        "listenPort=8888",
        "useTls=false",
        "ratio=0.5",
        "flushDiskType=ASYNC_FLUSH",
        "name=",
        "serverWorkerThreads=8",
    ]
    assert format_settings(PortSettings()) == lines
    assert format_settings(PortSettings(), important_only=True) == ["listenPort=8888"]
    assert format_settings(PortSettings(name="first"), OtherSettings())[4:] == [
        "name=first", "serverWorkerThreads=8", "home=/home", "low=1", "high=2"
    ]  # fmt: skip
    assert "name" not in settings_values(PortSettings())
    assert settings_values(PortSettings(), important_only=True) == {"listenPort": "8888"}


def test_changes_make_a_new_value_and_leave_unknown_keys_alone() -> None:
    before = PortSettings()
    after = updated_settings(before, {"useTls": "true", "listenPort": "1", "whatever": "x"})
    assert (after, before) == (PortSettings(use_tls=True, listen_port=1), PortSettings())


def test_what_only_the_start_sets_cannot_be_changed() -> None:
    @attrs.frozen(kw_only=True)
    class Fixed:
        plug_in: str = setting("", fixed=True)

    assert settings_from_text("plugIn=a:b", "f", Fixed).of(Fixed) == Fixed(plug_in="a:b")
    with pytest.raises(SettingsError, match=r"^plugIn = 'c:d': expected no change, only the start sets it$"):
        updated_settings(Fixed(plug_in="a:b"), {"plugIn": "c:d"})
    assert updated_settings(Fixed(plug_in="a:b"), {"plugIn": "a:b"}) == Fixed(plug_in="a:b")


@pytest.mark.parametrize("value", ["x", "70000"])
def test_a_wrong_change_names_the_key(value: str) -> None:
    with pytest.raises(SettingsError, match=rf"^listenPort = '{value}': expected an integer from 0 to 65535$"):
        updated_settings(PortSettings(), {"listenPort": value})


def test_changes_that_break_a_rule_over_several_keys_together_are_refused() -> None:
    assert updated_settings(OtherSettings(), {"low": "7", "high": "8"}) == OtherSettings(low=7, high=8)
    with pytest.raises(SettingsError, match="low is 7, expected at most high, which is 2"):
        updated_settings(OtherSettings(), {"low": "7"})


def test_rows_describe_each_key() -> None:
    rows = {row.key: row for row in setting_rows(PortSettings)}
    assert (rows["listenPort"].default, rows["listenPort"].unit) == (8888, "port")
    assert rows["serverWorkerThreads"].ignored == "one event loop does the work"
    assert {row.key: row.default for row in setting_rows(OtherSettings)}["home"] == "/home"
    assert Between(0.5).expected == "a number, at least 0.5"


def test_what_is_live_is_replaced_in_place_and_the_rest_is_named() -> None:
    @attrs.frozen(kw_only=True)
    class Mixed:
        now: int = setting(1, live=True)
        later: int = setting(1)
        idle: int = setting(1, ignored="nothing uses it")
        same: int = setting(1)

    held = Mixed()
    assert replace_live(held, Mixed(now=2, later=3, idle=4)) == (["now", "idle"], ["later"])
    assert held == Mixed(now=2, later=1, idle=4)
    assert replace_live(held, held) == ([], [])


def test_what_no_request_may_change_cannot_be_live() -> None:
    with pytest.raises(AssertionError):
        setting("", live=True, fixed=True)


def test_an_accepted_value_is_followed_by_the_one_in_force() -> None:
    now, accepted = (OtherSettings(), PortSettings()), (OtherSettings(low=0), PortSettings(listen_port=1, name="x"))
    in_force = values_in_force(now, accepted)
    assert in_force == {"low.inForce": "1", "listenPort.inForce": "8888"}  # name is the first class's, and unchanged
    assert list(with_values_in_force({"low": "0", "high": "2", "listenPort": "1"}, in_force).items()) == [
        ("low", "0"), ("low.inForce", "1"), ("high", "2"), ("listenPort", "1"), ("listenPort.inForce", "8888"),
    ]  # fmt: skip
    assert values_in_force((PortSettings(),), (PortSettings(name="x"),)) == {"name.inForce": ""}
    assert values_in_force(now, now) == {}
