"""``docs/architecture.md`` and ``docs/testing.md``: paths exist, each folder is on the map, the examples work."""

from __future__ import annotations

import importlib
import re
import sys
import types
from pathlib import Path

import pytest

from rocketpy.broker.hooks import NO_HOOKS, SendMessageContext
from rocketpy.errors import SettingsError
from rocketpy.store.plug_in import PlugInMessageStore, load_factories
from tests.page_text import ROOT, blocks, exists, links, missing_imports, named_paths

ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
TESTING = (ROOT / "docs" / "testing.md").read_text()
FLOORS_OF_FOLDERS = ("broker", "store")
EXAMPLES = re.findall(r"^# (my/\w+\.py)$", ARCHITECTURE, re.MULTILINE)
"""Names of files that the page makes up for its examples."""


@pytest.mark.parametrize("page", [ARCHITECTURE, TESTING], ids=["architecture", "testing"])
def test_every_path_and_link_leads_somewhere(page: str) -> None:
    assert [path for path in named_paths(page) if not exists(path)] == []
    assert [target for target in links(page) if not (ROOT / "docs" / target).exists()] == []


def test_every_folder_of_a_floor_is_on_the_code_map() -> None:
    """The code map has a row for each floor, and for each folder of the broker and of the store."""
    code_map = ARCHITECTURE.split("\n## Code map\n", 1)[1].split("\n## ", 1)[0]
    rows = {path for line in code_map.splitlines() for path in named_paths(line.split("|")[1] if "|" in line else "")}
    folders = {f"{path.parent.name}/" for path in (ROOT / "rocketpy").glob("*/__init__.py")}
    for floor in FLOORS_OF_FOLDERS:
        folders |= {f"{floor}/{path.parent.name}/" for path in (ROOT / "rocketpy" / floor).glob("*/__init__.py")}
    assert folders - rows == set()


def test_imports_of_the_code_blocks_work() -> None:
    assert [found for block in blocks(ARCHITECTURE, "python") for found in missing_imports(block)] == []


def test_modules_of_the_public_interface_exist() -> None:
    public = ARCHITECTURE.split("\n## Public API\n", 1)[1]
    names = re.findall(r"`(rocketpy(?:\.\w+)+)`", public) + ["rocketpy.store.plug_in", "rocketpy.broker.hooks"]
    for name in names:
        importlib.import_module(name)


def load_example(name: str) -> types.ModuleType:
    """Return a module with the code of the example that begins with ``# name``."""
    (code,) = [block for block in blocks(ARCHITECTURE, "python") if block.startswith(f"# {name}\n")]
    module = types.ModuleType(name.removesuffix(".py").replace("/", "."))
    exec(compile(code, name, "exec"), vars(module))
    return module


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> dict[str, types.ModuleType]:
    """Return the examples of the page, importable under their names."""
    modules = {name: load_example(name) for name in EXAMPLES}
    monkeypatch.setitem(sys.modules, "my", types.ModuleType("my"))
    for module in modules.values():
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return modules


def named_in_the_text(key: str) -> str:
    """Return the value that the page gives a setting outside code blocks."""
    (value,) = set(re.findall(rf"`{key}=(my\.[\w.:]+)`", ARCHITECTURE))
    return value


def test_the_plug_in_of_the_page_is_loaded_by_its_name(examples: dict[str, types.ModuleType]) -> None:
    (factory,) = load_factories(named_in_the_text("messageStorePlugIn"))
    assert factory is examples["my/module.py"].CountingStore
    assert isinstance(factory, type)
    assert issubclass(factory, PlugInMessageStore)


def test_the_hook_of_the_page_is_loaded_by_its_name_and_counts(examples: dict[str, types.ModuleType]) -> None:
    (hook,) = NO_HOOKS.with_configured(named_in_the_text("sendMessageHooks"), "").send
    assert isinstance(hook, examples["my/audit.py"].AuditHook)
    context = SendMessageContext(
        namespace="",
        producer_group="g",
        topic="t",
        body_length=1,
        msg_props="",
        msg_unique_key="",
        born_host="127.0.0.1:1",
        born_timestamp=0,
        broker_addr="127.0.0.1:10911",
        broker_region_id="r",
        queue_id=0,
        is_success=True,
    )
    hook.send_message_before(context)
    hook.send_message_after(context)
    assert vars(hook)["count"] == 1


@pytest.mark.parametrize("key", ["messageStorePlugIn", "sendMessageHooks", "consumeMessageHooks"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("rocketpy.store.commit_log:CommitLog", "rocketpy.store.commit_log cannot be imported: No module named"),
        ("rocketpy.broker.processors.send:Hook", "rocketpy.broker.processors.send cannot be imported: No module named"),
        ("rocketpy.store.disk:OsDisk", "rocketpy.store.disk has no OsDisk that can be called"),
        ("my.moved:factory", "my.moved cannot be imported: No module named 'rocketpy.store.commit_log'"),
    ],
    ids=["module-moved", "package-gone", "module-now-a-package", "plug-in-imports-moved-module"],
)
def test_a_setting_that_names_a_module_that_is_not_there_says_which_and_what_was_expected(
    key: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A module of rocketpy that is not public may move: the error names the module, the key and the value."""
    package = tmp_path / "my"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "moved.py").write_text("from rocketpy.store.commit_log import CommitLog\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("my", "my.moved"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SettingsError) as refused:
        if key == "messageStorePlugIn":
            load_factories(value)
        else:
            NO_HOOKS.with_configured(*((value, "") if key.startswith("send") else ("", value)))
    text = str(refused.value)
    assert text.startswith(f"{key} = {value!r}: expected package.module:factory")
    assert why in text
