"""Every command of mqadmin 4.9.7 prints of a rocketpy cluster what it prints of a Java cluster in the same state.

The same steps are done with both, in one JVM each, and each command's outputs are compared without times, ids, ports
and measurements. What comes out must be what the table in ``docs/compatibility.md`` says.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import pytest

from tests.interop.cluster import Cluster, start_cluster
from tests.interop.mqadmin_session import MqadminSession
from tests.interop.mqadmin_steps import ACL_STEPS, NOT_RUN, STEPS, Step, comparable

pytestmark = pytest.mark.java

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
ROW = re.compile(r"^\| `(\w+)` \| (same|differs|not run) \| (.*) \|$", re.MULTILINE)
KINDS = ("java", "rocketpy")

SIZES = {
    "mappedFileSizeCommitLog": 16 << 20,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
    "enablePropertyFilter": "true",
}
"""What our brokers are given in tests, for both."""

OPERATOR = "accessKey: goldenAdmin\nsecretKey: golden12345678\n"
ACCOUNTS = """\
globalWhiteRemoteAddresses:
- 10.10.10.*
- 192.168.0.1

accounts:
- accessKey: goldenAdmin
  secretKey: golden12345678
  whiteRemoteAddress:
  admin: true

- accessKey: goldenUser
  secretKey: user12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - GoldTopic=PUB|SUB
  - GoldDenied=DENY
  groupPerms:
  - GoldGroup=PUB|SUB
"""


@attrs.frozen
class Output:
    """What one command printed, without what varies."""

    step: Step
    text: str


def table() -> dict[str, tuple[str, str]]:
    """Result and note of each command, as the page has them."""
    section = PAGE.read_text().split("\n## mqadmin\n", 1)[1].split("\n## ", 1)[0]
    rows = {name: (result, note) for name, result, note in ROW.findall(section)}
    assert len(rows) == section.count("\n| ") - 1, "a row of the table is not in the usual form"
    return rows


TABLE = table()


def done(session: MqadminSession, steps: Sequence[Step]) -> Iterator[Output]:
    """Do the steps and yield what the commands print, with the files that they write."""
    for step in steps:
        if step.kind == "run":
            printed = session.run(step.arguments, until=step.until)
            text = "\n".join([printed.text, *written_files(session)])
            yield Output(step, session.without_what_varies(text))
        elif step.kind == "send":
            session.send(**step.fields)
        else:
            session.consume(**step.fields)


def written_files(session: MqadminSession) -> list[str]:
    """Return and remove what the last command has written below ``export``."""
    files = sorted((session.directory / "export").rglob("*.json"))
    texts = [f"--- {path.name}\n{path.read_text()}" for path in files]
    for path in files:
        path.unlink()
    return texts


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Output, Output]]:
    """The outputs of all commands: Java's and ours."""
    java, ours = (outputs_of(kind, tmp_path_factory.mktemp(kind), STEPS) for kind in KINDS)
    return list(zip(java, ours, strict=True))


@pytest.fixture(scope="module")
def outputs_with_accounts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Output, Output]]:
    """The outputs of the commands about accounts: Java's and ours."""
    found = []
    for kind in KINDS:
        directory = tmp_path_factory.mktemp(f"{kind}-acl")
        conf = directory / "cluster" / "broker-0-home" / "conf"  # where the Java broker looks
        conf.mkdir(parents=True)
        (conf / "plain_acl.yml").write_text(ACCOUNTS)
        settings: dict[str, object] = {"aclEnable": "true"}
        if kind == "rocketpy":
            settings["aclDirectory"] = conf
        found.append(outputs_of(kind, directory, ACL_STEPS, settings=settings, tools_yml=OPERATOR))
    java, ours = found
    return list(zip(java, ours, strict=True))


def outputs_of(
    kind: str,
    directory: Path,
    steps: Sequence[Step],
    *,
    settings: Mapping[str, object] | None = None,
    tools_yml: str = "",
) -> list[Output]:
    """Do the steps with a cluster of one broker."""
    cluster = start_cluster(kind, directory / "cluster", settings={**SIZES, **(settings or {})})
    try:
        with MqadminSession(cluster, directory / "tool", tools_yml=tools_yml) as session:
            return list(done(session, steps))
    finally:
        cluster.stop()


def differences(pairs: Sequence[tuple[Output, Output]]) -> dict[str, list[str]]:
    """Return the lines in which outputs differ, by command."""
    found: dict[str, list[str]] = {}
    for java, ours in pairs:
        name = java.step.command
        expected, actual = comparable(name, java.text), comparable(name, ours.text)
        lines = list(
            difflib.unified_diff(expected.splitlines(), actual.splitlines(), "java", "rocketpy", "", "", 0, "")
        )
        found.setdefault(name, []).extend([f"mqadmin {java.step.title}", *lines] if lines else [])
    return found


def check_table(pairs: Sequence[tuple[Output, Output]]) -> None:
    """Fail, with what differs, when the table says of a command what is not so."""
    wrong = []
    for name, lines in differences(pairs).items():
        result, _ = TABLE.get(name, ("same", ""))
        if (not lines) != (result == "same"):
            wrong += [f"{name} is said to be {result}", *lines]
    assert not wrong, "\n".join(wrong)


def test_each_command_prints_what_the_table_says(outputs: list[tuple[Output, Output]]) -> None:
    check_table(outputs)


def test_commands_about_accounts(outputs_with_accounts: list[tuple[Output, Output]]) -> None:
    check_table(outputs_with_accounts)


def test_every_command_has_a_row(tmp_path: Path) -> None:
    """The tool's own list of its commands, which it prints without any."""
    nowhere = Cluster("none", "127.0.0.1:1", {"broker-0": "127.0.0.1:2"}, tmp_path)
    with MqadminSession(nowhere, tmp_path / "tool") as session:
        commands = set(re.findall(r"(?m)^   (\w+) ", session.run([]).text))
    assert TABLE.keys() == commands
    run = {step.command for step in (*STEPS, *ACL_STEPS) if step.kind == "run"} - {"noSuchCommand"}
    assert commands == run | NOT_RUN.keys()
    for name, why in NOT_RUN.items():
        assert TABLE[name] == ("not run", why)
