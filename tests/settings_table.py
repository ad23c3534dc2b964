"""The tables of settings in ``docs/compatibility.md``: made from the code but for the tests and notes that rows have.

``python -m tests.settings_table`` rewrites them: new settings get a row whose test is ``?``, which fails the suite
until a test is named.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig, TlsClientConfig, TlsServerConfig
from rocketpy.settings import SettingRow, setting_rows
from rocketpy.store.config import MessageStoreConfig

PAGE = Path(__file__).resolve().parents[1] / "docs" / "compatibility.md"
CLASSES: dict[str, type] = {
    each.__name__: each
    for each in (
        BrokerConfig,
        NettyServerConfig,
        NettyClientConfig,
        TlsServerConfig,
        TlsClientConfig,
        MessageStoreConfig,
        NamesrvConfig,
    )
}
HEADING = "\n## Settings\n"
COLUMNS = "| setting | effect | a change by request counts | test | note |\n|---|---|---|---|---|\n"
NO_EFFECT_TEST = "tests/test_settings_page.py::test_a_setting_without_effect_is_never_read"
_ROW = re.compile(r"^\| `([\w.]+)` \| (honoured|no effect) \| ([a-z ]+) \| (\S+) \| (.*) \|$", re.MULTILINE)


@attrs.frozen
class Row:
    """One row: the setting, and what the page says of it."""

    key: str
    effect: str
    counts: str
    test: str
    note: str

    @property
    def line(self) -> str:
        """The row as it stands on the page."""
        return f"| `{self.key}` | {self.effect} | {self.counts} | {self.test} | {self.note} |\n"


def section_of(page: str) -> str:
    """The part of the page about settings."""
    return page.split(HEADING, 1)[1].split("\n## ", 1)[0]


def rows_of(page: str, class_name: str) -> dict[str, Row]:
    """The rows of a class's table, by key."""
    section = section_of(page) + "\n### "
    table = (
        section.split(f"\n### {class_name}\n", 1)[1].split("\n### ", 1)[0] if f"\n### {class_name}\n" in section else ""
    )
    rows = {found[0]: Row(*found) for found in _ROW.findall(table)}
    assert len(rows) == max(0, table.count("\n| ") - 1), f"a row of {class_name} is not in the usual form"
    return rows


def made_row(setting: SettingRow, known: Row | None) -> Row:
    """The row of a setting: from its declaration, and with test and note of the row that is there."""
    counts = "never" if setting.fixed else "at once" if setting.live else "next start"
    if setting.ignored is not None:
        return Row(setting.key, "no effect", counts if setting.fixed else "at once", NO_EFFECT_TEST, setting.ignored)
    has_test = known is not None and known.effect == "honoured"
    return Row(
        setting.key,
        "honoured",
        counts,
        known.test if has_test and known else "?",
        known.note if known and has_test else "",
    )


def made_tables(page: str) -> str:
    """The tables of all classes, as they ought to stand on the page."""
    text = ""
    for name, settings_class in CLASSES.items():
        known = rows_of(page, name)
        text += f"\n### {name}\n\n{COLUMNS}"
        text += "".join(made_row(setting, known.get(setting.key)).line for setting in setting_rows(settings_class))
    return text


def main() -> None:
    """Rewrite the tables."""
    page = PAGE.read_text()
    section = section_of(page)
    intro = section.split("\n### ", 1)[0].rstrip("\n") + "\n"
    PAGE.write_text(page.replace(section, intro + made_tables(page), 1))


if __name__ == "__main__":
    main()
