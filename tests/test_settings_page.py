"""Every setting has a row in ``docs/compatibility.md``, every honoured one a test; nothing is honoured in words only.

Three things must agree: the declaration, the code that reads the setting, and the page. A setting that nothing reads
fails, and so does one that is said to have no effect and is read. That a named test sees the effect of its setting is
shown by :mod:`tests.ignored_settings`.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from rocketpy.settings import SettingRow, setting_rows
from tests.settings_table import CLASSES, PAGE, made_tables, rows_of, section_of

ROOT = PAGE.parents[1]
SETTINGS = [
    pytest.param(name, row, id=f"{name}-{row.key}")
    for name, settings_class in CLASSES.items()
    for row in setting_rows(settings_class)
]
HONOURED = [each for each in SETTINGS if each.values[1].ignored is None]  # type: ignore[union-attr]
WITHOUT_EFFECT = [each for each in SETTINGS if each.values[1].ignored is not None]  # type: ignore[union-attr]

SHOWN_ONLY = {
    "rocketpy/broker/start_settings.py": {
        "haListenPort",  # noted at the start, as RocketMQ does
        "bitMapLengthConsumeQueueExt",
        "clientCallbackExecutorThreads",  # which mqadmin exportMetrics takes for the number of CPUs
        "enableDLegerCommitLog",  # true is refused
    },
    "rocketpy/broker/pull/processor.py": {
        "brokerId",  # of a group
    },
    "rocketpy/nameserver/routes/broker_table.py": {"brokerId"},  # of a broker that registers
    "rocketpy/nameserver/routes/registration.py": {"brokerId"},  # of a broker that registers
    "rocketpy/broker/admin/broker.py": {  # figures of GET_BROKER_RUNTIME_INFO
        "sendThreadPoolQueueCapacity",
        "pullThreadPoolQueueCapacity",
        "queryThreadPoolQueueCapacity",
        "endTransactionPoolQueueCapacity",
    },
}
"""Settings without effect that a module reads all the same, to show or to refuse them."""


HOME_OF = {"NamesrvConfig": "rocketpy/nameserver/", "BrokerConfig": "rocketpy/broker/"}
"""Where the settings of a class are read, for names that two classes have."""


@cache
def readers() -> dict[str, set[str]]:
    """For the name of each setting, the modules that read an attribute of that name."""
    found: dict[str, set[str]] = {}
    names = "|".join({each.values[1].name for each in SETTINGS})  # type: ignore[union-attr]
    is_named = re.compile(rf"\.\s*({names})\b")
    for path in sorted((ROOT / "rocketpy").rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if is_named.search(source) else ():
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.attr, set()).add(str(path.relative_to(ROOT)))
    return found


@cache
def functions_of(path: Path) -> frozenset[str]:
    """The names of the tests of a file."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions))


def test_the_tables_are_what_the_code_makes_of_them() -> None:
    """``python -m tests.settings_table`` rewrites them; tests and notes are kept."""
    page = PAGE.read_text()
    section = section_of(page)
    assert section[section.index("\n### ") :].rstrip("\n") == made_tables(page).rstrip("\n")


@pytest.mark.parametrize(("name", "row"), HONOURED)
def test_an_honoured_setting_is_read_and_has_a_test(name: str, row: SettingRow) -> None:
    assert readers().get(row.name), f"{row.key} is documented and never read"
    named = rows_of(PAGE.read_text(), name)[row.key].test
    path, _, function = named.partition("::")
    assert (ROOT / path).is_file(), f"{row.key}: the page names no test, but {named}"
    assert function in functions_of(ROOT / path), f"{row.key}: {named} does not exist"


@pytest.mark.parametrize(("name", "row"), WITHOUT_EFFECT)
def test_a_setting_without_effect_is_never_read(name: str, row: SettingRow) -> None:
    found = {each for each in readers().get(row.name, ()) if not each.endswith("config.py")}
    if any(row.name == other.values[1].name for other in HONOURED):  # type: ignore[union-attr]
        # Honoured in another class: a reader of that one looks like one of this, but for where it is.
        found = {each for each in found if each.startswith(HOME_OF[name])}
    found -= {module for module, keys in SHOWN_ONLY.items() if row.key in keys}
    assert not found, f"{row.key} is said to have no effect ({row.ignored}) and is read in {sorted(found)}"
